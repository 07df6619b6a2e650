// ServerCounters: the counters of calls, found by the addresses of their names.
#include "engine/statistics.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

namespace nfsrdma::engine {

TEST_CASE("statistics: each name has counters of its own, however many there are") {
  // One character after the other is a name, so that the addresses lie as close together as they can.
  static const std::array<char, 300> names{};
  ServerCounters counters;
  for (std::size_t i = 0; i < names.size(); ++i) counters.of(&names[i]).failed += i;
  CHECK(counters.calls.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(counters.of(&names[i]).what == &names[i]);
    CHECK(counters.of(&names[i]).failed == i);
  }
  CHECK(counters.calls.size() == names.size());
}

TEST_CASE("statistics: counters of equal names are added up") {
  static const char first[] = "read";
  static const char second[] = "read";
  ServerCounters counters;
  counters.of(first).failed = 1;
  counters.of(second).failed = 2;
  const auto by_name = calls_by_name(counters);
  REQUIRE(by_name.contains("READ"));
  CHECK(by_name.at("READ").failed == 3);
}

}  // namespace nfsrdma::engine
