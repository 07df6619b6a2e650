// The memory that peers may reach (fabric/iwarp/regions.h).
#include "fabric/iwarp/regions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace nfsrdma::fabric::iwarp {
TEST_CASE("regions: handles are never 0, unique, and of one table only") {
  std::deque<std::uint32_t> numbers{0, 5, 5, 0, 6};
  RegionTable table([&] {
    const std::uint32_t next = numbers.front();
    numbers.pop_front();
    return next;
  });
  std::vector<std::byte> memory(10);
  CHECK(table.add(memory, Use::remote_read).stag == 5);
  CHECK(table.add(memory, Use::remote_write).stag == 6);
  CHECK(table.check(5, 0, 10, Use::remote_read).region != nullptr);
  CHECK(table.check(5, 0, 11, Use::remote_read).refusal == Denial::out_of_bounds);
  CHECK(table.check(5, UINT64_MAX, 2, Use::remote_read).refusal == Denial::offset_wraps);
  CHECK(table.check(5, UINT64_MAX, 0, Use::remote_read).refusal == Denial::out_of_bounds);
  CHECK(table.check(5, 0, 1, Use::remote_write).refusal == Denial::wrong_use);
  CHECK(table.check(7, 0, 1, Use::remote_write).refusal == Denial::unknown_stag);
  CHECK(table.remove(5));
  CHECK_FALSE(table.remove(5));
  CHECK(table.find(5) == nullptr);
}

TEST_CASE("regions: of thousands each is found, and those that went are not") {
  std::mt19937 random(3);
  RegionTable table([&random] { return static_cast<std::uint32_t>(random()); });
  std::vector<std::byte> memory(16);
  std::vector<std::uint32_t> stags;
  const auto add = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) stags.push_back(table.add(memory, Use::remote_write).stag);
  };
  const auto found = [&] {
    return static_cast<std::size_t>(
        std::ranges::count_if(stags, [&](std::uint32_t stag) { return table.find(stag) != nullptr; }));
  };
  add(3000);
  CHECK(found() == 3000);
  CHECK(table.awaited() == 3000 * memory.size());
  for (std::size_t i = 0; i < 3000; i += 2) CHECK(table.remove(stags[i]));
  for (std::size_t i = 0; i < 3000; ++i) REQUIRE((table.find(stags[i]) != nullptr) == (i % 2 == 1));
  CHECK(table.awaited() == 1500 * memory.size());
  add(2000);
  CHECK(found() == 3500);
  table.withdraw(*table.find(stags.back()));
  CHECK(table.awaited() == 3499 * memory.size());
  CHECK(table.find(stags.back())->memory.empty());
  CHECK(table.check(stags.back(), 0, 16, Use::remote_write).region != nullptr);
  CHECK(table.check(stags.back(), 1, 16, Use::remote_write).refusal == Denial::out_of_bounds);
  table.clear();
  CHECK(found() == 0);
  CHECK(table.awaited() == 0);
  add(1);
  CHECK(found() == 1);
}

}  // namespace nfsrdma::fabric::iwarp
