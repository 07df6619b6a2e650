// A record of the users whom the server lets look names up in a directory. The server has shown that for a
// user if it answered one of his LOOKUPs, be it with a file or with NFS4ERR_NOENT.
//
// On a mount for several users the kernel caches no names, and looks up each name of a path on behalf of the
// user who walks it (NameRequests::lookup). The grants remembered here allow known names to be returned without
// a call to the server. A grant is valid for as long as attributes of directories are, and only while the
// directory keeps its time of change (ctime), which a change of its mode, owner or ACL moves. Refusals are
// not kept.
//
// Bounded: with more than kMost users the oldest grant is forgotten. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "async/world.h"
#include "engine/engine.h"

namespace nfsrdma::fs {

class SearchRights {
 public:
  using Caller = engine::Caller;
  static constexpr std::size_t kMost = 16;

  [[nodiscard]] bool has(const Caller& caller, async::TimePoint now) const {
    return std::ranges::any_of(
        grants_, [&](const Grant& one) { return is_same(one.caller, caller) && now < one.until; });
  }
  void granted(const Caller& caller, async::TimePoint until) {
    std::erase_if(grants_, [&](const Grant& one) { return is_same(one.caller, caller); });
    if (grants_.size() == kMost) grants_.erase(grants_.begin());
    grants_.push_back({caller, until});
  }
  void forget() { grants_.clear(); }
  /// Takes the directory's time of change from an answer of the server, and forgets all grants if it differs.
  void handle_change(const Time& changed) {
    if (changed == changed_) return;
    changed_ = changed;
    forget();
  }

 private:
  struct Grant {
    Caller caller;
    async::TimePoint until;
  };

  std::vector<Grant> grants_;  // oldest first
  Time changed_{};
};

}  // namespace nfsrdma::fs
