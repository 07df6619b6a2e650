// A record of the users whom the server lets look names up in a directory. The server has shown that for a user if it
// answered one of his LOOKUPs, be it with a file or with NFS4ERR_NOENT.
//
// On a mount for several users the kernel believes no name of its own, and asks for each name of a path in the name of
// the one who walks it (FileSystem::lookup). What is remembered here lets the names that are known be answered without
// a word to the server. A grant holds for as long as attributes of directories are believed, and no longer than the
// directory has the same time of change (ctime), which a change of its mode, owner or ACL moves. Refusals are not kept.
//
// Bounded: of more than kMost users those are forgotten whom the server granted it longest ago. Pure.
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
  /// The server says when the directory was changed last.
  void heed(const Time& changed) {
    if (changed == changed_) return;
    changed_ = changed;
    forget();
  }

 private:
  struct Grant {
    Caller caller;
    async::TimePoint until;
  };
  static bool is_same(const Caller& a, const Caller& b) { return a == b || (a && b && *a == *b); }

  std::vector<Grant> grants_;  // the oldest stands first
  Time changed_{};
};

}  // namespace nfsrdma::fs
