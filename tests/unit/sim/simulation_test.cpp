#include "sim/simulation.h"

#include <doctest/doctest.h>

#include <string>

#include "async/event.h"

using namespace nfsrdma;
using namespace nfsrdma::sim;
using namespace std::chrono_literals;

namespace {

async::Task<void> log_every(async::Loop& loop, Duration pause, std::string& log, char name, int times) {
  for (int i = 0; i < times; ++i) {
    co_await loop.sleep_for(pause);
    log += name;
  }
}

std::string run_two(std::uint64_t seed, std::uint64_t& hash) {
  Simulation world(seed);
  Host& a = world.add_host("a");
  Host& b = world.add_host("b");
  std::string log;
  a.loop().spawn(log_every(a.loop(), 10ms, log, 'a', 20));
  b.loop().spawn(log_every(b.loop(), 10ms, log, 'b', 20));
  CHECK(world.run_until([&] { return log.size() == 40; }, 1s));
  CHECK(world.now().time_since_epoch() == 200ms);
  hash = world.trace().hash();
  return log;
}

}  // namespace

TEST_CASE("sim: hosts that are due at one time take turns in an order that only the seed decides") {
  std::uint64_t first = 0, again = 0, another = 0;
  const std::string log = run_two(1, first);
  CHECK(log == run_two(1, again));
  CHECK(first == again);
  CHECK(log != run_two(2, another));
  CHECK(first != another);
}

TEST_CASE("sim: events come in the order of their times, and of one time in the order they were made in") {
  Simulation world(1);
  std::string log;
  world.after(2s, [&] { log += 'd'; });
  world.after(1s, [&] {
    log += 'a';
    world.after({}, [&] { log += 'c'; });
  });
  world.after(1s, [&] { log += 'b'; });
  CHECK(!world.run_until([] { return false; }, 10s));
  CHECK(log == "abcd");
  CHECK(world.now().time_since_epoch() == 10s);
}

TEST_CASE("S20 sim: a host that sleeps has its timers later, its lease's clock has gone on") {
  Simulation world(1);
  Host& a = world.add_host("a");
  Host& b = world.add_host("b");
  std::string log;
  a.loop().spawn(log_every(a.loop(), 10s, log, 'a', 1));
  b.loop().spawn(log_every(b.loop(), 12s, log, 'b', 1));
  const auto now = a.loop().now();
  const auto lease = a.loop().lease_now();
  const auto wall = a.loop().wall_seconds();
  world.run_for(2s);
  a.sleep();
  world.run_for(60s);
  CHECK(log == "b");
  CHECK(a.loop().now() == now + 2s);
  a.wake();
  CHECK(a.loop().now() == now + 2s);
  CHECK(a.loop().lease_now() == lease + 62s);
  world.run_for(7s);
  CHECK(log == "b");
  CHECK(a.loop().wall_seconds() >= wall + 68);
  world.run_for(1s);
  CHECK(log == "ba");
}

TEST_CASE("sim: a program that is stopped finds its clocks gone on") {
  Simulation world(1);
  Host& a = world.add_host("a");
  std::string log;
  a.loop().spawn(log_every(a.loop(), 10s, log, 'a', 1));
  a.stop();
  const auto now = a.loop().now();
  world.run_for(60s);
  CHECK(log.empty());
  CHECK(a.loop().now() == now + 60s);
  a.wake();
  world.run_for({});
  CHECK(world.step());
  CHECK(log == "a");
}

TEST_CASE("sim: a loop that is run from outside takes the rest of the world with it") {
  Simulation world(1);
  Host& a = world.add_host("a");
  Host& b = world.add_host("b");
  std::string log;
  b.loop().spawn(log_every(b.loop(), 10ms, log, 'b', 3));
  const auto begin = a.loop().now();
  a.loop().run(log_every(a.loop(), 15ms, log, 'a', 2));
  CHECK(a.loop().now() == begin + 30ms);
  CHECK((log == "babba" || log == "babab"));
  // Something comes from another host while it waits.
  bool told = false;
  world.after(1s, [&] { a.loop().post([&] { told = true; }); });
  CHECK(a.loop().turn(begin + 1h));
  CHECK(told);
  CHECK(a.loop().now() == begin + 1030ms);
  CHECK(!a.loop().turn(begin + 1h));
  CHECK(a.loop().now() == begin + 1h);
  CHECK_THROWS_AS(a.loop().turn(async::TimePoint::max()), Stuck);
}

TEST_CASE("sim: a loop that feeds itself is found") {
  Simulation world(1);
  Host& a = world.add_host("a");
  world.trace().keep(0);
  std::function<void()> again = [&] { a.loop().post(again); };
  again();
  CHECK_THROWS_AS(world.run_for(1s), Stuck);
  again = nullptr;
}
