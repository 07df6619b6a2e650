// The event loop: file descriptors, timers, and tasks, on one thread.
//
// Thread-safety: none; a Loop and everything registered with it belong to the thread that runs it. The
// threads of a program that share a loop (api/crew.h) have a mutex for it, which is released while turn()
// waits. The order of one turn: due timers, ready descriptors, those that were woken, posted functions, then
// the end-of-turn hooks. In these hooks the fabrics send everything that the turn has queued, in one system
// call. If one of them throws, all the others are called, and turn() throws the first failure at its end.
//
// Timers and wake-ups are members of the objects that wait (Timer, Wake), so waiting allocates nothing.
//
// The clock is read once in each turn, so everything in a turn happens at one time. On machines where reading
// the clock is a system call (virtual machines, User-Mode Linux), reading it more often was most of the cost
// of a request. Between turns the clock is read at each call of now().
//
// Time, randomness and waiting come from the loop's World, and all code on the loop takes them from there. A
// test that supplies its own World controls all three.
//
// Own code because the fabric wants readiness, not completion: it decides where to receive only once it knows
// that bytes have arrived.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "async/memory.h"
#include "async/soon.h"
#include "async/world.h"

namespace nfsrdma::async {

class Loop {
 public:
  /// Events as in epoll(7): EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.
  using FdCallback = std::function<void(std::uint32_t events)>;
  using TimerId = std::uint64_t;  ///< never 0, never reused

  /// Makes a loop in the system's world.
  Loop();
  /// Makes a loop in `world`, which no other loop may use, and which must outlive this loop.
  explicit Loop(World& world);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Watches a descriptor, which stays the caller's. Call unwatch() before closing it. Both may be called
  /// from inside a callback, also from that of the descriptor itself.
  void watch(int fd, std::uint32_t events, FdCallback callback);
  void change(int fd, std::uint32_t events);
  void unwatch(int fd);

  /// Something that happens once, at its time. Its owner is its base or has it as a member. Destroying a Timer that is
  /// set cancels it.
  class Timer
      : public boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    Timer() = default;
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    [[nodiscard]] bool is_set() const { return is_linked(); }
    void cancel() {
      if (is_linked()) unlink();
    }

   protected:
    ~Timer() = default;

   private:
    friend class Loop;
    /// Called once the time has come. The Timer is not set any more, and may be set again or destroyed.
    virtual void on_time() = 0;
    TimePoint when_;
  };
  /// Sets the timer. Timers of the same time go off in the order in which they were set.
  void set(Timer& timer, TimePoint when);

  /// Something that the loop is to call soon, or that is in a queue of those that wait for something. It is in at most one
  /// such list, and leaves it when it is destroyed.
  class Wake
      : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    Wake() = default;
    Wake(const Wake&) = delete;
    Wake& operator=(const Wake&) = delete;

   protected:
    ~Wake() = default;
    void leave() {
      if (is_linked()) unlink();
    }

   private:
    friend class Loop;
    /// Called once. The Wake is in no list any more, and may be destroyed.
    virtual void on_wake() = 0;
  };
  using Wakes = boost::intrusive::list<Wake, boost::intrusive::constant_time_size<false>>;
  /// Calls the Wake at the end of this turn or of the next one, never from inside wake(). Takes it out of the list that it
  /// is in.
  void wake(Wake& one) {
    if (one.is_linked()) one.unlink();
    woken_.push_back(one);
  }

  /// Calls `callback` once, not before `when`. Timer does the same without an allocation.
  TimerId at(TimePoint when, std::function<void()> callback);
  void cancel(TimerId id);

  /// Calls `fn` later in this turn or in the next one, never from inside post().
  void post(std::function<void()> fn);

  /// Calls `hook` at the end of every turn that did something, until removed.
  std::uint64_t at_end_of_turn(std::function<void()> hook);
  void remove_end_of_turn(std::uint64_t id);

  /// Starts a task now and owns it until it ends. Returns an id for drop(), which is never reused.
  std::uint64_t spawn(Task<void> task);
  /// Destroys a spawned task. Does nothing if the task has ended.
  void drop(std::uint64_t id);

  /// Runs one turn; waits at most until `latest` for something to do. Returns false if nothing happened. The
  /// length of the wait is computed from the last reading of the clock. Therefore turns must follow each
  /// other without delay, or the caller calls now() before.
  bool turn(TimePoint latest) { return turn(latest, nullptr); }
  /// For a loop that several threads share: turn() calls leave() before it waits, at most until `until`, and
  /// enter() afterwards. Between the two calls other threads may do everything that is allowed between turns.
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

  /// Destroys the tasks that spawn() started and that have not ended. Called before the objects that they use
  /// are destroyed.
  void drop_tasks();
  /// Returns when the next timer is due.
  [[nodiscard]] TimePoint next_timer() const {
    return timers_.empty() ? TimePoint::max() : timers_.begin()->when_;
  }
  /// Returns when turn() has something to do if no descriptor becomes ready before. TimePoint::min() means
  /// now.
  [[nodiscard]] TimePoint due() const {
    return posted_.empty() && woken_.empty() ? next_timer() : TimePoint::min();
  }

  /// Runs turns until the task has ended and returns what it returned.
  template <class T>
  T run(Task<T> task) {
    task.handle().resume();
    end_turn();
    while (!task.done()) turn(TimePoint::max());
    return task.await_resume();
  }
  template <class T>
  T run(Soon<T> soon) {
    return run(Task<T>(std::move(soon)));
  }

  /// co_await loop.sleep_until(t). Destroying a task that sleeps cancels its timer.
  class Sleep final : private Timer {
   public:
    Sleep(Loop& loop, TimePoint when) : loop_(loop), until_(when) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> task) {
      task_ = task;
      loop_.set(*this, until_);
    }
    void await_resume() const noexcept {}

   private:
    void on_time() override { task_.resume(); }
    Loop& loop_;
    const TimePoint until_;
    std::coroutine_handle<> task_;
  };
  Sleep sleep_until(TimePoint when) { return {*this, when}; }
  Sleep sleep_for(Clock::duration d) { return {*this, now() + d}; }

  /// Returns the time. It does not change during a turn or a visit, except after time_passed().
  [[nodiscard]] TimePoint now() const {
    if (stale_ || !in_turn_) look_at_clock();
    return now_;
  }
  /// Called when time has passed in the middle of a turn, for example because the program's code has run.
  void time_passed() { stale_ = true; }
  /// Called when a program's thread enters the loop between turns; end_visit() is called when it leaves.
  void begin_visit() {
    stale_ = in_turn_ = true;
    turn_lease_.reset();
  }
  void end_visit() { in_turn_ = false; }
  /// Returns the time of the clock that continues while the machine sleeps. It does not change while now()
  /// does not.
  [[nodiscard]] LeaseTime lease_now() const {
    if (stale_ || !in_turn_) look_at_clock();
    if (!lease_now_) lease_now_ = world_.lease_now();
    return *lease_now_;
  }
  /// Returns the value of lease_now() at its first use in this turn or visit. It is never later than
  /// lease_now(), and is read only once. For times that need only be early enough.
  [[nodiscard]] LeaseTime lease_of_turn() const {
    if (!in_turn_ || !turn_lease_) turn_lease_ = lease_now();
    return *turn_lease_;
  }
  /// Returns the wall clock, in seconds since 1970, at most one second behind.
  [[nodiscard]] std::int64_t wall_seconds();

  /// Fills `out` with unpredictable bytes.
  void random(std::span<std::byte> out);
  template <std::unsigned_integral T>
  [[nodiscard]] T random() {
    T out = 0;
    random(std::as_writable_bytes(std::span(&out, 1)));
    return out;
  }

  /// Memory for the work on this loop. Blocks that are unused for some seconds are returned to the system.
  [[nodiscard]] MemoryPool& memory() { return memory_; }

  /// Returns a descriptor that becomes readable when turn() has something to do (an epoll descriptor).
  [[nodiscard]] int descriptor() const { return world_.descriptor(); }
  [[nodiscard]] bool whim(const char* file, unsigned line, unsigned percent) {
    return world_.whim(file, line, percent);
  }

  /// Runs posted functions and the end-of-turn hooks, so that requests that were queued outside a turn are
  /// sent now.
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
  void run_woken();
  void run_posted();
  void run_hooks();
  void finish_turn();
  template <class Function>
  void call(const Function& function);
  void throw_failure();
  static Task<void> run_spawned(Loop& loop, std::uint64_t id, Task<void> task);
  std::optional<Task<void>> take_spawned(std::uint64_t id);
  void reap();
  void tidy_later();

  const std::unique_ptr<World> system_;  // null if another world was given
  World& world_;
  MemoryPool memory_;
  bool tidying_ = false;  // a timer for drop_unused() is set
  std::map<int, std::shared_ptr<Watch>> watches_;
  /// Orders timers by their times.
  struct Earlier {
    bool operator()(const Timer& one, const Timer& other) const { return one.when_ < other.when_; }
  };
  boost::intrusive::multiset<Timer, boost::intrusive::constant_time_size<false>,
                             boost::intrusive::compare<Earlier>>
      timers_;
  Wakes woken_;
  struct Callback;
  std::unordered_map<TimerId, std::unique_ptr<Callback>> callbacks_;  // those of at()
  std::vector<std::function<void()>> posted_;
  std::map<std::uint64_t, std::function<void()>> hooks_;
  /// A place in the table of spawned tasks, which is reused. An id is composed of a serial number and the
  /// place.
  struct Spawned {
    std::uint64_t id = 0;  // 0: free
    std::optional<Task<void>> task;
  };
  static constexpr unsigned kPlaceBits = 24;
  std::vector<Spawned> spawned_;
  std::vector<std::uint32_t> free_places_;  // free places in spawned_
  std::uint64_t last_spawned_ = 0;
  std::vector<std::uint64_t> ended_, reaped_;  // ids of tasks that have ended
  std::exception_ptr failure_;                 // the first one of this turn
  bool in_turn_ = false;
  mutable bool stale_ = false;                   // now_ must be read again
  mutable TimePoint now_;                        // time of this turn
  mutable std::optional<LeaseTime> lease_now_;   // read together with now_, when first needed
  mutable std::optional<LeaseTime> turn_lease_;  // value of lease_of_turn() in this turn or visit
  TimePoint wall_read_ = TimePoint::min();
  std::int64_t wall_seconds_ = 0;
  std::array<std::byte, 256> chance_{};  // random bytes; those that were given out are zeroed
  std::size_t chance_used_ = chance_.size();
  std::uint64_t next_id_ = 1;
};

}  // namespace nfsrdma::async
