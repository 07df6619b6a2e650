#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string>

#include "async/event.h"
#include "async/loop.h"
#include "support/virtual_world.h"

using namespace nfsrdma::async;
using namespace std::chrono_literals;
using nfsrdma::testing::VirtualWorld;

TEST_CASE("async: in a virtual world a day of timers is a moment, and each is on time") {
  VirtualWorld world;
  Loop loop(world);
  const TimePoint begin = loop.now();
  std::string log;
  const auto note = [&](char name, Clock::duration due) {
    loop.at(begin + due, [&, name, due] {
      log += name;
      CHECK(loop.now() == begin + due);
    });
  };
  note('c', 24h);
  note('a', 1ms);
  note('b', 1h);
  CHECK(loop.due() == begin + 1ms);
  while (log.size() < 3) loop.turn(TimePoint::max());
  CHECK(log == "abc");
  CHECK(loop.due() == TimePoint::max());
  const bool did = loop.turn(loop.now() + 5s);
  CHECK(!did);
  CHECK(loop.now() == begin + 24h + 5s);
  loop.post([&] { log += 'p'; });
  CHECK(loop.due() == TimePoint::min());
  CHECK(loop.turn(TimePoint::max()));
  CHECK(loop.now() == begin + 24h + 5s);
  CHECK(log == "abcp");
}

namespace {

Task<int> wait_for(Loop& loop, Event& event) {
  const bool told = co_await event.wait_until(loop.now() + 10min);
  co_await loop.sleep_for(1h);
  co_return told ? 1 : 2;
}

}  // namespace

TEST_CASE("async: tasks run to their end on virtual time") {
  VirtualWorld world;
  Loop loop(world);
  Event event(loop);
  const TimePoint begin = loop.now();
  CHECK(loop.run(wait_for(loop, event)) == 2);
  CHECK(loop.now() == begin + 70min);
}

TEST_CASE(
    "S20 the lease's clock goes on while the machine sleeps, the other stands still; neither moves in a "
    "turn") {
  VirtualWorld world;
  Loop loop(world);
  const TimePoint now = loop.now();
  const LeaseTime lease = loop.lease_now();
  world.sleep(90s);
  CHECK(loop.now() == now);
  CHECK(loop.lease_now() == lease + 90s);
  world.pass(1s);
  CHECK(loop.now() == now + 1s);
  CHECK(loop.lease_now() == lease + 91s);
  loop.post([&] {
    const LeaseTime before = loop.lease_now();
    world.sleep(5s);
    CHECK(loop.lease_now() == before);
    loop.time_passed();
    CHECK(loop.lease_now() == before + 5s);
  });
  CHECK(loop.turn(TimePoint::min()));
}

TEST_CASE("S20 the system's clock for leases is the one that counts suspend") {
  Loop loop;
  timespec time{};
  REQUIRE(::clock_gettime(CLOCK_BOOTTIME, &time) == 0);
  const LeaseTime before(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  const LeaseTime told = loop.lease_now();
  CHECK(told >= before);
  CHECK(told < before + 60s);
}

TEST_CASE("S7 async: the lease's time of a turn, or of a visit, is the one that was read first in it") {
  VirtualWorld world;
  Loop loop(world);
  LeaseTime first{};
  loop.post([&] {
    first = loop.lease_of_turn();
    world.pass(3s);
    loop.time_passed();
    CHECK(loop.lease_now() == first + 3s);
    CHECK(loop.lease_of_turn() == first);
  });
  CHECK(loop.turn(TimePoint::min()));
  loop.begin_visit();
  CHECK(loop.lease_of_turn() == first + 3s);
  world.sleep(60s);
  CHECK(loop.lease_of_turn() == first + 3s);
  loop.end_visit();
  loop.begin_visit();
  CHECK(loop.lease_of_turn() == first + 63s);
  loop.end_visit();
}

TEST_CASE("async: a loop's chance is its world's") {
  const auto some = [](std::uint64_t seed) {
    VirtualWorld world(seed);
    Loop loop(world);
    std::array<std::uint64_t, 100> out{};
    for (auto& one : out) one = loop.random<std::uint64_t>();
    return out;
  };
  CHECK(some(7) == some(7));
  CHECK(some(7) != some(8));
  auto all = some(7);
  std::ranges::sort(all);
  CHECK(std::ranges::adjacent_find(all) == all.end());

  Loop system;
  CHECK(system.random<std::uint64_t>() != system.random<std::uint64_t>());
  std::array<std::byte, 1000> large{};
  system.random(large);
  CHECK(std::ranges::count(large, std::byte{}) < 50);
}

TEST_CASE("async: every byte of a world's chance is given out once") {
  struct Counting final : World {
    TimePoint now() override { return {}; }
    LeaseTime lease_now() override { return {}; }
    std::int64_t wall_seconds() override { return 0; }
    void random(std::span<std::byte> out) override {
      for (std::byte& one : out) one = std::byte(next++);
    }
    std::size_t wait(TimePoint, std::span<Ready>) override { return 0; }
    unsigned next = 0;
  } world;
  Loop loop(world);
  std::array<std::byte, 100> first{}, second{}, third{};
  loop.random(first);
  loop.random(second);
  loop.random(third);  // what is left of the first 256 bytes is not enough, and is dropped
  CHECK(first[99] == std::byte{99});
  CHECK(second[0] == std::byte{100});
  CHECK(third[0] == std::byte{0});
  CHECK(world.next == 512);
}
