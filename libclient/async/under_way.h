// Guards that mark an operation as being in progress during their lifetime: by a flag, or by adding one to a
// count.
//
// A task may be destroyed at any point where it waits; a guard that is a local of the task ends with it. At
// its end the guard wakes the tasks that wait for it, and each of these checks the flag or the count again.
// Both the variable and the event must outlive the guard.
#pragma once

#include <utility>

#include "async/event.h"

namespace nfsrdma::async {

/// Marks an operation that must run only once at a time. The caller has checked that the flag is not set.
class Flagged {
 public:
  Flagged(bool& flag, Event& ended) : flag_(flag), ended_(ended) { flag_ = true; }
  ~Flagged() {
    flag_ = false;
    ended_.notify_all();
  }
  Flagged(const Flagged&) = delete;
  Flagged& operator=(const Flagged&) = delete;

 private:
  bool& flag_;
  Event& ended_;
};

/// Marks an operation that may run several times at once. `ended` is notified when the last of them ends.
class Counted {
 public:
  Counted(unsigned& count, Event& ended) : count_(count), ended_(ended) { ++count_; }
  ~Counted() {
    if (--count_ == 0) ended_.notify_all();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  unsigned& count_;
  Event& ended_;
};

/// A Counted that can be moved, or be empty.
class Use {
 public:
  Use() = default;
  Use(unsigned& count, Event& ended) : count_(&count), ended_(&ended) { ++count; }
  Use(Use&& other) noexcept : count_(std::exchange(other.count_, nullptr)), ended_(other.ended_) {}
  Use& operator=(Use&& other) noexcept {
    if (this == &other) return *this;
    end();
    count_ = std::exchange(other.count_, nullptr);
    ended_ = other.ended_;
    return *this;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { end(); }

 private:
  void end() {
    unsigned* const count = std::exchange(count_, nullptr);
    if (count != nullptr && --*count == 0) ended_->notify_all();
  }
  unsigned* count_ = nullptr;
  Event* ended_ = nullptr;
};

}  // namespace nfsrdma::async
