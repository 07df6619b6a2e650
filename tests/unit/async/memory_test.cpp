// Memory in large pieces: what is given back serves those that ask for much the same.
#include "async/memory.h"

#include <doctest/doctest.h>

#include <vector>

#include "async/loop.h"

namespace nfsrdma::async {

TEST_CASE("memory: a large piece is used again, for what takes at least half of it") {
  constexpr std::size_t kMiB = 1U << 20;
  MemoryPool pool;
  Memory one = pool.take(kMiB - 5);
  CHECK(one.size == kMiB);
  one.data.get()[kMiB - 1] = std::byte{1};
  const std::byte* const where = one.data.get();
  Memory copy = one;
  one = {};
  CHECK(pool.spare_bytes() == 0);
  copy = {};
  CHECK(pool.spare_bytes() == kMiB);
  SUBCASE("half as large") {
    one = pool.take(kMiB / 2);
    CHECK(one.data.get() == where);
    CHECK(one.size == kMiB);
    CHECK(pool.spare_bytes() == 0);
  }
  SUBCASE("less") {
    one = pool.take(kMiB / 2 - 4096);
    CHECK(one.data.get() != where);
    CHECK(pool.spare_bytes() == kMiB);
    pool.drop_unused();
    CHECK(pool.spare_bytes() == kMiB);  // as of now
    pool.drop_unused();
    CHECK(pool.spare_bytes() == 0);
  }
}

TEST_CASE("memory: what is small is not kept, and of the rest no more than a bound") {
  constexpr std::size_t kMiB = 1U << 20;
  MemoryPool pool;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, MemoryPool::kLarge - 1}) {
    CHECK(pool.take(size).size == size);
  }
  CHECK(pool.spare_bytes() == 0);
  std::vector<Memory> many;
  for (int i = 0; i < 100; ++i) many.push_back(pool.take(kMiB));
  many.clear();
  CHECK(pool.spare_bytes() == MemoryPool::kMostSpare);
  // Others are asked for now: what nobody wants goes.
  for (int i = 0; i < 40; ++i) many.push_back(pool.take(3 * kMiB));
  CHECK(pool.spare_bytes() <= MemoryPool::kMostSpare / 2);
}

TEST_CASE("memory: what was not used meanwhile is dropped, and what was is not") {
  constexpr std::size_t kMiB = 1U << 20;
  MemoryPool pool;
  std::vector<Memory> many;
  for (int i = 0; i < 10; ++i) many.push_back(pool.take(kMiB));
  many.clear();
  pool.drop_unused();
  CHECK(pool.spare_bytes() == 10 * kMiB);
  for (int i = 0; i < 3; ++i) many.push_back(pool.take(kMiB));
  many.clear();
  pool.drop_unused();
  CHECK(pool.spare_bytes() == 3 * kMiB);
  for (int i = 0; i < 2; ++i) many.push_back(pool.take(kMiB));
  pool.drop_unused();
  CHECK(pool.spare_bytes() == 0);
  many.clear();
  CHECK(pool.spare_bytes() == 2 * kMiB);
}

TEST_CASE("memory: a loop gives back by itself what nobody wants") {
  Loop loop;
  const auto begin = Clock::now();
  loop.post([&] { (void)loop.memory().take(MemoryPool::kLarge); });
  while (loop.turn(TimePoint::min())) {
  }
  CHECK(loop.memory().spare_bytes() == MemoryPool::kLarge);
  CHECK(loop.next_timer() > begin + std::chrono::seconds(4));
  CHECK(loop.next_timer() < begin + std::chrono::seconds(7));
}

TEST_CASE("memory: of several the one that came back last is given first") {
  MemoryPool pool;
  Memory one = pool.take(2 * MemoryPool::kLarge), two = pool.take(2 * MemoryPool::kLarge);
  const std::byte* const last = one.data.get();
  two = {};
  one = {};
  CHECK(pool.take(2 * MemoryPool::kLarge - 100).data.get() == last);
}

TEST_CASE("memory: outlives its pool") {
  Memory one;
  {
    MemoryPool pool;
    one = pool.take(MemoryPool::kLarge);
  }
  one.data.get()[MemoryPool::kLarge - 1] = std::byte{1};
  CHECK(one.data.use_count() == 1);
}

}  // namespace nfsrdma::async
