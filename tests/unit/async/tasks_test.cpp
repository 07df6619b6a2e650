// Several tasks at once, those that end with their owner, waiting until something is so, guards of what is under way, and
// pauses: each, tasks, until, under_way, backoff.
#include "async/tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/all.h"
#include "async/backoff.h"
#include "async/each.h"
#include "async/under_way.h"
#include "async/until.h"
#include "support/virtual_world.h"

namespace nfsrdma::async {
namespace {

using namespace std::chrono_literals;

/// A loop on virtual time.
struct Still {
  testing::VirtualWorld world;
  Loop loop{world};
  /// All that is due now.
  void settle() {
    while (loop.turn(TimePoint::min())) {
    }
  }
};

Task<int> value_after(Loop& loop, Clock::duration time, int value) {
  co_await loop.sleep_for(time);
  co_return value;
}
Task<void> note_after(Loop& loop, Clock::duration time, std::string& log, char name) {
  co_await loop.sleep_for(time);
  log += name;
}
Task<void> note_at_once(std::string& log, char name) {
  log += name;
  co_return;
}
Task<void> note_told(Event& event, std::string& log, char name) {
  for (;;) {
    const bool told = co_await event.wait_until(TimePoint::max());
    if (!told) co_return;
    log += name;
  }
}

}  // namespace

// ---- Several at once ----

TEST_CASE("async: all() gives the results in the order of the tasks, when the last has ended") {
  Still m;
  const TimePoint begin = m.loop.now();
  std::vector<Task<int>> tasks;
  tasks.push_back(value_after(m.loop, 2ms, 1));
  tasks.push_back(value_after(m.loop, 7ms, 2));
  tasks.push_back(value_after(m.loop, 1ms, 3));
  CHECK(m.loop.run(all(m.loop, std::move(tasks))) == std::vector<int>{1, 2, 3});
  CHECK(m.loop.now() == begin + 7ms);  // beside each other
  CHECK(m.loop.run(all(m.loop, std::vector<Task<int>>())).empty());
}

TEST_CASE("async: who waits for all() may be destroyed before they end") {
  Still m;
  std::vector<Task<int>> tasks;
  tasks.push_back(value_after(m.loop, 2ms, 1));
  tasks.push_back(value_after(m.loop, 3ms, 2));
  {
    const auto waiter = all(m.loop, std::move(tasks));
    waiter.handle().resume();
  }
  CHECK(m.loop.next_timer() == m.loop.now() + 2ms);  // they go on
  m.loop.run(value_after(m.loop, 5ms, 0));
  CHECK(m.loop.next_timer() == TimePoint::max());
}

namespace {

struct Many {
  explicit Many(Loop& on) : loop(on) {}
  Loop& loop;
  unsigned under_way = 0, most = 0;
  std::vector<std::size_t> done;
  Task<void> work(std::size_t index) {
    most = std::max(most, ++under_way);
    if (index % 3 != 0) co_await loop.sleep_for(std::chrono::milliseconds(static_cast<int>(index % 3)));
    --under_way;
    done.push_back(index);
  }
};

}  // namespace

TEST_CASE("async: each of many is done once, so many of them beside each other and no more") {
  for (const std::size_t at_once : {std::size_t{1}, std::size_t{4}, std::size_t{100}}) {
    CAPTURE(at_once);
    Still m;
    Many many(m.loop);
    Each each(m.loop, 20, [&many](std::size_t index) { return many.work(index); });
    m.loop.run(each.run(at_once));
    CHECK(many.under_way == 0);
    CHECK(many.most <= at_once);
    if (at_once < 10) CHECK(many.most == at_once);
    std::vector<std::size_t> expected(20);
    std::iota(expected.begin(), expected.end(), std::size_t{0});
    std::ranges::sort(many.done);
    CHECK(many.done == expected);
  }
}

TEST_CASE("async: what is under way of many ends with who runs it, and nothing more begins") {
  Still m;
  Many many(m.loop);
  {
    Each each(m.loop, 20, [&many](std::size_t index) { return many.work(index + 1 - index % 3); });
    const auto task = each.run(3);
    task.handle().resume();
    CHECK(many.under_way == 3);
  }
  CHECK(m.loop.next_timer() == TimePoint::max());
  m.settle();
  CHECK(many.done.empty());
}

// ---- Those that end with their owner ----

TEST_CASE("async: Tasks hold what has not ended, and destroy it with themselves") {
  Still m;
  std::string log;
  {
    Tasks tasks(m.loop);
    CHECK(tasks.empty());
    tasks.spawn(note_at_once(log, 'a'));
    CHECK(log == "a");
    CHECK(tasks.empty());
    tasks.spawn(note_after(m.loop, 1ms, log, 'b'));
    tasks.spawn(note_after(m.loop, 9ms, log, 'c'));
    CHECK_FALSE(tasks.empty());
    m.loop.run(value_after(m.loop, 2ms, 0));
    CHECK(log == "ab");
    CHECK_FALSE(tasks.empty());
    tasks.drop();
    CHECK(tasks.empty());
    CHECK(m.loop.next_timer() == TimePoint::max());
    tasks.spawn(note_after(m.loop, 1ms, log, 'd'));
    tasks.spawn(note_after(m.loop, 2ms, log, 'e'));
  }
  CHECK(m.loop.next_timer() == TimePoint::max());
  m.loop.run(value_after(m.loop, 20ms, 0));
  CHECK(log == "ab");
}

TEST_CASE("async: a task that has ended holds nothing any more, although its turn has not") {
  const auto held_until_now = [](std::shared_ptr<int> /*held*/) -> Task<void> { co_return; };
  const auto held = std::make_shared<int>(1);
  Still m;
  Tasks tasks(m.loop);
  SUBCASE("one of an owner") {
    tasks.spawn(held_until_now(held));
  }
  SUBCASE("one of the loop") {
    m.loop.spawn(held_until_now(held));
  }
  CHECK(held.use_count() == 1);
}

// ---- Waiting for what is so ----

namespace {

Task<void> note_until(Event& event, TimePoint deadline, const bool& is_so, std::string& log) {
  const bool in_time = co_await until(event, deadline, [&is_so] { return is_so; });
  log += in_time ? 'y' : 'n';
}

}  // namespace

TEST_CASE("async: until() looks before it waits, and again at each notification") {
  Still m;
  Event event(m.loop);
  std::string log;
  bool is_so = true;
  m.loop.spawn(note_until(event, TimePoint::min(), is_so, log));
  CHECK(log == "y");  // its time was over, and it had not to wait
  is_so = false;
  m.loop.spawn(note_until(event, m.loop.now() + 5ms, is_so, log));
  event.notify_all();
  m.settle();
  CHECK(log == "y");
  is_so = true;
  m.settle();
  CHECK(log == "y");  // nobody has said so
  event.notify_all();
  m.settle();
  CHECK(log == "yy");
  is_so = false;
  m.loop.spawn(note_until(event, m.loop.now() + 5ms, is_so, log));
  m.loop.run(value_after(m.loop, 6ms, 0));
  CHECK(log == "yyn");
}

// ---- Guards ----

TEST_CASE("async: the end of what is under way is told when the last of it ends") {
  Still m;
  Event ended(m.loop);
  std::string log;
  m.loop.spawn(note_told(ended, log, 'x'));
  unsigned count = 0;
  bool flag = false;
  {
    std::optional<Counted> first(std::in_place, count, ended), second(std::in_place, count, ended);
    CHECK(count == 2);
    first.reset();
    m.settle();
    CHECK(count == 1);
    CHECK(log.empty());
    second.reset();
    CHECK(count == 0);
    m.settle();
    CHECK(log == "x");
  }
  {
    const Flagged guard(flag, ended);
    CHECK(flag);
    m.settle();
    CHECK(log == "x");
  }
  CHECK_FALSE(flag);
  m.settle();
  CHECK(log == "xx");
  m.loop.drop_tasks();  // waiters go before their event
}

TEST_CASE("async: a Use that is handed on counts once, and one that is replaced ends") {
  Still m;
  Event ended(m.loop);
  std::string log;
  m.loop.spawn(note_told(ended, log, 'x'));
  unsigned count = 0, other = 0;
  {
    Use one(count, ended);
    CHECK(count == 1);
    Use two(std::move(one));
    CHECK(count == 1);
    one = Use(other, ended);
    CHECK(other == 1);
    two = std::move(one);  // what it had ends
    CHECK(count == 0);
    CHECK(other == 1);
    m.settle();
    CHECK(log == "x");
  }
  CHECK(other == 0);
  m.settle();
  CHECK(log == "xx");
  m.loop.drop_tasks();
}

// ---- Pauses ----

TEST_CASE("async: each pause is twice as long as the one before, up to the longest") {
  Backoff pauses(10ms, 35ms);
  CHECK(pauses.next() == 10ms);
  CHECK(pauses.take() == 10ms);
  CHECK(pauses.next() == 20ms);
  CHECK(pauses.next() == 20ms);
  CHECK(pauses.take() == 20ms);
  CHECK(pauses.take() == 35ms);
  CHECK(pauses.take() == 35ms);
}

}  // namespace nfsrdma::async
