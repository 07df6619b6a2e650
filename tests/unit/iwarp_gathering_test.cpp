#include <doctest/doctest.h>

#include "fabric/iwarp/gathering.h"

using nfsrdma::fabric::iwarp::Gathering;
using namespace std::chrono_literals;

TEST_CASE("gathering: polls only while much is awaited") {
  CHECK_FALSE(Gathering::polls(0));
  CHECK_FALSE(Gathering::polls(4096));  // one small READ: its first octet is what its caller waits for
  CHECK(Gathering::polls(Gathering::bulk));
  CHECK(Gathering::polls(16 << 20));
}

TEST_CASE("gathering: the pause follows what is found, within bounds") {
  constexpr std::size_t plenty = 64 << 20;
  Gathering gathering;
  const auto before = gathering.pause();
  gathering.polled(100 * 1024, plenty);
  CHECK(gathering.pause() == before);
  gathering.polled(1024, plenty);
  CHECK(gathering.pause() == 2 * before);
  for (int i = 0; i < 20; ++i) gathering.polled(0, plenty);
  CHECK(gathering.pause() <= 400us);
  for (int i = 0; i < 20; ++i) gathering.polled(1 << 20, plenty);
  CHECK(gathering.pause() == 50us);
}

TEST_CASE("gathering: a poll that finds most of what was awaited came too late") {
  constexpr std::size_t awaited = 30 * 4096;
  Gathering gathering;
  const auto before = gathering.pause();
  gathering.polled(awaited / 4, awaited);
  CHECK(gathering.pause() == before);
  gathering.polled(awaited * 3 / 4, awaited);
  CHECK(gathering.pause() == before / 2);
  gathering.polled(4096, awaited);  // one of thirty: too early
  CHECK(gathering.pause() == before);
}
