// Guards that say of something, while they live, that it is under way: as a flag, or as one more of a count.
//
// A task that holds one as a local may be destroyed at any point where it waits; the guard ends with it. Then
// it wakes those who wait for the end: each of them looks at the flag or the count again. Both the variable
// and the event must outlive the guard.
#pragma once

#include <utility>

#include "async/event.h"

namespace nfsrdma::async {

/// For what only one may be at: whoever makes one has seen that the flag is not set.
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

/// For what several may be at; `ended` is notified when the last of them ends.
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

/// A Counted that can be handed on, or be none.
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
