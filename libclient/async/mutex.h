// A mutex for tasks: one of them at a time, each waiting up to a deadline of its own.
//
//     Mutex mutex(loop);
//     const Mutex::Lock lock = co_await mutex.lock(deadline);
//     if (!lock) …not in time
//
// The task that releases the mutex wakes the one that has waited longest. Another task may take the mutex
// before the woken one runs; the woken task then waits again, behind the others.
//
// Confined to the loop's thread. A task that is destroyed while it waits leaves the queue; one that is
// destroyed while it holds the lock releases it. The Mutex must outlive its locks.
#pragma once

#include <utility>

#include "async/event.h"
#include "async/task.h"

namespace nfsrdma::async {

class Mutex {
 public:
  explicit Mutex(Loop& loop) : free_(loop) {}

  class [[nodiscard]] Lock {
   public:
    Lock() = default;
    explicit Lock(Mutex& mutex) : mutex_(&mutex) { mutex.locked_ = true; }
    Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    Lock& operator=(Lock&&) = delete;
    ~Lock() {
      if (mutex_ == nullptr) return;
      mutex_->locked_ = false;
      mutex_->free_.notify_one();
    }
    explicit operator bool() const { return mutex_ != nullptr; }

   private:
    Mutex* mutex_ = nullptr;
  };

  /// Returns an empty Lock if the deadline came first.
  Task<Lock> lock(TimePoint deadline = TimePoint::max()) {
    while (locked_) {
      const bool in_time = co_await free_.wait_until(deadline);
      if (!in_time) co_return Lock();
    }
    co_return Lock(*this);
  }
  [[nodiscard]] bool locked() const { return locked_; }

 private:
  bool locked_ = false;
  Event free_;
};

}  // namespace nfsrdma::async
