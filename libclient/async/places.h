// So many at once: whoever comes when all places are taken waits, first come first served, until one is free.
//
//     Places places(loop, 8);
//     bool in_time = true;
//     if (places.must_wait()) in_time = co_await places.wait(deadline);
//     if (!in_time) …
//     const Places::Place place(places);     // at once: nobody else may come in between
//
// A Place may be taken without having waited, by what must not wait for others.
//
// Line is what such a queue is made of, also where the places are something else (nfs4/slot_queue.h).
//
// Confined to the loop's thread. The Places must outlive each Place and each wait.
#pragma once

#include <cstdint>

#include "async/event.h"
#include "async/task.h"

namespace nfsrdma::async {

/// Tasks that wait for what others give back.
///
/// An Event lets go of a waiter when it wakes it, and the waiter runs later. In between what is free is the
/// waiter's, so newcomers have to ask awaited(). One waiter at a time is woken: a second one that found nothing
/// would have lost its place in the queue. So whoever is served wakes the next, if there is more. A waiter
/// that is destroyed before it could run leaves its turn to the next (event.h).
class Line {
 public:
  explicit Line(Loop& loop) : turn_(loop) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// Whether anybody waits, woken or not.
  [[nodiscard]] bool awaited() const { return waiting_ != 0; }
  /// To be called whenever there is something to take: when it came free, and when a waiter was served and
  /// there is more.
  void wake_first() {
    if (woken_ || !turn_.awaited()) return;
    woken_ = true;
    turn_.notify_one();
  }
  /// Waits until take(), which is asked whenever it is this task's turn, says that it has got something. False
  /// if the deadline came first. Whoever finds that it has gone again waits on, behind the others.
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
    /// The last one may have been destroyed when it was woken, and the Event had nobody to pass that on to.
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
  bool woken_ = false;  // one of them has been, and has yet to run
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

  /// Those who wait are before whoever comes.
  [[nodiscard]] bool must_wait() const { return taken_ >= most_ || line_.awaited(); }
  /// False if the deadline came first.
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
