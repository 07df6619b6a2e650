#include "async/mutex.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "support/virtual_world.h"

namespace nfsrdma::async {
namespace {

using namespace std::chrono_literals;

struct Users {
  testing::VirtualWorld world;
  Loop loop{world};
  Mutex mutex{loop};
  std::string order;

  Task<void> use(char name, Clock::duration time, TimePoint deadline = TimePoint::max()) {
    const Mutex::Lock lock = co_await mutex.lock(deadline);
    order += lock ? name : '-';
    if (lock) co_await loop.sleep_for(time);
  }
  Task<void> pause(Clock::duration time) { co_await loop.sleep_for(time); }
  void pass(Clock::duration time) { loop.run(pause(time)); }
};

}  // namespace

TEST_CASE("mutex: one at a time, in the order in which they came") {
  Users m;
  for (const char name : {'a', 'b', 'c'}) m.loop.spawn(m.use(name, 10ms));
  CHECK(m.order == "a");
  m.pass(11ms);
  CHECK(m.order == "ab");
  m.pass(1s);
  CHECK(m.order == "abc");
  CHECK_FALSE(m.mutex.locked());
}

TEST_CASE("mutex: whoever cannot have it in time goes without, and holds up nobody") {
  Users m;
  m.loop.spawn(m.use('a', 20ms));
  m.loop.spawn(m.use('b', 10ms, m.loop.now() + 10ms));
  m.loop.spawn(m.use('c', 10ms));
  m.pass(11ms);
  CHECK(m.order == "a-");
  m.pass(10ms);
  CHECK(m.order == "a-c");
}

TEST_CASE("mutex: tasks that are destroyed") {
  Users m;
  const std::uint64_t holder = m.loop.spawn(m.use('a', 1h));
  const std::uint64_t waiter = m.loop.spawn(m.use('b', 1h));
  m.loop.spawn(m.use('c', 1h));
  SUBCASE("while one waits") {
    m.loop.drop(waiter);
    m.loop.drop(holder);
  }
  SUBCASE("while one has been woken") {
    m.loop.drop(holder);
    m.loop.drop(waiter);
  }
  m.pass(1ms);
  CHECK(m.order == "ac");
}

TEST_CASE("mutex: who comes before the one who was woken runs has it first") {
  Users m;
  const std::uint64_t holder = m.loop.spawn(m.use('a', 1h));
  m.loop.spawn(m.use('b', 1ms));
  m.loop.drop(holder);
  m.loop.spawn(m.use('c', 1ms));
  CHECK(m.order == "ac");
  m.pass(1s);
  CHECK(m.order == "acb");
}

}  // namespace nfsrdma::async
