// How many octets gather before the connection reads them (fabric/iwarp/gathering.h).
#include "fabric/iwarp/gathering.h"

#include <doctest/doctest.h>

using nfsrdma::fabric::iwarp::Gathering;

namespace {

constexpr std::size_t kMiB = 1024 * 1024;
constexpr int kManyTimes = 1000;

}  // namespace

TEST_CASE("gathering: half of what is awaited, within bounds") {
  Gathering gathering;
  CHECK(gathering.mark() == 1);
  CHECK_FALSE(gathering.choose(4096));  // one small READ: its first octet is what its caller waits for
  CHECK_FALSE(gathering.waits());
  CHECK(gathering.choose(32 * 4096));
  CHECK(gathering.mark() == 16 * 4096);
  CHECK(gathering.choose(64 * kMiB));
  CHECK(gathering.mark() == Gathering::most);
  CHECK(gathering.choose(2 * Gathering::least));
  CHECK(gathering.mark() == Gathering::least);
  CHECK(gathering.choose(2 * Gathering::least - 2));
  CHECK_FALSE(gathering.waits());
}

TEST_CASE("gathering: a mark that is about right stays, and is never more than half") {
  Gathering gathering;
  CHECK(gathering.choose(128 * 1024));
  CHECK_FALSE(gathering.choose(256 * 1024));
  CHECK(gathering.mark() == 64 * 1024);
  CHECK(gathering.choose(256 * 1024 + 4));
  CHECK(gathering.mark() == 128 * 1024 + 2);
  CHECK(gathering.choose(256 * 1024));  // less than before: at once, since the rest may never come
  CHECK(gathering.mark() == 128 * 1024);
}

TEST_CASE(
    "gathering: what does not come in time is asked for in smaller parts, and in larger ones again later") {
  Gathering gathering;
  gathering.choose(8 * kMiB);
  gathering.too_late();
  CHECK(gathering.choose(8 * kMiB));
  CHECK(gathering.mark() == kMiB / 2);
  gathering.too_late();
  CHECK(gathering.choose(8 * kMiB));
  CHECK(gathering.mark() == kMiB / 4);
  gathering.in_time();
  CHECK_FALSE(gathering.choose(8 * kMiB));
  CHECK(gathering.mark() == kMiB / 4);  // once is no proof
  for (int i = 0; i < kManyTimes; ++i) gathering.in_time();
  CHECK(gathering.choose(8 * kMiB));
  CHECK(gathering.mark() == kMiB);
}

TEST_CASE("gathering: a peer that is always late has each octet told of, and is tried again") {
  Gathering gathering;
  for (int i = 0; i < kManyTimes; ++i) {
    gathering.choose(32 * 4096);
    gathering.too_late();
  }
  CHECK_FALSE(gathering.choose(32 * 4096));
  CHECK_FALSE(gathering.waits());
  CHECK_FALSE(gathering.stop());
  for (int i = 0; i < kManyTimes; ++i) gathering.in_time();
  CHECK(gathering.choose(32 * 4096));
  CHECK(gathering.waits());
  CHECK(gathering.stop());
  CHECK_FALSE(gathering.waits());
}
