// Bound on how often a refused request is made again because the server's condition may pass, and the pauses
// between. For callers that repeat a request themselves; ClientLease::call_loop (state/client_lease.cpp) repeats every
// call that the server asks to wait with.
//
//     for (Retries retries(loop, deadline);;) {
//       … the request, its `status` …
//       const bool again = co_await retries.again(status);
//       if (!again) …the status is the server's last word
//     }
//
// The table of statuses decides (Retry in wire/nfs4/status.h). A request that the server asks to wait with is
// tried until the deadline. A request that fails because of the server's own trouble is tried kMostTroubled
// times in a row. The pauses grow (pacing.h).
//
// Confined to the loop's thread.
#pragma once

#include "async/backoff.h"
#include "async/loop.h"
#include "async/task.h"
#include "nfs4/compound/pacing.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {

class Retries {
 public:
  /// The pauses for a server in trouble add up to 1.3 s.
  static constexpr int kMostTroubled = 6;

  Retries(async::Loop& loop, async::TimePoint deadline) : loop_(loop), deadline_(deadline) {}

  /// Whether a request that was refused with `status` may still be made again. Does not wait.
  [[nodiscard]] bool may_try(nfsstat4 status) const {
    const Retry retry = retry_of(status);
    const bool bounded = retry == Retry::some_times && troubled_ >= kMostTroubled;
    return passes(retry) && !bounded && loop_.now() + pause_.next() < deadline_;
  }
  /// Waits for the pause before the next try. Returns false if there is to be none.
  async::Task<bool> again(nfsstat4 status) {
    if (!may_try(status)) co_return false;
    troubled_ = retry_of(status) == Retry::some_times ? troubled_ + 1 : 0;
    co_await loop_.sleep_for(pause_.take());
    co_return true;
  }

 private:
  async::Loop& loop_;
  const async::TimePoint deadline_;
  async::Backoff pause_{kFirstDelay, kMostDelay};
  int troubled_ = 0;  ///< refusals in a row because of the server's own trouble
};

}  // namespace nfsrdma::nfs4
