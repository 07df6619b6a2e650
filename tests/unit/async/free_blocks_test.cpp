// Blocks of memory that are kept for the next object of their size.
#include "async/free_blocks.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace nfsrdma::async {

namespace {

struct Small {
  static constexpr std::size_t kUnit = 32, kLargest = 512;
  /// Fewer of the large ones.
  static constexpr std::uint32_t most(std::size_t bytes) { return bytes < 256 ? 128 : 60; }
};
using SmallBlocks = FreeBlocks<Small>;

}  // namespace

TEST_CASE("free blocks: a block is given out again to the next object of its size, and of no other") {
  SmallBlocks blocks;
  void* const first = blocks.take(33);
  std::memset(first, 1, 33);
  blocks.give(first, 33);
  CHECK(blocks.kept(33) == 1);
  CHECK(blocks.kept(32) == 0);
  void* const smaller = blocks.take(32);
  CHECK(smaller != first);
  void* const same = blocks.take(64);  // rounded up alike
  CHECK(same == first);
  std::memset(same, 2, 64);
  CHECK(blocks.kept(64) == 0);
  blocks.give(smaller, 32);
  blocks.give(same, 64);
}

TEST_CASE("free blocks: the last one that came is the first to go, and each has its own bytes") {
  SmallBlocks blocks;
  std::vector<char*> all;
  for (char i = 0; i < 50; ++i) {
    all.push_back(static_cast<char*>(blocks.take(512)));
    std::memset(all.back(), i, 512);
  }
  for (char i = 0; i < 50; ++i) {
    CHECK(all[static_cast<std::size_t>(i)][0] == i);
    CHECK(all[static_cast<std::size_t>(i)][511] == i);
  }
  for (char* one : all) blocks.give(one, 512);
  CHECK(blocks.kept(512) == 50);
  CHECK(blocks.take(512) == all.back());
  blocks.give(all.back(), 512);
}

TEST_CASE("free blocks: only so many are kept, large ones and nothing never") {
  SmallBlocks blocks;
  std::vector<void*> all;
  for (std::uint32_t i = 0; i < Small::most(100) + 10; ++i) all.push_back(blocks.take(100));
  for (void* one : all) blocks.give(one, 100);
  CHECK(blocks.kept(100) == Small::most(100));
  all.clear();
  for (int i = 0; i < 100; ++i) all.push_back(blocks.take(256));
  for (void* one : all) blocks.give(one, 256);
  CHECK(blocks.kept(256) == 60);
  blocks.clear();
  CHECK(blocks.kept(256) + blocks.kept(100) == 0);
  void* const large = blocks.take(Small::kLargest + 1);
  std::memset(large, 3, Small::kLargest + 1);
  blocks.give(large, Small::kLargest + 1);
  CHECK(blocks.kept(Small::kLargest) == 0);
  blocks.give(nullptr, 8);
  CHECK(blocks.kept(8) == 0);
  void* const empty = blocks.take(0);
  REQUIRE(empty != nullptr);
  blocks.give(empty, 0);
  CHECK(blocks.kept(0) == 1);
}

TEST_CASE("free blocks: any of them may be freed by who does not know its size") {
  SmallBlocks blocks;
  void* const again = blocks.take(40);
  blocks.give(again, 40);
  std::free(blocks.take(40));
  std::free(blocks.take(40));
  CHECK(blocks.kept(40) == 0);
}

}  // namespace nfsrdma::async
