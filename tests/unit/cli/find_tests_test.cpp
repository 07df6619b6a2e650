// The tests of find, each by itself.
#include "cli/find_tests.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace nfsrdma::cli {
namespace {

bool size_holds(std::string_view text, std::uint64_t size) {
  const auto test = SizeTest::parse(text);
  REQUIRE(test);
  return test->holds(size);
}

bool age_holds(std::string_view text, std::int64_t age, std::int64_t unit = 86400) {
  const auto test = AgeTest::parse(text, unit);
  REQUIRE(test);
  return test->holds({1'000'000'000 - age, 5}, {1'000'000'000, 5});
}

}  // namespace

TEST_CASE("find: sizes are rounded up to their unit, as find(1) has it") {
  CHECK(size_holds("1k", 1));
  CHECK(size_holds("1k", 1024));
  CHECK_FALSE(size_holds("1k", 1025));
  CHECK(size_holds("-1k", 0));
  CHECK_FALSE(size_holds("-1k", 1));
  CHECK(size_holds("+1M", (1U << 20) + 1));
  CHECK_FALSE(size_holds("+1M", 1U << 20));
  CHECK(size_holds("100c", 100));
  CHECK(size_holds("3", 1025));
  CHECK(size_holds("2w", 3));
  CHECK(size_holds("+0G", 1));
  CHECK(size_holds("-18446744073709551615c", 5));
  for (const char* text : {"", "k", "1K", "1kk", "--1k", "+", "1.5k", " 1k"}) {
    CAPTURE(text);
    CHECK_FALSE(SizeTest::parse(text));
  }
}

TEST_CASE("find: ages are whole units, and what is modified in the future has the age 0") {
  CHECK(age_holds("0", 86399));
  CHECK(age_holds("1", 86400));
  CHECK(age_holds("+1", 2 * 86400));
  CHECK_FALSE(age_holds("+1", 2 * 86400 - 1));
  CHECK(age_holds("-1", 86399));
  CHECK(age_holds("0", -5000));
  CHECK(age_holds("-10", 599, 60));
  CHECK_FALSE(age_holds("-10", 600, 60));
  CHECK_FALSE(AgeTest::parse("1d", 60));
  // Just under a day, by nanoseconds.
  const auto test = AgeTest::parse("0", 86400);
  REQUIRE(test);
  CHECK(test->holds({0, 500}, {86400, 499}));
  CHECK_FALSE(test->holds({0, 500}, {86400, 500}));
}

TEST_CASE("find: types are letters with commas between them") {
  CHECK(parse_types("f") == std::vector{FileType::regular});
  CHECK(parse_types("d,l") == std::vector{FileType::directory, FileType::symlink});
  for (const char* text : {"", ",", "f,", "fd", "x", "f,,d"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_types(text));
  }
}

}  // namespace nfsrdma::cli
