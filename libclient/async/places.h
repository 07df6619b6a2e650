// Limits how many tasks do something at once. A task that comes when all places are taken waits, first come
// first served, until one is free.
//
//     Places places(loop, 8);
//     bool in_time = true;
//     if (places.must_wait()) in_time = co_await places.wait(deadline);
//     if (!in_time) …
//     const Places::Place place(places);     // at once: no other task may come in between
//
// A task that must not wait for others may take a Place without waiting.
//
// Line is the queue behind Places. The slots of a session have a queue of their own, whose waiters need not be
// tasks (nfs4/session/slot_queue.h).
//
// Confined to the loop's thread. The Places must outlive each Place and each wait.
#pragma once

#include <cstdint>

#include "async/event.h"
#include "async/task.h"

namespace nfsrdma::async {

/// A queue of tasks that wait for a resource that other tasks give back.
///
/// An Event removes a waiter from its queue when it wakes it, and the waiter runs later. In between the free
/// resource is reserved for that waiter, so a newcomer must check awaited() first. Only one waiter at a time
/// is woken, because a second one that found nothing would have lost its place in the queue. So a waiter that
/// was served must wake the next, if more is free. A waiter that is destroyed before it could run passes its
/// turn on to the next (event.h).
class Line {
 public:
  explicit Line(Loop& loop) : turn_(loop) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// Returns whether any task waits, including one that was woken and has not run.
  [[nodiscard]] bool awaited() const { return waiting_ != 0; }
  /// Wakes the first waiter. Call this whenever the resource is available: when some was given back, and when
  /// a waiter was served and more is free.
  void wake_first() {
    if (woken_ || !turn_.awaited()) return;
    woken_ = true;
    turn_.notify_one();
  }
  /// Waits until take() returns true. take() is called whenever it is this task's turn. Returns false if the
  /// deadline came first. If take() returns false, the resource was taken in the meantime, and the task waits
  /// again, behind the others.
  template <class Take>
  Task<bool> wait(TimePoint deadline, Take take) {
    const Waiting one(*this);
    for (;;) {
      const bool in_time = co_await turn_.wait_until(deadline);
      if (!in_time) co_return false;
      woken_ = false;
      if (take()) co_return true;
    }
  }

 private:
  class Waiting {
   public:
    explicit Waiting(Line& line) : line_(line) { ++line_.waiting_; }
    /// If the last waiter was destroyed after it was woken, the Event had no other waiter to pass the turn on
    /// to.
    ~Waiting() {
      if (--line_.waiting_ == 0) line_.woken_ = false;
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Line& line_;
  };

  Event turn_;
  unsigned waiting_ = 0;
  bool woken_ = false;  // one of the waiters was woken, and has not run yet
};

class Places {
 public:
  Places(Loop& loop, std::uint32_t most) : most_(most), line_(loop) {}

  class Place {
   public:
    explicit Place(Places& all) : all_(all) {
      ++all_.taken_;
      all_.wake_first();  // several may have come free at once
    }
    ~Place() {
      --all_.taken_;
      all_.wake_first();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Places& all_;
  };

  /// Returns whether a newcomer must wait. Tasks that wait already go before newcomers.
  [[nodiscard]] bool must_wait() const { return taken_ >= most_ || line_.awaited(); }
  /// Returns false if the deadline came first.
  Task<bool> wait(TimePoint deadline) {
    if (!must_wait()) co_return true;
    co_return co_await line_.wait(deadline, [this] { return taken_ < most_; });
  }
  [[nodiscard]] std::uint32_t taken() const { return taken_; }

 private:
  void wake_first() {
    if (taken_ < most_) line_.wake_first();
  }

  const std::uint32_t most_;
  std::uint32_t taken_ = 0;
  Line line_;
};

}  // namespace nfsrdma::async
