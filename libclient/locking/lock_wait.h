// A wait for a byte-range lock: woken by the server's CB_NOTIFY_LOCK (RFC 8881 20.11) and by whoever gives
// up.
//
// Confined to the loop's thread. Both wake the waiter from the loop, not from inside the call.
#pragma once

#include <utility>

#include "async/event.h"

namespace nfsrdma::locking {

class LockWait {
 public:
  explicit LockWait(async::Loop& loop) : woken_(loop) {}
  /// Ends the wait, also one that has yet to begin.
  void cancel() {
    cancelled_ = true;
    woken_.notify_all();
  }
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  /// The lock may be had.
  void notify() {
    notified_ = true;
    woken_.notify_all();
  }
  /// Whether it was since this was asked last.
  bool take_notified() { return std::exchange(notified_, false); }
  /// Makes the waiter look.
  void wake() { woken_.notify_all(); }
  [[nodiscard]] async::Event::Wait until(async::TimePoint when) { return woken_.wait_until(when); }

 private:
  async::Event woken_;
  bool cancelled_ = false;
  bool notified_ = false;
};

}  // namespace nfsrdma::locking
