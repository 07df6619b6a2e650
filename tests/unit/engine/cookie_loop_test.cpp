// Listings that go in circles, and those that do not.
#include "engine/cookie_loop.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

using nfsrdma::engine::CookieLoop;

namespace {

/// How many entries are taken of a listing of `before` entries and then `circle` of them for ever.
std::uint64_t taken_of(std::uint64_t before, std::uint64_t circle, std::uint64_t most) {
  CookieLoop loop;
  for (std::uint64_t i = 0; i < most; ++i) {
    const std::uint64_t place = i < before ? i : before + (i - before) % circle;
    if (loop.closes_with(place * 0x9e3779b97f4a7c15 + 3)) return i + 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("listing: a circle is found wherever it begins, before three times its way has been gone") {
  for (const std::uint64_t before : {0U, 1U, 2U, 3U, 10U, 63U, 64U, 1000U, 20'000U}) {
    for (const std::uint64_t circle : {2U, 3U, 7U, 64U, 100U, 1000U, 20'000U}) {
      CAPTURE(before);
      CAPTURE(circle);
      const std::uint64_t taken = taken_of(before, circle, 4 * (before + circle));
      CHECK(taken > before + circle);
      CHECK(taken <= 3 * (before + circle) + 1);
    }
  }
}

TEST_CASE("listing: a server that never gets on from one cookie is found") {
  CHECK(taken_of(0, 1, 1000) != 0);
  CHECK(taken_of(100, 1, 1000) != 0);
}

TEST_CASE("listing: cookies that differ are no circle, in whatever order they come") {
  CookieLoop rising, falling, random;
  std::mt19937_64 source(1);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    std::uint64_t cookie = source();
    while (!seen.insert(cookie).second) cookie = source();
    REQUIRE_FALSE(rising.closes_with(i));
    REQUIRE_FALSE(falling.closes_with(~i));
    REQUIRE_FALSE(random.closes_with(cookie));
  }
}

TEST_CASE("listing: names whose cookies collide stand next to each other and are no circle") {
  CookieLoop loop;
  for (std::uint64_t i = 0; i < 10'000; ++i) REQUIRE_FALSE(loop.closes_with(i / 3));
}

TEST_CASE("listing: the error says whose fault it is") {
  const nfsrdma::Error error = CookieLoop::error("READDIR", "/dir");
  CHECK(error.errno_value() == ELOOP);
  CHECK(error.text().find("/dir") != std::string::npos);
  CHECK(error.text().find("server") != std::string::npos);
}
