// The registry of open files: those whose state the server has, and which are reclaimed after it restarted.
//
// Whoever opens a file registers its Open (open_state.h) and releases it when the server has closed it, or
// nobody can use it any more. The registry holds on to each in between; what recovers one in a task holds on
// to it, too, and finds by Open::held whether it was released meanwhile. The order is that of registration,
// whatever comes and goes, so that all of them can be gone through with calls to the server in between:
//
//     for (auto at = opens.all().begin(); at != opens.all().end(); at = opens.all().upper_bound(number)) …
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "nfs4/open_state.h"

namespace nfsrdma::nfs4 {

class Opens {
 public:
  Opens() = default;
  Opens(const Opens&) = delete;
  Opens& operator=(const Opens&) = delete;

  void hold(const std::shared_ptr<Open>& open) {
    open->number = ++last_;
    open->held = true;
    all_.emplace_hint(all_.end(), open->number, open);
  }
  /// Nothing where it is not registered.
  void release(Open& open) {
    if (!std::exchange(open.held, false)) return;
    all_.erase(open.number);
    if (on_release) on_release(open);
  }
  /// Makes an open owner unique (Open::owner).
  [[nodiscard]] std::uint64_t next_owner() { return ++last_owner_; }

  [[nodiscard]] const std::map<std::uint64_t, std::shared_ptr<Open>>& all() const { return all_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  /// Ranges that are locked.
  [[nodiscard]] std::size_t locks() const {
    std::size_t out = 0;
    for (const auto& [number, open] : all_) {
      for (const auto& [owner, state] : open->locks) out += state->held.list().size();
    }
    return out;
  }

  /// Called when one was released.
  std::function<void(Open& open)> on_release;

 private:
  std::map<std::uint64_t, std::shared_ptr<Open>> all_;  // by Open::number
  std::uint64_t last_ = 0;
  std::uint64_t last_owner_ = 0;
};

}  // namespace nfsrdma::nfs4
