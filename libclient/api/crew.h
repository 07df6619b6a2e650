// The threads of a program that are inside one Client, and the loop that they share.
//
// A thread that is inside holds the mutex and has the loop to itself. Of the threads that wait for an answer
// one leads: it runs the loop, and lets go of the mutex while the loop waits for something to happen.
// Meanwhile others come in, start their calls on the loop and send them off, each on its own thread; then
// they sleep. The leader wakes each of them when its call has ended. When the leader's own call has ended, it
// makes the thread that has waited longest the leader, and leaves.
//
// A callback of the Client's runs on the thread that is inside. It may come inside again, and must not wait.
//
// A child of fork(2) has none of the other threads, and whoever was inside then has left the loop in the middle of
// something. So nobody comes inside there any more: an Inside is empty, and wait() returns at once.
//
// Lost wake-ups. The leader waits for as long as the loop had nothing to do when it let go of the mutex.
// Whoever gives the loop something to do before that, from outside a turn, ends the leader's wait when it
// leaves.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "async/descriptor.h"
#include "async/loop.h"
#include "async/wakeup.h"

namespace nfsrdma::api {

class Crew {
 public:
  /// `threads`: there may be more than one. A loop without descriptors serves one only.
  Crew(async::Loop& loop, bool threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// While one lives this thread is inside.
  class Inside {
   public:
    explicit Inside(Crew& crew);
    /// Not if another thread is inside: then it is false.
    Inside(Crew& crew, std::try_to_lock_t);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    explicit operator bool() const { return entered_; }
    /// The thread was inside before: this is a callback.
    [[nodiscard]] bool nested() const { return nested_; }

   private:
    Crew& crew_;
    const bool nested_;
    bool entered_ = false;
  };

  /// Returns when `over` says so, at `deadline`, when a descriptor of `also` is readable (that counts as
  /// over), or when interrupt() was called. False if it was the deadline. The thread is inside, and not
  /// nested.
  bool wait(const std::function<bool()>& over, async::TimePoint deadline = async::TimePoint::max(),
            std::span<const int> also = {});
  /// Ends the wait of everybody who waits now. From inside.
  void interrupt();
  /// Returns true in a child of the process that made the crew. From anywhere.
  [[nodiscard]] bool is_inherited() const { return birth_.is_inherited(); }
  /// Somebody waits, and so runs the loop. From inside.
  [[nodiscard]] bool led() const { return leader_ != nullptr; }

 private:
  struct Sleeper;
  struct Waiter;
  class Outside;

  void enter();
  void leave();
  void begin();
  void end();
  void tell();
  void tell(Waiter& waiter);
  void turn(Waiter& leader);
  static bool poll(const Waiter& waiter, async::TimePoint until, int wake);
  void follow(Waiter& waiter);

  const async::Birth birth_;
  async::Loop& loop_;
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;  // of the mutex
  std::optional<async::Wakeup> wake_;   // ends the leader's wait

  // Guarded by mutex_.
  std::list<Waiter*> waiters_;                   // in the order in which they came; the leader, too
  std::vector<std::shared_ptr<Sleeper>> woken_;  // by whoever leaves next, as soon as he has left
  Waiter* leader_ = nullptr;
  bool asleep_ = false;              // the leader waits, and has let go of the mutex
  async::TimePoint sleeps_until_{};  // if it does
};

}  // namespace nfsrdma::api
