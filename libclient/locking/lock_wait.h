// A task's wait for a byte-range lock. Two things wake it: the server's CB_NOTIFY_LOCK (RFC 8881 20.11) or
// NLM_GRANTED, and a caller that gives up.
//
// Confined to the loop's thread. The waiter resumes from the loop, not from inside the call that wakes it.
#pragma once

#include <utility>

#include "async/event.h"

namespace nfsrdma::locking {

class LockWait {
 public:
  explicit LockWait(async::Loop& loop) : woken_(loop) {}
  /// Ends the wait. cancelled() stays true, so that a wait which has yet to begin ends at once, too.
  void cancel() {
    cancelled_ = true;
    woken_.notify_all();
  }
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  /// Called when the lock may have become free.
  void notify() {
    notified_ = true;
    woken_.notify_all();
  }
  /// Returns whether notify() was called since the previous call of this function.
  bool take_notified() { return std::exchange(notified_, false); }
  /// Resumes the waiter without a change of state, so that it checks its own conditions again.
  void wake() { woken_.notify_all(); }
  [[nodiscard]] async::Event::Wait until(async::TimePoint when) { return woken_.wait_until(when); }

 private:
  async::Event woken_;
  bool cancelled_ = false;
  bool notified_ = false;
};

}  // namespace nfsrdma::locking
