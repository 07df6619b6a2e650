// What tasks are made of beside the loop itself: several at once, those that end with their owner, guards, letters, pauses,
// work on other threads.
#include <doctest/doctest.h>
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/all.h"
#include "async/backoff.h"
#include "async/each.h"
#include "async/helper.h"
#include "async/mailbox.h"
#include "async/tasks.h"
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

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
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

// ---- The lease's clock ----

TEST_CASE("S7 async: the lease's time of a turn, or of a visit, is the one that was read first in it") {
  Still m;
  LeaseTime first{};
  m.loop.post([&] {
    first = m.loop.lease_of_turn();
    m.world.pass(3s);
    m.loop.time_passed();
    CHECK(m.loop.lease_now() == first + 3s);
    CHECK(m.loop.lease_of_turn() == first);
  });
  CHECK(m.loop.turn(TimePoint::min()));
  m.loop.begin_visit();
  CHECK(m.loop.lease_of_turn() == first + 3s);
  m.world.sleep(60s);
  CHECK(m.loop.lease_of_turn() == first + 3s);
  m.loop.end_visit();
  m.loop.begin_visit();
  CHECK(m.loop.lease_of_turn() == first + 63s);
  m.loop.end_visit();
}

// ---- Other threads ----

TEST_CASE("async: letters arrive in their order, and their descriptor is readable while there are any") {
  Mailbox<int> mailbox;
  std::vector<int> letters, taken;
  mailbox.give(letters);
  CHECK_FALSE(is_readable(mailbox.descriptor()));
  for (int round = 0; round < 3; ++round) {
    letters = {1, 2};
    mailbox.give(letters);
    CHECK(letters.empty());
    letters = {3};
    mailbox.give(letters);
    CHECK(letters.empty());
    CHECK(is_readable(mailbox.descriptor()));
    mailbox.take(taken);
    CHECK(taken == std::vector<int>{1, 2, 3});
    CHECK_FALSE(is_readable(mailbox.descriptor()));
    taken.clear();
    mailbox.take(taken);
    CHECK(taken.empty());
  }
}

namespace {
bool is_blocked(int signal) {
  sigset_t now;
  sigemptyset(&now);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, signal) == 1;
}
}  // namespace

TEST_CASE("async: a helper takes none of the program's signals, and its maker goes on taking them") {
  Loop loop;
  const bool before = is_blocked(SIGTERM);
  const std::function<int()> work = [] { return is_blocked(SIGTERM) && is_blocked(SIGINT) ? 1 : 2; };
  CHECK(loop.run(on_helper<int>(loop, loop.now() + 30s, work)) == std::optional(1));
  CHECK(is_blocked(SIGTERM) == before);
}

TEST_CASE("async: work that does not end in time is left behind, with all that it uses") {
  Loop loop;
  std::promise<int> gate;
  const auto ended = std::make_shared<std::promise<void>>();
  const auto end = ended->get_future();
  const std::function<int()> work = [open = gate.get_future().share(), ended] {
    const int out = open.get();
    ended->set_value();
    return out;
  };
  CHECK_FALSE(loop.run(on_helper<int>(loop, loop.now() + 5ms, work)));
  CHECK(loop.next_timer() == TimePoint::max());
  CHECK_FALSE(loop.turn(TimePoint::min()));
  gate.set_value(7);
  CHECK(end.wait_for(30s) == std::future_status::ready);
  CHECK_FALSE(loop.turn(TimePoint::min()));  // its result is nobody's
}

}  // namespace nfsrdma::async
