// The event loop: file descriptors, timers, and tasks, on one thread.
//
// Thread-safety: none; a Loop and everything registered with it belong to whoever runs it. The threads of a
// program that share one (api/crew.h) have a mutex for it, which is free while turn() waits. The order of one
// turn: due timers, ready descriptors, posted functions, then the end-of-turn hooks, which is where fabrics
// send what the turn has queued, in one system call.
//
// The clock is read once for a turn: all that happens in it happens at one time. Where reading it is a system
// call (in virtual machines, in User-Mode Linux) that was most of what a request cost. Between turns it is
// read whenever it is asked for.
//
// Time, chance and waiting come from the loop's World, and so does everything of them that is used on the
// loop: a test that hands in a World of its own decides about all three.
//
// Own code because the fabric wants readiness, not completion: it decides where to receive only once it knows
// that bytes are there (design.md, "choose by measurement").
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "async/memory.h"
#include "async/task.h"
#include "async/world.h"

namespace nfsrdma::async {

class Loop {
 public:
  /// Events as in epoll(7): EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.
  using FdCallback = std::function<void(std::uint32_t events)>;
  using TimerId = std::uint64_t;  ///< never 0, never used again

  /// In the system's world.
  Loop();
  /// `world` is this loop's alone, and outlives it.
  explicit Loop(World& world);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Watches a descriptor; it stays the caller's. `unwatch` before closing it. Both may be called from inside
  /// a callback, also of the descriptor itself.
  void watch(int fd, std::uint32_t events, FdCallback callback);
  void change(int fd, std::uint32_t events);
  void unwatch(int fd);

  /// Calls back once, not before `when`.
  TimerId at(TimePoint when, std::function<void()> callback);
  void cancel(TimerId id);

  /// Calls `fn` later in this turn or at the next one; never from inside post().
  void post(std::function<void()> fn);

  /// Calls `hook` at the end of every turn that did something, until removed.
  std::uint64_t at_end_of_turn(std::function<void()> hook);
  void remove_end_of_turn(std::uint64_t id);

  /// Starts a task now and owns it until it ends. The id is for drop(), and never used again.
  std::uint64_t spawn(Task<void> task);
  /// Destroys a spawned task that has not ended; nothing if it has.
  void drop(std::uint64_t id);

  /// Runs one turn; waits at most until `latest` for something to do. Returns false if nothing happened.
  /// Turns follow each other at once, or now() is asked before: that is how it knows how long to wait.
  bool turn(TimePoint latest) { return turn(latest, nullptr); }
  /// For a loop that several threads share: turn() calls leave() before it waits, up to `until`, and enter()
  /// afterwards. In between other threads may do what can be done between turns.
  class WaitGuard {
   public:
    WaitGuard() = default;
    virtual ~WaitGuard() = default;
    WaitGuard(const WaitGuard&) = delete;
    WaitGuard& operator=(const WaitGuard&) = delete;
    virtual void leave(TimePoint until) = 0;
    virtual void enter() = 0;
  };
  bool turn(TimePoint latest, WaitGuard* guard);

  /// Destroys the tasks that spawn() started and that have not ended, before what they use goes.
  void drop_tasks();
  /// When the next timer is due.
  [[nodiscard]] TimePoint next_timer() const {
    return timers_.empty() ? TimePoint::max() : timers_.begin()->first.first;
  }
  /// When turn() has something to do, if no descriptor becomes ready before: TimePoint::min() is now.
  [[nodiscard]] TimePoint due() const { return posted_.empty() ? next_timer() : TimePoint::min(); }

  /// Runs turns until the task has ended and returns what it returned.
  template <class T>
  T run(Task<T> task) {
    task.handle().resume();
    end_turn();
    while (!task.done()) turn(TimePoint::max());
    return task.await_resume();
  }

  /// co_await loop.sleep_until(t). A task destroyed while it sleeps takes its timer with it.
  class Sleep {
   public:
    Sleep(Loop& loop, TimePoint when) : loop_(loop), when_(when) {}
    Sleep(const Sleep&) = delete;
    Sleep& operator=(const Sleep&) = delete;
    ~Sleep() {
      if (timer_ != 0) loop_.cancel(timer_);
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) {
      timer_ = loop_.at(when_, [this, h] {
        timer_ = 0;
        h.resume();
      });
    }
    void await_resume() const noexcept {}

   private:
    Loop& loop_;
    TimePoint when_;
    TimerId timer_ = 0;
  };
  Sleep sleep_until(TimePoint when) { return {*this, when}; }
  Sleep sleep_for(Clock::duration d) { return {*this, now() + d}; }

  /// Stands still for a turn, and for a visit.
  [[nodiscard]] TimePoint now() const {
    if (stale_ || !in_turn_) look_at_clock();
    return now_;
  }
  /// Time has passed in the middle of a turn: a user's code has run.
  void time_passed() { stale_ = true; }
  /// Somebody comes from outside, and is gone again by end_visit().
  void begin_visit() {
    stale_ = in_turn_ = true;
    turn_lease_.reset();
  }
  void end_visit() { in_turn_ = false; }
  /// By the clock that goes on while the machine sleeps; stands still as now() does.
  [[nodiscard]] LeaseTime lease_now() const {
    if (stale_ || !in_turn_) look_at_clock();
    if (!lease_now_) lease_now_ = world_.lease_now();
    return *lease_now_;
  }
  /// The same as it was when it was first asked for in this turn or visit: no later, and read once. For what only has to
  /// begin early enough.
  [[nodiscard]] LeaseTime lease_of_turn() const {
    if (!in_turn_ || !turn_lease_) turn_lease_ = lease_now();
    return *turn_lease_;
  }
  /// The wall clock, in seconds since 1970, at most one behind.
  [[nodiscard]] std::int64_t wall_seconds();

  /// Fills `out` with bytes that nobody can predict.
  void random(std::span<std::byte> out);
  template <std::unsigned_integral T>
  [[nodiscard]] T random() {
    T out = 0;
    random(std::as_writable_bytes(std::span(&out, 1)));
    return out;
  }

  /// For those who work on this loop. What nobody wants for some seconds goes back to the system.
  [[nodiscard]] MemoryPool& memory() { return memory_; }

  /// The descriptor that becomes readable when turn() has something to do (an epoll descriptor).
  [[nodiscard]] int descriptor() const { return world_.descriptor(); }
  [[nodiscard]] bool whim(const char* file, unsigned line, unsigned percent) {
    return world_.whim(file, line, percent);
  }

  /// Runs posted functions and the end-of-turn hooks: what was queued from outside a turn goes out now.
  void end_turn();

 private:
  struct Watch;
  class InTurn;
  void look_at_clock() const {
    stale_ = false;
    now_ = world_.now();
    lease_now_.reset();
  }
  static std::uint64_t tag_of(int fd, std::uint64_t id);
  void run_ready(const Ready& ready);
  void run_timers();
  void run_posted();
  static Task<void> run_spawned(Loop& loop, std::uint64_t id, Task<void> task);
  std::optional<Task<void>> take_spawned(std::uint64_t id);
  void reap();
  void tidy_later();

  const std::unique_ptr<World> system_;  // none where there is another
  World& world_;
  MemoryPool memory_;
  bool tidying_ = false;  // there is a timer for it
  std::map<int, std::shared_ptr<Watch>> watches_;
  std::map<std::pair<TimePoint, TimerId>, std::function<void()>> timers_;
  std::map<TimerId, TimePoint> timer_times_;
  std::vector<std::function<void()>> posted_;
  std::map<std::uint64_t, std::function<void()>> hooks_;
  /// A place for a task that was spawned, used again. An id is a serial number and the place.
  struct Spawned {
    std::uint64_t id = 0;  // 0: free
    std::optional<Task<void>> task;
  };
  static constexpr unsigned kPlaceBits = 24;
  std::vector<Spawned> spawned_;
  std::vector<std::uint32_t> free_places_;  // of them
  std::uint64_t last_spawned_ = 0;
  std::vector<std::uint64_t> ended_, reaped_;  // ids
  bool in_turn_ = false;
  mutable bool stale_ = false;                   // now_ is of before
  mutable TimePoint now_;                        // as of the turn
  mutable std::optional<LeaseTime> lease_now_;   // as of now_, once somebody asked
  mutable std::optional<LeaseTime> turn_lease_;  // of this turn or visit
  TimePoint wall_read_ = TimePoint::min();
  std::int64_t wall_seconds_ = 0;
  std::array<std::byte, 256> chance_{};  // random bytes; those that were given out are zero
  std::size_t chance_used_ = chance_.size();
  std::uint64_t next_id_ = 1;
};

}  // namespace nfsrdma::async
