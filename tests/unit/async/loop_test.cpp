// Task, Loop and Event: order, cancellation, and destruction at every awkward moment.
#include "async/loop.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "async/wakeup.h"
#include "support/virtual_world.h"

namespace nfsrdma::async {
namespace {

using namespace std::chrono_literals;
using testing::VirtualWorld;

/// Says when it dies, to see that frames do.
struct Tracker {
  explicit Tracker(int& count_in) : count(&count_in) {}
  Tracker(Tracker&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
  Tracker& operator=(Tracker&&) = delete;
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;
  ~Tracker() {
    if (count != nullptr) ++*count;
  }
  int* count;
};

Task<int> just(int value) {
  co_return value;
}
Task<int> sum(int a, int b) {
  const int left = co_await just(a);
  const int right = co_await just(b);
  co_return left + right;
}
Task<std::unique_ptr<int>> boxed(int value) {
  co_return std::make_unique<int>(value);
}
Task<int> deep(int levels) {
  if (levels == 0) co_return 0;
  co_return 1 + co_await deep(levels - 1);
}
Task<void> nap(Loop& loop, Clock::duration how_long, std::string& log, char name) {
  co_await loop.sleep_for(how_long);
  log += name;
}
Task<void> sleep_with(Loop& loop, Tracker tracker) {
  co_await loop.sleep_for(1h);
  (void)tracker;
}
Task<void> outer_sleep(Loop& loop, int& dead) {
  co_await sleep_with(loop, Tracker(dead));
}

/// A wake-up and a timer, as an object that waits has them.
class Waiting final : public Loop::Wake, public Loop::Timer {
 public:
  explicit Waiting(std::function<void(char)> tell) : tell_(std::move(tell)) {}
  using Wake::leave;

 private:
  void on_wake() override { tell_('w'); }
  void on_time() override { tell_('t'); }
  std::function<void(char)> tell_;
};

struct Pipe {
  std::array<int, 2> fd{};
  Pipe() { REQUIRE(::pipe2(fd.data(), O_CLOEXEC | O_NONBLOCK) == 0); }
  ~Pipe() {
    close_reader();
    ::close(fd[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_reader() {
    if (fd[0] >= 0) ::close(std::exchange(fd[0], -1));
  }
  void write() const { REQUIRE(::write(fd[1], "x", 1) == 1); }
  void read() const {
    char c = 0;
    REQUIRE(::read(fd[0], &c, 1) == 1);
  }
};

}  // namespace

// ---- Task ----

TEST_CASE("async: tasks give values, also ones that can only be moved") {
  Loop loop;
  CHECK(loop.run(sum(2, 3)) == 5);
  CHECK(*loop.run(boxed(7)) == 7);
  // Sanitizers keep a frame for each resumption; without them the depth would not matter.
  CHECK(loop.run(deep(1'000)) == 1'000);
}

TEST_CASE("async: a task starts when it is awaited, not before, and its result is moved out once") {
  bool begun = false;
  const auto make = [](bool& flag) -> Task<int> {
    flag = true;
    co_return 1;
  };
  {
    Task<int> task = make(begun);
    CHECK_FALSE(begun);
    CHECK_FALSE(task.done());
    Task<int> moved = std::move(task);
    moved.handle().resume();
    CHECK(begun);
    CHECK(moved.done());
    CHECK(moved.await_resume() == 1);
  }
  begun = false;
  {
    const Task<int> never = make(begun);
  }
  CHECK_FALSE(begun);
}

TEST_CASE("async: destroying a suspended task destroys the whole chain of frames, and its timer") {
  Loop loop;
  int dead = 0;
  {
    Task<void> task = outer_sleep(loop, dead);
    task.handle().resume();
    CHECK(loop.next_timer() != TimePoint::max());
    CHECK(dead == 0);
  }
  CHECK(dead == 1);
  CHECK(loop.next_timer() == TimePoint::max());
}

TEST_CASE("async: assigning over a suspended task destroys it") {
  Loop loop;
  int dead = 0;
  Task<void> task = outer_sleep(loop, dead);
  task.handle().resume();
  task = outer_sleep(loop, dead);
  CHECK(dead == 1);
}

// ---- Loop ----

class Woken final : public Loop::Wake {
 public:
  explicit Woken(std::function<void()> called) : called_(std::move(called)) {}

 private:
  void on_wake() override { called_(); }
  const std::function<void()> called_;
};

TEST_CASE("what throws in a turn keeps nothing else from being called") {
  Loop loop;
  std::string called;
  const auto fails = [&called](char letter) {
    return [&called, letter] {
      called += letter;
      throw std::runtime_error(std::string(1, letter));
    };
  };
  std::array<Wakeup, 2> ready;
  for (const Wakeup& one : ready) {
    // Reported once only (EPOLLET).
    loop.watch(one.descriptor(), EPOLLIN | EPOLLET, [fail = fails('r')](std::uint32_t) { fail(); });
    one.set();
  }
  std::vector<std::uint64_t> hooks;
  for (int i = 0; i < 2; ++i) {
    loop.at(TimePoint::min(), fails('t'));
    loop.post(fails('p'));
    hooks.push_back(loop.at_end_of_turn(fails('h')));
  }
  Woken one(fails('w')), other(fails('w'));
  loop.wake(one);
  loop.wake(other);
  SUBCASE("in a turn") {
    CHECK_THROWS_WITH_AS(loop.turn(TimePoint::max()), "t", std::runtime_error);
    CHECK(called == "ttrrwwpphh");
  }
  SUBCASE("where the end of a turn is asked for") {
    CHECK_THROWS_WITH_AS(loop.end_turn(), "w", std::runtime_error);
    CHECK(called == "wwpphh");
    CHECK_THROWS_WITH_AS(loop.turn(TimePoint::max()), "t", std::runtime_error);
    CHECK(called == "wwpphhttrrhh");
  }
  for (const std::uint64_t hook : hooks) loop.remove_end_of_turn(hook);
  loop.post([&called] { called = "the next turn"; });
  loop.turn(TimePoint::max());
  CHECK(called == "the next turn");
  for (const Wakeup& wakeup : ready) loop.unwatch(wakeup.descriptor());
}

TEST_CASE("async: timers run in the order of their times, and of their making where those are the same") {
  Loop loop;
  std::string log;
  const TimePoint now = loop.now();
  loop.at(now + 4ms, [&] { log += 'd'; });
  loop.at(now + 2ms, [&] { log += 'a'; });
  loop.at(now + 2ms, [&] { log += 'b'; });
  loop.at(now + 3ms, [&] { log += 'c'; });
  while (log.size() < 4) loop.turn(now + 1s);
  CHECK(log == "abcd");
  CHECK(loop.now() >= now + 4ms);
  CHECK(loop.next_timer() == TimePoint::max());
}

TEST_CASE("async: a cancelled timer does not run, also when another cancels it in the same turn") {
  Loop loop;
  std::string log;
  Loop::TimerId second = 0;
  const Loop::TimerId never = loop.at(loop.now(), [&] { log += '!'; });
  loop.at(TimePoint::min(), [&] {
    log += '1';
    loop.cancel(second);
  });
  second = loop.at(TimePoint::min(), [&] { log += '2'; });
  loop.cancel(never);
  loop.cancel(never);
  loop.cancel(12345);
  while (loop.turn(TimePoint::min())) {
  }
  CHECK(log == "1");
}

TEST_CASE("async: a timer may set another, which runs in its turn") {
  Loop loop;
  int count = 0;
  std::function<void()> again = [&] {
    if (++count < 5) loop.at(loop.now() + 1ms, again);
  };
  loop.at(loop.now(), again);
  const TimePoint end = loop.now() + 1s;
  while (count < 5) loop.turn(end);
  CHECK(count == 5);
}

TEST_CASE("async: turn() returns false when its time is over and nothing happened") {
  Loop loop;
  const TimePoint begin = loop.now();
  CHECK_FALSE(loop.turn(begin + 20ms));
  CHECK(loop.now() >= begin + 20ms);
  CHECK_FALSE(loop.turn(TimePoint::min()));
}

TEST_CASE("async: the clock stands still in a turn, unless it is asked to be read, and runs between turns") {
  VirtualWorld world;
  Loop loop(world);
  const TimePoint begin = loop.now();
  bool checked = false;
  loop.post([&] {
    const TimePoint before = loop.now();
    CHECK(before == begin);
    world.pass(3ms);
    CHECK(loop.now() == before);
    loop.time_passed();
    CHECK(loop.now() == before + 3ms);
    checked = true;
  });
  CHECK(loop.turn(loop.now() + 1s));
  CHECK(checked);
  const TimePoint after = loop.now();
  world.pass(2ms);
  CHECK(loop.now() == after + 2ms);
  Loop real;
  const std::int64_t wall = std::time(nullptr);
  CHECK(real.wall_seconds() >= wall - 1);
  CHECK(real.wall_seconds() <= wall + 1);
}

TEST_CASE("async: a timer that is set long after the last turn is on time") {
  Loop loop;
  // A busy machine may be late now and then; a loop that counts from its last turn is always late.
  auto late = Clock::duration::max();
  for (int i = 0; i < 5 && late >= 200ms; ++i) {
    loop.turn(TimePoint::min());
    std::this_thread::sleep_for(250ms);  // the case is about the system's clock, which only real time moves
    const TimePoint due = loop.now() + 150ms;
    bool rung = false;
    loop.at(due, [&] { rung = true; });
    while (!rung) loop.turn(TimePoint::max());
    CHECK(Clock::now() >= due);
    late = std::min(late, Clock::now() - due);
  }
  CHECK(late < 200ms);
}

TEST_CASE("async: those that are woken are called at the end of the turn, in order, and before the hooks") {
  VirtualWorld world;
  Loop loop(world);
  std::string log;
  Waiting second([&](char) { log += '2'; });
  Waiting third([&](char) { log += '3'; });
  Waiting first([&](char) {
    log += '1';
    loop.wake(third);  // in this turn, too
  });
  loop.at_end_of_turn([&] { log += 'h'; });
  loop.wake(first);
  loop.wake(second);
  CHECK(log.empty());
  CHECK(loop.due() == TimePoint::min());
  CHECK(loop.turn(loop.now() + 1s));
  CHECK(log == "123h");
  CHECK(loop.due() == TimePoint::max());
  // Also those that a posted function wakes.
  loop.post([&] { loop.wake(second); });
  loop.end_turn();
  CHECK(log == "123h2h");
}

TEST_CASE("async: who was woken twice is called once, and who leaves or is destroyed is not called") {
  VirtualWorld world;
  Loop loop(world);
  std::string log;
  auto gone = std::make_unique<Waiting>([&](char) { log += 'g'; });
  Waiting left([&](char) { log += 'l'; });
  Waiting again([&](char) { log += 'a'; });
  Waiting killer([&](char) {
    log += 'k';
    gone.reset();
    left.leave();
  });
  for (Waiting* one : {&again, &killer, gone.get(), &left, &again}) loop.wake(*one);
  loop.end_turn();
  CHECK(log == "ka");
}

TEST_CASE("async: a timer that is set again has its last time only, and a destroyed one never goes off") {
  VirtualWorld world;
  Loop loop(world);
  std::string log;
  auto gone = std::make_unique<Waiting>([&](char) { log += 'g'; });
  Waiting one([&](char what) { log += what; });
  std::string order;
  Waiting a([&](char) { order += 'a'; }), b([&](char) { order += 'b'; }), c([&](char) { order += 'c'; });
  const TimePoint now = loop.now();
  loop.set(one, now + 1ms);
  loop.set(one, now + 5ms);
  loop.set(*gone, now + 2ms);
  for (Waiting* each : {&a, &b, &c}) loop.set(*each, now + 3ms);
  gone.reset();
  CHECK(loop.next_timer() == now + 3ms);
  world.pass(4ms);
  loop.turn(TimePoint::min());
  CHECK(log.empty());
  CHECK(order == "abc");
  CHECK(one.is_set());
  CHECK_FALSE(a.is_set());
  world.pass(1ms);
  loop.turn(TimePoint::min());
  CHECK(log == "t");
  one.cancel();
  CHECK(loop.next_timer() == TimePoint::max());
}

TEST_CASE("async: the order of a turn is timers, descriptors, posted functions, hooks") {
  Loop loop;
  std::string log;
  Pipe pipe;
  pipe.write();
  loop.post([&] { log += 'p'; });
  loop.at(TimePoint::min(), [&] { log += 't'; });
  loop.watch(pipe.fd[0], EPOLLIN, [&](std::uint32_t) {
    pipe.read();
    log += 'd';
  });
  loop.at_end_of_turn([&] { log += 'h'; });
  CHECK(loop.turn(loop.now() + 1s));
  CHECK(log == "tdph");
  loop.unwatch(pipe.fd[0]);
}

TEST_CASE("async: what is posted from a posted function runs, but not from inside post()") {
  Loop loop;
  std::string log;
  loop.post([&] {
    loop.post([&] { log += 'b'; });
    log += 'a';
  });
  CHECK(log.empty());
  loop.turn(TimePoint::min());
  loop.turn(TimePoint::min());
  CHECK(log == "ab");
}

TEST_CASE("async: a descriptor is watched, changed and let go, also from inside callbacks") {
  Loop loop;
  Pipe one, two;
  int count = 0;
  loop.watch(one.fd[0], EPOLLIN, [&](std::uint32_t events) {
    CHECK((events & EPOLLIN) != 0);
    one.read();
    ++count;
    loop.unwatch(one.fd[0]);
    loop.watch(two.fd[0], EPOLLIN, [&](std::uint32_t) {
      two.read();
      count += 10;
    });
  });
  loop.change(one.fd[0], 0);
  one.write();
  CHECK_FALSE(loop.turn(loop.now() + 5ms));
  loop.change(one.fd[0], EPOLLIN);
  CHECK(loop.turn(loop.now() + 1s));
  CHECK(count == 1);
  one.write();
  two.write();
  CHECK(loop.turn(loop.now() + 1s));
  CHECK(count == 11);
  loop.unwatch(two.fd[0]);
  two.write();
  CHECK_FALSE(loop.turn(loop.now() + 5ms));
}

TEST_CASE("async: a callback that unwatches another descriptor of the same turn keeps it quiet") {
  Loop loop;
  Pipe one, two;
  int count = 0;
  const auto callback = [&](std::uint32_t) {
    ++count;
    loop.unwatch(one.fd[0]);
    loop.unwatch(two.fd[0]);
  };
  loop.watch(one.fd[0], EPOLLIN, callback);
  loop.watch(two.fd[0], EPOLLIN, callback);
  one.write();
  two.write();
  CHECK(loop.turn(loop.now() + 1s));
  CHECK(count == 1);
}

TEST_CASE("async: an event of a closed descriptor does not reach a new one with the same number") {
  Loop loop;
  Pipe one, two;
  std::unique_ptr<Pipe> fresh;
  std::string log;
  const auto replace = [&](Pipe& mine, Pipe& other) {
    log += 'a';
    loop.unwatch(mine.fd[0]);
    const int number = other.fd[0];
    loop.unwatch(number);
    other.close_reader();
    fresh = std::make_unique<Pipe>();
    if (fresh->fd[0] != number) {  // the lowest free number, unless somebody else took it
      REQUIRE(::dup2(fresh->fd[0], number) == number);
      ::close(fresh->fd[0]);
      fresh->fd[0] = number;
    }
    loop.watch(number, EPOLLIN, [&](std::uint32_t) { log += '!'; });
  };
  loop.watch(one.fd[0], EPOLLIN, [&](std::uint32_t) { replace(one, two); });
  loop.watch(two.fd[0], EPOLLIN, [&](std::uint32_t) { replace(two, one); });
  one.write();
  two.write();
  CHECK(loop.turn(loop.now() + 1s));
  CHECK(log == "a");
  loop.unwatch(fresh->fd[0]);
}

TEST_CASE("async: an end-of-turn hook may remove itself or another") {
  Loop loop;
  std::string log;
  std::uint64_t first = 0, second = 0;
  first = loop.at_end_of_turn([&] {
    log += '1';
    loop.remove_end_of_turn(second);
    loop.remove_end_of_turn(first);
  });
  second = loop.at_end_of_turn([&] { log += '2'; });
  loop.at_end_of_turn([&] { log += '3'; });
  loop.end_turn();
  loop.end_turn();
  CHECK(log == "133");
}

TEST_CASE("async: spawned tasks run to their ends, and are destroyed then") {
  Loop loop;
  std::string log;
  int dead = 0;
  loop.spawn(nap(loop, 4ms, log, 'b'));
  loop.spawn(nap(loop, 2ms, log, 'a'));
  const auto tracked = [](Loop& on, Tracker tracker) -> Task<void> {
    co_await on.sleep_for(1ms);
    (void)tracker;
  };
  loop.spawn(tracked(loop, Tracker(dead)));
  const TimePoint end = loop.now() + 1s;
  while (log.size() < 2) loop.turn(end);
  CHECK(log == "ab");
  CHECK(dead == 1);
}

TEST_CASE("async: drop_tasks() and the loop's end destroy what has not ended") {
  int dead = 0;
  {
    Loop loop;
    loop.spawn(outer_sleep(loop, dead));
    loop.spawn(outer_sleep(loop, dead));
    loop.drop_tasks();
    CHECK(dead == 2);
    CHECK(loop.next_timer() == TimePoint::max());
    loop.spawn(outer_sleep(loop, dead));
  }
  CHECK(dead == 3);
}

TEST_CASE("async: the id of a task that has gone is nobody's, and so is 0") {
  Loop loop;
  int dead = 0;
  loop.drop(0);
  const std::uint64_t first = loop.spawn(outer_sleep(loop, dead));
  loop.drop(first);
  loop.drop(0);
  loop.drop(first);
  CHECK(dead == 1);
  const std::uint64_t second = loop.spawn(outer_sleep(loop, dead));
  const std::uint64_t third = loop.spawn(outer_sleep(loop, dead));
  loop.drop(first);
  loop.drop(0);
  CHECK(dead == 1);
  loop.drop(third);
  CHECK(dead == 2);
  loop.drop(second);
  CHECK(dead == 3);
}

TEST_CASE("async: a task that dies may spawn another") {
  Loop loop;
  std::string log;
  struct Spawner {
    Loop& loop;
    std::string& log;
    ~Spawner() { loop.spawn(nap(loop, 1ms, log, 'x')); }
  };
  const auto task = [](Loop& on, std::string& to) -> Task<void> {
    const Spawner last{on, to};
    co_await on.sleep_for(1h);
  };
  loop.spawn(task(loop, log));
  loop.spawn(task(loop, log));
  loop.drop_tasks();
  loop.drop_tasks();
  CHECK(log.empty());
}

TEST_CASE("async: its descriptor tells that there is something to do") {
  Loop loop;
  Pipe pipe;
  loop.watch(pipe.fd[0], EPOLLIN, [&](std::uint32_t) { pipe.read(); });
  Loop outer;
  int woken = 0;
  outer.watch(loop.descriptor(), EPOLLIN, [&](std::uint32_t) {
    ++woken;
    loop.turn(TimePoint::min());
  });
  CHECK_FALSE(outer.turn(outer.now() + 5ms));
  pipe.write();
  CHECK(outer.turn(outer.now() + 1s));
  CHECK(woken == 1);
  CHECK_FALSE(outer.turn(outer.now() + 5ms));
  outer.unwatch(loop.descriptor());
  loop.unwatch(pipe.fd[0]);
}

// ---- Event ----

namespace {
Task<void> wait_for(Event& event, TimePoint deadline, std::string& log, char name) {
  const bool notified = co_await event.wait_until(deadline);
  log += notified ? name : static_cast<char>(name - 'a' + 'A');
}
void settle(Loop& loop) {
  while (loop.turn(TimePoint::min())) {
  }
}
}  // namespace

TEST_CASE("async: an event wakes first come first served, from the loop") {
  Loop loop;
  Event event(loop);
  std::string log;
  for (const char name : {'a', 'b', 'c'}) loop.spawn(wait_for(event, TimePoint::max(), log, name));
  CHECK(event.awaited());
  event.notify_one();
  CHECK(log.empty());
  settle(loop);
  CHECK(log == "a");
  event.notify_all();
  CHECK_FALSE(event.awaited());
  settle(loop);
  CHECK(log == "abc");
  event.notify_one();  // nobody waits: not remembered
  loop.spawn(wait_for(event, TimePoint::max(), log, 'd'));
  settle(loop);
  CHECK(log == "abc");
  loop.drop_tasks();  // waiters go before their event
}

TEST_CASE("async: a deadline wakes with false, and takes the waiter off the queue") {
  Loop loop;
  Event event(loop);
  std::string log;
  loop.spawn(wait_for(event, loop.now() + 2ms, log, 'a'));
  loop.spawn(wait_for(event, TimePoint::max(), log, 'b'));
  loop.spawn(wait_for(event, TimePoint::min(), log, 'c'));
  const TimePoint end = loop.now() + 1s;
  while (log.size() < 2) loop.turn(end);
  CHECK(log == "CA");
  event.notify_one();
  settle(loop);
  CHECK(log == "CAb");
  CHECK(loop.next_timer() == TimePoint::max());
}

TEST_CASE("async: a waiter that is destroyed leaves the queue, before and after it was notified") {
  Loop loop;
  Event event(loop);
  std::string log;
  auto first = wait_for(event, loop.now() + 1h, log, 'a');
  first.handle().resume();
  auto second = wait_for(event, TimePoint::max(), log, 'b');
  second.handle().resume();
  {
    const auto dropped = std::move(first);
  }
  event.notify_all();
  {
    const auto dropped = std::move(second);
  }
  settle(loop);
  CHECK(log.empty());
  CHECK(loop.next_timer() == TimePoint::max());
}

TEST_CASE("async: a wake that its waiter did not live to see goes to the next one") {
  Loop loop;
  Event event(loop);
  std::string log;
  auto first = wait_for(event, TimePoint::max(), log, 'a');
  first.handle().resume();
  loop.spawn(wait_for(event, TimePoint::max(), log, 'b'));
  event.notify_one();
  {
    const auto dropped = std::move(first);
  }
  settle(loop);
  CHECK(log == "b");
  loop.drop_tasks();
}

TEST_CASE("async: a deadline that passes between notify and wake does not wake twice") {
  Loop loop;
  Event event(loop);
  std::string log;
  loop.spawn(wait_for(event, loop.now(), log, 'a'));
  event.notify_one();
  settle(loop);
  CHECK(log == "a");
}

}  // namespace nfsrdma::async
