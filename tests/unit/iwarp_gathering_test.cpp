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
  Gathering gathering;
  const auto before = gathering.pause();
  gathering.polled(100 * 1024);
  CHECK(gathering.pause() == before);
  gathering.polled(1024);
  CHECK(gathering.pause() == 2 * before);
  for (int i = 0; i < 20; ++i) gathering.polled(0);
  CHECK(gathering.pause() <= 400us);
  for (int i = 0; i < 20; ++i) gathering.polled(1 << 20);
  CHECK(gathering.pause() == 50us);
}
