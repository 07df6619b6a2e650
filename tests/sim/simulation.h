// Machines with event loops, in one thread, on one virtual clock.
//
//     Simulation world(seed);
//     Host& client = world.add_host("client");
//     client.loop().spawn(...);
//     const bool in_time = world.run_until([&] { return done; }, 10min);
//
// There is one queue of events, ordered by time and then by when they were put there. A step runs an event
// that is due, or else one turn of the loop of a host that has something to do; which, if there are several,
// is drawn from the seed. Where nothing is due, time jumps to what comes next. Computing costs no time.
//
// A loop may also be run from outside, by Loop::turn() or Loop::run() as in a program: while it waits, the
// rest of the simulation goes on. So a test that was written for one loop and real time runs as it is.
//
// A host can sleep: its loop stands still, and so does its monotonic clock; its clock for leases, and
// everybody else's time, goes on. It can be stopped (as by SIGSTOP): all its clocks go on.
//
// Ownership: the Simulation owns its hosts, a Host its loop. Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "async/loop.h"
#include "sim/random.h"
#include "sim/trace.h"

namespace nfsrdma::sim {

using Duration = async::Clock::duration;

/// The simulation's own time, from 0 on. Hosts have clocks of their own.
struct SimClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<SimClock>;
  static constexpr bool is_steady = true;
};
using Time = SimClock::time_point;

/// Nothing will ever happen any more and somebody waits, or things happen without end and time stands still.
class Stuck final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Simulation;

class Host {
 public:
  Host(Simulation& simulation, unsigned number, std::string name);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] async::Loop& loop() { return *loop_; }
  [[nodiscard]] unsigned number() const { return number_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Simulation& simulation() { return simulation_; }

  void sleep();
  /// Somebody sets its clock: what it says differs from the world's by so much.
  void set_clock(std::chrono::seconds ahead) { ahead_ = ahead; }
  /// The product may do its other things here (async/buggify.h); this seed says which of them.
  void set_whims(std::uint64_t seed) { whims_ = seed; }
  void stop();
  /// Ends sleep() or stop().
  void wake();
  [[nodiscard]] bool runs() const { return state_ == State::running; }
  [[nodiscard]] bool asleep() const { return state_ == State::asleep; }
  /// Whoever hears of wake(): what came for the host meanwhile is still to be handed to it.
  void on_wake(std::function<void()> fn) { on_wake_.push_back(std::move(fn)); }

  /// A loop without timers, tasks and posted functions, as after a restart of the program. Whoever used the
  /// old one must be gone.
  void renew_loop();

  /// Its loop has something to do.
  [[nodiscard]] bool due() const;
  /// When it will; Time::max() is never, Time::min() is now.
  [[nodiscard]] Time next_due() const;

 private:
  friend class Simulation;
  enum class State : std::uint8_t { running, asleep, stopped };
  class World;

  [[nodiscard]] async::TimePoint now() const;
  [[nodiscard]] Time to_global(async::TimePoint local) const;

  Simulation& simulation_;
  const unsigned number_;
  const std::string name_;
  /// Differs from host to host, so that one's time taken for another's shows.
  const async::TimePoint epoch_;
  State state_ = State::running;
  Time asleep_since_{};
  Duration slept_{};
  std::chrono::seconds ahead_{};  // of the wall clock
  Random chance_;
  std::uint64_t whims_ = 0;
  std::vector<std::function<void()>> on_wake_;
  std::shared_ptr<World> world_;
  std::unique_ptr<async::Loop> loop_;
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Host& add_host(std::string name);
  [[nodiscard]] const std::vector<std::unique_ptr<Host>>& hosts() const { return hosts_; }

  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] Random& random() { return random_; }
  [[nodiscard]] Trace& trace() { return trace_; }
  void note(unsigned who, const char* kind, std::uint64_t first = 0, std::uint64_t second = 0) {
    trace_.note(now_.time_since_epoch(), who, kind, first, second);
  }
  void say(unsigned who, const char* kind, std::string text) {
    trace_.say(now_.time_since_epoch(), who, kind, std::move(text));
  }

  /// Calls `fn` when the time has come. Events of one time come in the order in which they were put here.
  void at(Time when, std::function<void()> fn);
  void after(Duration delay, std::function<void()> fn) { at(now_ + delay, std::move(fn)); }

  /// Does one thing, and lets time pass until there is one, but not beyond `limit`. False: nothing is left to
  /// do by then, and it is `limit` now, if that is not Time::max().
  bool step(Time limit = Time::max());
  /// Steps until it is so; false if it is not within `most`, or if nothing happens any more.
  bool run_until(const std::function<bool()>& so, Duration most);
  void run_for(Duration time);

  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  friend class Host;
  struct Event {
    Time when;
    std::uint64_t sequence;
    std::function<void()> run;
  };
  /// `busy`: a host whose loop is run from outside and waits: it gets no turn here.
  bool step(Time limit, const Host* busy);
  Host* choose_due(const Host* busy);
  void run_event();
  void count_step();
  [[nodiscard]] Time next(const Host* busy) const;

  Random random_;
  Trace trace_;
  Time now_{};
  std::vector<Event> events_;  // a heap
  std::uint64_t sequence_ = 0;
  std::uint64_t steps_ = 0, steps_at_this_time_ = 0;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace nfsrdma::sim
