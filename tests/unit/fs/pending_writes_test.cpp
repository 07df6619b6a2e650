// The bookkeeping of writes that are under way, against what it may say.
#include "fs/pending_writes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace nfsrdma::fs {

TEST_CASE("F6 pending writes: who waits for whom is a matter of numbers and ranges") {
  PendingWrites writes;
  const auto first = writes.begin(0, 100);
  CHECK(writes.empty());  // nobody has been told of it
  writes.accept(first);
  const std::uint64_t then = writes.last_number();
  const auto second = writes.begin(50, 100);
  CHECK_FALSE(writes.any_before(first));
  CHECK(writes.any_before(second));
  CHECK(writes.any_answered(then, 0, 1));
  CHECK_FALSE(writes.any_answered(then, 100, 200));
  CHECK_FALSE(writes.any_answered(then - 1, 0, 100));
  CHECK_FALSE(writes.any_answered(writes.last_number(), 100, 200));
  writes.accept(second);
  CHECK(writes.any_answered(writes.last_number(), 100, 200));
  CHECK(writes.any_other(first, 149, 150));
  CHECK_FALSE(writes.any_other(second, 149, 150));
  // What goes on behind its end is as young as the youngest, and whoever waits for its first bytes waits for all.
  writes.extend(first, 10);
  CHECK(writes.any_before(first));
  CHECK(writes.any_answered(then, 0, 110));
  CHECK_FALSE(writes.any_answered(then - 1, 0, 110));
  CHECK(writes.furthest() == 150);
  CHECK(writes.answered() == 2);
}

TEST_CASE("F2 pending writes: the end that is told is never nearer than that of any write since") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    PendingWrites writes;
    struct Done {
      std::uint64_t changes, end;
    };
    std::vector<Done> done;
    std::uint64_t longest = 0;
    for (std::uint64_t changes = 1; changes <= 500; ++changes) {
      // Further and further to the front: each of them says something of its own.
      const std::uint64_t end = seed % 2 != 0 ? 1000 - changes : random() % 1000 + 1;
      const auto write = writes.begin(end - 1, 1);
      writes.accept(write);
      const bool written = random() % 8 != 0;
      writes.end(write, written, changes);
      if (written) done.push_back({changes, end});
      longest = std::max(longest, end);
      const std::uint64_t asked = random() % changes;
      std::uint64_t least = 0;
      for (const Done& one : done) {
        if (one.changes > asked) least = std::max(least, one.end);
      }
      const auto told = writes.written_since(asked);
      CHECK(told.value_or(0) >= least);
      CHECK(told.value_or(0) <= longest);
      CHECK_FALSE(writes.written_since(changes));
    }
    writes.forget_ended();
    CHECK_FALSE(writes.written_since(0));
  }
}

}  // namespace nfsrdma::fs
