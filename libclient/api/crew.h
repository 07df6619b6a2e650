// The threads of a program that are inside one Client, and the loop that they share.
//
// A thread that is inside holds the mutex and has the loop to itself. Of the threads that wait for an answer
// one is the leader: it runs the loop, and releases the mutex while the loop waits for something to happen.
// Meanwhile other threads come in, start their calls on the loop and send them, each on its own thread; then
// they sleep. The leader wakes each of them when its call has ended. When the leader's own call has ended,
// the leader makes the thread that has waited longest the next leader, and leaves.
//
// The program's log function runs on the thread that is inside. A call that it makes comes inside again
// (nested), and must not wait. Callbacks of started calls run when their thread has left.
//
// A child of fork(2) has none of its parent's other threads, and the thread that was inside at the time of
// the fork may have left the loop in the middle of a change. Therefore no thread comes inside in the child:
// an Inside is empty, and wait() returns at once.
//
// No lost wake-ups: when the leader releases the mutex, it knows until when the loop has nothing to do, and
// sleeps until then. A thread that gives the loop something to do before that time, outside a turn, ends the
// leader's sleep when it leaves.
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
  /// `threads`: whether several threads may use the loop. A loop without descriptors serves one thread only.
  Crew(async::Loop& loop, bool threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// The thread that creates an Inside is inside for as long as the Inside lives.
  class Inside {
   public:
    explicit Inside(Crew& crew);
    /// Does not wait: if another thread is inside, the Inside is false.
    Inside(Crew& crew, std::try_to_lock_t);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    explicit operator bool() const { return entered_; }
    /// Returns true if the thread was inside before, that is, in the log function.
    [[nodiscard]] bool nested() const { return nested_; }

   private:
    Crew& crew_;
    bool nested_ = false;
    bool entered_ = false;
  };

  /// Waits until `over` returns true, `deadline` has come, a descriptor of `also` is readable (which counts
  /// as over), or interrupt() was called. Returns false if the deadline came first. The calling thread is
  /// inside, and not nested.
  bool wait(const std::function<bool()>& over, async::TimePoint deadline = async::TimePoint::max(),
            std::span<const int> also = {});
  /// Ends the waits of all threads that wait now. The calling thread is inside.
  void interrupt();
  /// Returns true in a child of the process that made the crew. May be called from any thread.
  [[nodiscard]] bool is_inherited() const { return birth_.is_inherited(); }
  /// Returns true if a thread waits, and so runs the loop. The calling thread is inside.
  [[nodiscard]] bool led() const { return leader_ != nullptr; }

 private:
  struct Sleeper;
  struct Waiter;
  class Away;
  class Outside;
  class Leading;

  [[nodiscard]] bool is_inside(std::thread::id own) const {
    return owner_.load(std::memory_order_relaxed) == own;
  }
  void enter(std::thread::id own);
  void leave();
  void begin(std::thread::id own);
  void end();
  void unlock_and_wake();
  void tell();
  void tell(Waiter& waiter);
  void turn(Waiter& leader);
  static bool poll(const Waiter& waiter, async::TimePoint until, int wake);
  void follow(Waiter& waiter);

  const async::Birth birth_;
  async::Loop& loop_;
  std::mutex mutex_;
  // The thread that holds the mutex. Relaxed accesses suffice, because a thread only compares the value with its
  // own id, which no other thread stores.
  std::atomic<std::thread::id> owner_;
  std::optional<async::Wakeup> wake_;  // ends the leader's wait

  // Guarded by mutex_.
  std::list<Waiter*> waiters_;  // in the order in which they came, including the leader
  // Sleepers that the next thread to leave wakes, after it has released the mutex. Usually there is none.
  std::vector<std::shared_ptr<Sleeper>> woken_;
  Waiter* leader_ = nullptr;
  bool asleep_ = false;              // the leader waits and has released the mutex
  async::TimePoint sleeps_until_{};  // how long the leader sleeps at most, while asleep_
};

}  // namespace nfsrdma::api
