#include "fs/second_tries.h"

#include <doctest/doctest.h>

namespace nfsrdma::fs {

using namespace std::chrono_literals;

TEST_CASE("F19 second tries: the thread's next open of the inode is one, once and within a second") {
  SecondTries all;
  const async::TimePoint now{};
  all.refused(4, 7, 9, now);
  CHECK_FALSE(all.take(5, 7, now));
  CHECK(all.take(4, 7, now) == 9);
  CHECK_FALSE(all.take(4, 7, now));
  all.refused(4, 7, 9, now);
  CHECK_FALSE(all.take(4, 7, now + 1s));
  CHECK(all.empty());
}

TEST_CASE("F19 second tries: a walk that ends elsewhere leaves none") {
  SecondTries all;
  const async::TimePoint now{};
  all.refused(4, 7, 9, now);
  SUBCASE("the thread opens another file") {
    CHECK_FALSE(all.take(4, 8, now));
  }
  SUBCASE("a LOOKUP finds something else") {
    all.end([](std::uint64_t inode) { return inode == 6; });
    CHECK_FALSE(all.empty());
    all.end([](std::uint64_t inode) { return inode == 7; });
  }
  CHECK_FALSE(all.take(4, 7, now));
}

TEST_CASE("F19 second tries: so many threads have one") {
  SecondTries all;
  const async::TimePoint now{};
  for (std::uint32_t thread = 0; thread <= SecondTries::kMost; ++thread)
    all.refused(thread, 7, 9, now + std::chrono::milliseconds(thread));
  CHECK_FALSE(all.take(0, 7, now + 100ms));
  CHECK(all.take(1, 7, now + 100ms) == 9);
  CHECK(all.take(SecondTries::kMost, 7, now + 100ms) == 9);
}

}  // namespace nfsrdma::fs
