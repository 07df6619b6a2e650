// Event: tasks wait for it, first come first served, each up to a deadline of its own.
//
// Confined to the loop's thread. A task that is destroyed while it waits leaves the queue. notify_one() and
// notify_all() resume waiters from the loop, not from inside the call.
#pragma once

#include <coroutine>

#include "async/loop.h"

namespace nfsrdma::async {

class Event {
 public:
  explicit Event(Loop& loop) : loop_(loop) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  class Wait final : private Loop::Wake, private Loop::Timer {
   public:
    Wait(Event& event, TimePoint deadline) : event_(event), deadline_(deadline) {}
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() {
      // This task was notified, and destroyed before it could run. Pass the notification on to another
      // waiter.
      if (notified_ && !resumed_) event_.notify_one();
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> task) {
      task_ = task;
      event_.queue_.push_back(*this);
      if (deadline_ != TimePoint::max()) event_.loop_.set(*this, deadline_);
    }
    /// Returns false if the deadline came first.
    bool await_resume() noexcept {
      resumed_ = true;
      return notified_;
    }

   private:
    friend class Event;
    void on_wake() override { task_.resume(); }
    void on_time() override {
      leave();
      task_.resume();
    }
    Event& event_;
    const TimePoint deadline_;
    std::coroutine_handle<> task_;
    bool notified_ = false;
    bool resumed_ = false;
  };

  [[nodiscard]] Wait wait_until(TimePoint deadline) { return {*this, deadline}; }
  [[nodiscard]] bool awaited() const { return !queue_.empty(); }

  /// Wakes the first waiter from the loop. If no task waits, the notification is lost.
  void notify_one() {
    if (queue_.empty()) return;
    auto& first = static_cast<Wait&>(queue_.front());
    first.notified_ = true;
    first.cancel();
    loop_.wake(first);
  }
  void notify_all() {
    while (!queue_.empty()) notify_one();
  }

 private:
  Loop& loop_;
  Loop::Wakes queue_;
};

}  // namespace nfsrdma::async
