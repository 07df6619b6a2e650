// Limits how often one operation has its file's state recovered, or its lock claimed again, because
// the server has lost it.
//
// Restarts and leases that end may come as often as they like, as long as the caller waits. A server that
// loses at once what it has just given is at fault: after some losses in a row, with pauses that grow, its
// answer goes to the caller.
//
// Confined to the loop's thread.
#pragma once

#include "async/backoff.h"
#include "async/loop.h"
#include "async/task.h"

namespace nfsrdma::nfs4 {

class LossLimit {
 public:
  LossLimit(async::Loop& loop, async::TimePoint deadline) : loop_(loop), deadline_(deadline) {}

  /// Returns whether to try again: not if nothing was `lost`, if it was lost too often in a row, or if the
  /// deadline comes first. Waits for a pause before if the first tries have not helped.
  async::Task<bool> again(bool lost) {
    if (!lost) co_return false;
    if (loop_.now() - last_ >= kLongAgo) {
      in_a_row_ = 0;
      pause_ = async::Backoff(kFirstPause, kLongestPause);
    }
    last_ = loop_.now();
    ++in_a_row_;
    const bool pauses = in_a_row_ > kAtOnce;
    if (in_a_row_ > kMost || loop_.now() >= deadline_ ||
        (pauses && loop_.now() + pause_.next() >= deadline_)) {
      co_return false;
    }
    if (pauses) co_await loop_.sleep_for(pause_.take());
    co_return true;
  }

 private:
  static constexpr int kAtOnce = 3, kMost = 8;
  static constexpr async::Clock::duration kFirstPause = std::chrono::milliseconds(50),
                                          kLongestPause = std::chrono::seconds(2),
                                          kLongAgo = std::chrono::seconds(4);
  async::Loop& loop_;
  const async::TimePoint deadline_;
  async::TimePoint last_{};
  int in_a_row_ = 0;
  async::Backoff pause_{kFirstPause, kLongestPause};
};

}  // namespace nfsrdma::nfs4
