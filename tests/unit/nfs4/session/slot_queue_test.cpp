// The queue for a session's slots by itself.
#include "nfs4/session/slot_queue.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "sim/simulation.h"

namespace nfsrdma {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;
using MaybeUse = std::optional<SlotTable::Use>;

struct Queueing {
  sim::Simulation world{1};
  async::Loop& loop = world.add_host("client").loop();
  engine::ServerCounters counters;
  SlotQueue slots{loop, counters};
  explicit Queueing(std::uint32_t count = 1) { slots.reset(count); }
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    settle();
  }
  void settle() {
    loop.end_turn();
    while (world.step(world.now())) {
    }
  }
  async::Task<MaybeUse> waiting(async::Clock::duration most = 1h) {
    co_return co_await slots.wait(loop.now() + most);
  }
};

/// A request that waits without a coroutine, and writes its name into the log when it is served: a small letter with a
/// slot, which it gives back when it is told to, a capital one without.
class Request final : public SlotQueue::Waiter {
 public:
  Request(Queueing& all, std::string& log, char name) : all_(all), log_(log), name_(name) {}
  void join(async::Clock::duration most = 1h) { all_.slots.join(*this, all_.loop.now() + most); }
  void end() { std::exchange(use_, std::nullopt)->answered(); }
  using Waiter::is_waiting;
  using Waiter::stop_waiting;
  std::function<void()> then;  // called once

 private:
  void on_slot(MaybeUse use) override {
    log_ += use ? name_ : static_cast<char>(name_ - 'a' + 'A');
    use_ = std::move(use);
    if (const auto once = std::exchange(then, {})) once();
  }
  Queueing& all_;
  std::string& log_;
  const char name_;
  MaybeUse use_;
};

}  // namespace

TEST_CASE("slot queue: first come, first served, and nobody is served before those who wait") {
  Queueing m;
  auto use = m.slots.take_now();
  REQUIRE(use);
  auto first = m.waiting(), second = m.waiting();
  m.start(first);
  m.start(second);
  use->answered();
  CHECK_FALSE(m.slots.take_now());  // it is the first waiter's
  m.settle();
  REQUIRE(first.done());
  CHECK_FALSE(second.done());
  MaybeUse next = first.await_resume();
  REQUIRE(next);
  next->unsent();
  m.settle();
  REQUIRE(second.done());
  CHECK(second.await_resume());
  CHECK(m.counters.slot_waits == 2);
}

TEST_CASE("slot queue: a lone waiter that has been woken is served before who comes then") {
  Queueing m;
  auto use = m.slots.take_now();
  auto waiter = m.waiting();
  m.start(waiter);
  // As in a call's callback, which makes the next call in the turn that the slot came free in.
  use->answered();
  CHECK_FALSE(m.slots.take_now());
  m.settle();
  REQUIRE(waiter.done());
  MaybeUse served = waiter.await_resume();
  REQUIRE(served);
  served->answered();
  CHECK(m.slots.take_now());
}

TEST_CASE("slot queue: who comes while another one is woken costs nobody his place in the queue") {
  Queueing m;
  auto use = m.slots.take_now();
  auto first = m.waiting(), second = m.waiting(), third = m.waiting(), fourth = m.waiting();
  m.start(first);
  m.start(second);
  use->answered();
  m.start(third);
  REQUIRE(first.done());
  CHECK_FALSE(second.done());
  first.await_resume()->answered();
  m.start(fourth);
  REQUIRE(second.done());
  CHECK_FALSE(third.done());
  second.await_resume()->answered();
  m.settle();
  REQUIRE(third.done());
  CHECK_FALSE(fourth.done());
  third.await_resume()->answered();
  m.settle();
  CHECK(fourth.done());
}

TEST_CASE("slot queue: a waiter destroyed once it was woken leaves the slot to the next, or to who comes") {
  for (const bool another : {false, true}) {
    Queueing m;
    auto use = m.slots.take_now();
    std::optional<async::Task<MaybeUse>> dropped(m.waiting());
    m.start(*dropped);
    auto next = m.waiting();
    if (another) m.start(next);
    use->answered();
    dropped.reset();
    if (another) {
      CHECK_FALSE(m.slots.take_now());
      m.settle();
      REQUIRE(next.done());
      CHECK(next.await_resume());
    } else {
      CHECK(m.slots.take_now());
    }
  }
}

TEST_CASE("slot queue: a waiter destroyed in the queue, or whose time is over, locks nobody out") {
  Queueing m;
  auto use = m.slots.take_now();
  std::optional<async::Task<MaybeUse>> dropped(m.waiting());
  m.start(*dropped);
  auto late = m.waiting(10ms);
  m.start(late);
  dropped.reset();
  m.world.run_for(11ms);
  REQUIRE(late.done());
  CHECK_FALSE(late.await_resume());
  use->answered();
  CHECK(m.slots.take_now());
}

TEST_CASE("slot queue: who waits where nobody has to is served at once") {
  Queueing m;
  auto waiter = m.waiting();
  waiter.handle().resume();
  REQUIRE(waiter.done());
  CHECK(waiter.await_resume());
  CHECK(m.counters.slot_waits == 0);
}

TEST_CASE(
    "slot queue: all slots that came free in a turn are given out at its end, in the order of the queue") {
  Queueing m(3);
  MaybeUse one = m.slots.take_now(), two = m.slots.take_now(), three = m.slots.take_now();
  std::string log;
  Request a(m, log, 'a'), b(m, log, 'b'), c(m, log, 'c');
  for (Request* each : {&a, &b, &c}) each->join();
  one->answered();
  two->answered();
  CHECK(log.empty());
  CHECK_FALSE(m.slots.take_now());
  m.loop.end_turn();
  CHECK(log == "ab");
  CHECK(c.is_waiting());
  three->answered();
  m.loop.end_turn();
  CHECK(log == "abc");
}

TEST_CASE("slot queue: who is served may end at once, leave others, and join again") {
  Queueing m;
  MaybeUse held = m.slots.take_now();
  std::string log;
  Request a(m, log, 'a'), c(m, log, 'c'), d(m, log, 'd');
  auto b = std::make_unique<Request>(m, log, 'b');
  a.join();
  b->join();
  c.join();
  d.join(10ms);
  a.then = [&] {
    b.reset();         // destroyed while it waits
    d.stop_waiting();  // and one that leaves
    d.stop_waiting();
    a.end();
    a.join();
  };
  held->answered();
  m.loop.end_turn();
  CHECK(log == "ac");
  m.world.run_for(20ms);
  CHECK(log == "ac");
  c.end();
  m.loop.end_turn();
  CHECK(log == "aca");
}

TEST_CASE("slot queue: the time of one that waits behind others is over before theirs") {
  Queueing m;
  MaybeUse held = m.slots.take_now();
  std::string log;
  Request a(m, log, 'a'), b(m, log, 'b');
  a.join(1h);
  b.join(10ms);
  m.world.run_for(11ms);
  CHECK(log == "B");
  CHECK_FALSE(b.is_waiting());
  held->answered();
  m.settle();
  CHECK(log == "Ba");
  CHECK(m.counters.slot_waits == 2);
}

TEST_CASE("slot queue: a retired slot serves nobody, and who waits for too long gets none") {
  Queueing m;
  auto use = m.slots.take_now();
  auto waiter = m.waiting(10ms);
  m.start(waiter);
  use->retire();
  m.settle();
  CHECK_FALSE(waiter.done());
  m.world.run_for(11ms);
  REQUIRE(waiter.done());
  CHECK_FALSE(waiter.await_resume());
  CHECK(m.counters.slot_waited_us >= 10'000);
  CHECK(m.counters.slot_waited_us < 12'000);
}

TEST_CASE("slot queue: a new session serves all for whom it has slots") {
  Queueing m;
  auto use = m.slots.take_now();
  auto first = m.waiting(), second = m.waiting(), third = m.waiting();
  for (auto* one : {&first, &second, &third}) m.start(*one);
  m.slots.reset(2);
  m.settle();
  CHECK(first.done());
  CHECK(second.done());
  CHECK_FALSE(third.done());
  use->answered();  // of the session before
  m.settle();
  CHECK_FALSE(third.done());
  first.await_resume()->answered();
  m.settle();
  CHECK(third.done());
  auto kept = second.await_resume();
}

TEST_CASE("slot queue: a higher target serves those who wait") {
  Queueing m(2);
  m.slots.set_target(0);
  auto use = m.slots.take_now();
  auto waiter = m.waiting();
  m.start(waiter);
  m.settle();
  CHECK_FALSE(waiter.done());
  m.slots.set_target(1);
  m.settle();
  CHECK(waiter.done());
}

TEST_CASE("slot queue: it is drained when the last request has ended, one way or the other") {
  Queueing m(2);
  auto first = m.slots.take_now(), second = m.slots.take_now();
  auto late = m.slots.drained(m.loop.now() + 10ms), drained = m.slots.drained(m.loop.now() + 1h);
  m.start(late);
  m.start(drained);
  first->answered();
  m.world.run_for(11ms);
  REQUIRE(late.done());
  CHECK_FALSE(late.await_resume());
  CHECK_FALSE(drained.done());
  second->retire();
  m.settle();
  REQUIRE(drained.done());
  CHECK(drained.await_resume());
}

}  // namespace nfsrdma
