// Event: tasks wait for it, first come first served, each up to a deadline of its own.
//
// Confined to the loop's thread. A task that is destroyed while it waits leaves the queue. notify_one() and
// notify_all() resume waiters from the loop, not from inside the call.
#pragma once

#include <coroutine>
#include <list>

#include "async/loop.h"

namespace nfsrdma::async {

class Event {
 public:
  explicit Event(Loop& loop) : loop_(loop) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  class Wait {
   public:
    Wait(Event& event, TimePoint deadline) : event_(event), deadline_(deadline) {}
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() {
      leave();
      // This task was notified, and destroyed before it could run. Pass the notification on to another
      // waiter.
      if (notified_ && !resumed_) event_.notify_one();
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> task) {
      task_ = task;
      place_ = event_.queue_.insert(event_.queue_.end(), this);
      queued_ = true;
      if (deadline_ != TimePoint::max()) {
        timer_ = event_.loop_.at(deadline_, [this] {
          timer_ = 0;
          wake();
        });
      }
    }
    /// Returns false if the deadline came first.
    bool await_resume() noexcept {
      resumed_ = true;
      return notified_;
    }

   private:
    friend class Event;
    void leave() {
      if (queued_) event_.queue_.erase(place_);
      queued_ = false;
      if (timer_ != 0) event_.loop_.cancel(timer_);
      timer_ = 0;
    }
    void wake() {
      leave();
      task_.resume();
    }
    Event& event_;
    TimePoint deadline_;
    std::coroutine_handle<> task_;
    std::list<Wait*>::iterator place_;
    Loop::TimerId timer_ = 0;
    bool queued_ = false;
    bool notified_ = false;
    bool resumed_ = false;
  };

  [[nodiscard]] Wait wait_until(TimePoint deadline) { return {*this, deadline}; }
  [[nodiscard]] bool awaited() const { return !queue_.empty(); }

  /// Wakes the first waiter from the loop. If no task waits, the notification is lost.
  void notify_one() {
    if (queue_.empty()) return;
    Wait* first = queue_.front();
    queue_.pop_front();
    first->queued_ = false;
    first->notified_ = true;
    if (first->timer_ != 0) loop_.cancel(first->timer_);
    // The wake-up is a timer that is due now. It fires in the loop's next turn, and is cancelled if the task
    // is destroyed before.
    first->timer_ = loop_.at(TimePoint::min(), [first] {
      first->timer_ = 0;
      first->wake();
    });
  }
  void notify_all() {
    while (!queue_.empty()) notify_one();
  }

 private:
  Loop& loop_;
  std::list<Wait*> queue_;
};

}  // namespace nfsrdma::async
