// A queue that carries the results of callbacks to the thread that acts on them.
//
// The library calls back on any thread that is inside wait() of the Client (client.h), on several at the same
// time. A transfer runs on one thread, and its state belongs to that thread alone. So a callback only puts
// its result into an Inbox.
//
// Thread-safety: put() from any thread, everything else from the thread that reads.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cli/event.h"

namespace nfsrdma::cli {

template <class T>
class Inbox {
 public:
  void put(T one) {
    bool wakes = false;
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(one));
      // A reader that is inside a call of its own looks here before it waits again.
      wakes = items_.size() == 1 && reader_ != std::this_thread::get_id();
    }
    if (!wakes) return;
    event_.signal();
    signalled_ = true;
  }
  /// Returns all that came since the last take(), in the order in which it came.
  std::vector<T> take() {
    if (signalled_.exchange(false)) event_.clear();
    const std::lock_guard lock(mutex_);
    reader_ = std::this_thread::get_id();
    return std::exchange(items_, {});
  }
  [[nodiscard]] bool empty() {
    const std::lock_guard lock(mutex_);
    return items_.empty();
  }
  /// Returns a descriptor that becomes readable when another thread puts something in. A negative value means
  /// that the process had no descriptor left, and that the reader has to look from time to time.
  [[nodiscard]] int event_fd() const { return event_.fd(); }

 private:
  Event event_;
  std::atomic<bool> signalled_ = false;  // after event_ became readable, so that a take() drains it
  std::mutex mutex_;                     // of all that follows
  std::vector<T> items_;
  std::thread::id reader_;
};

}  // namespace nfsrdma::cli
