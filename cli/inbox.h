// A queue that carries the results of callbacks to the thread that acts on them.
//
// The library calls back on any thread that is inside a call on the Client (client.h). A transfer runs on one thread, and its
// state belongs to that thread alone. So a callback only puts its result into an Inbox.
//
// Thread-safety: put() from any thread, everything else from the thread that reads.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace nfsrdma::cli {

template <class T>
class Inbox {
 public:
  Inbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Inbox() {
    if (event_ >= 0) ::close(event_);
  }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void put(T one) {
    bool wakes = false;
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(one));
      // A reader that is inside a call of its own looks here before it waits again.
      wakes = items_.size() == 1 && reader_ != std::this_thread::get_id();
    }
    if (wakes) signal();
  }
  /// Returns all that came since the last take(), in the order in which it came.
  std::vector<T> take() {
    if (signalled_.exchange(false)) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t drained = ::read(event_, &count, sizeof count);
    }
    const std::lock_guard lock(mutex_);
    reader_ = std::this_thread::get_id();
    return std::exchange(items_, {});
  }
  [[nodiscard]] bool empty() {
    const std::lock_guard lock(mutex_);
    return items_.empty();
  }
  /// Returns a descriptor that becomes readable when another thread puts something in. A negative value means that the
  /// process had no descriptor left, and that the reader has to look from time to time.
  [[nodiscard]] int event_fd() const { return event_; }

 private:
  void signal() {
    const std::uint64_t one = 1;
    if (event_ >= 0 && ::write(event_, &one, sizeof one) == sizeof one) signalled_ = true;
  }

  const int event_;
  std::atomic<bool> signalled_ = false;  // after event_ became readable, so that a take() drains it
  std::mutex mutex_;                     // of all that follows
  std::vector<T> items_;
  std::thread::id reader_;
};

}  // namespace nfsrdma::cli
