// The table of what a lock owner holds: POSIX splits and joins, against a byte-by-byte model.
#include "locking/held_locks.h"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>

using nfsrdma::LockRange;
using nfsrdma::locking::HeldLock;
using nfsrdma::locking::HeldLocks;

namespace {

std::string text(const HeldLocks& locks) {
  std::string out;
  for (const HeldLock& one : locks.list()) {
    if (!out.empty()) out += ' ';
    out += std::to_string(one.range.offset) + "-";
    if (one.range.length != LockRange::kToTheEnd) out += std::to_string(one.range.end());
    out += one.write ? "w" : "r";
  }
  return out;
}

}  // namespace

TEST_CASE("held locks: splits, joins, replaces") {
  HeldLocks locks;
  CHECK(locks.empty());
  locks.lock({10, 10}, true);
  locks.lock({20, 10}, true);
  CHECK(text(locks) == "10-30w");
  locks.lock({15, 5}, false);
  CHECK(text(locks) == "10-15w 15-20r 20-30w");
  locks.unlock({12, 10});
  CHECK(text(locks) == "10-12w 22-30w");
  locks.lock({12, 10}, true);
  CHECK(text(locks) == "10-30w");
  locks.unlock({0, 100});
  CHECK(locks.empty());
}

TEST_CASE("held locks: to the end of the file, and the last byte there can be") {
  HeldLocks locks;
  locks.lock({100, LockRange::kToTheEnd}, false);
  CHECK(text(locks) == "100-r");
  locks.unlock({200, 50});
  CHECK(text(locks) == "100-200r 250-r");
  locks.lock({0, LockRange::kToTheEnd}, true);
  CHECK(text(locks) == "0-w");
  CHECK(locks.list().front().range == LockRange{});
  locks.unlock({~0ULL - 1, LockRange::kToTheEnd});
  CHECK(locks.list().front().range == LockRange{0, ~0ULL - 1});
}

TEST_CASE("held locks: what is not held") {
  HeldLocks locks;
  CHECK(locks.not_held({5, 5}) == std::vector<LockRange>{{5, 5}});
  locks.lock({10, 10}, true);
  locks.lock({30, 10}, false);
  CHECK(locks.not_held({12, 3}).empty());
  CHECK(locks.not_held({0, 100}) == std::vector<LockRange>{{0, 10}, {20, 10}, {40, 60}});
  CHECK(locks.not_held({15, 20}) == std::vector<LockRange>{{20, 10}});
  CHECK(locks.not_held({35, LockRange::kToTheEnd}) == std::vector<LockRange>{{40, LockRange::kToTheEnd}});
}

TEST_CASE("held locks: as a model with a byte for each byte has it") {
  std::minstd_rand random(7);  // NOLINT: reproducible
  for (int round = 0; round < 200; ++round) {
    HeldLocks locks;
    std::array<char, 64> model{};
    for (int step = 0; step < 30; ++step) {
      const std::uint64_t offset = random() % model.size();
      const std::uint64_t length = 1 + random() % (model.size() - offset);
      const char kind = "-rw"[random() % 3];
      if (kind == '-') locks.unlock({offset, length});
      if (kind != '-') locks.lock({offset, length}, kind == 'w');
      for (std::uint64_t i = 0; i < length; ++i) model.at(offset + i) = kind == '-' ? '\0' : kind;
      std::array<char, 64> shown{};
      const HeldLock* before = nullptr;
      const auto list = locks.list();
      for (const HeldLock& one : list) {
        // Nothing that could be one is two.
        if (before != nullptr) CHECK((before->range.end() != one.range.offset || before->write != one.write));
        before = &one;
        for (std::uint64_t i = one.range.offset; i < one.range.end(); ++i)
          shown.at(i) = one.write ? 'w' : 'r';
      }
      REQUIRE(shown == model);
    }
  }
}

TEST_CASE(
    "held locks: what of a range is held and what is not, as a model with a byte for each byte has it") {
  std::minstd_rand random(11);  // NOLINT: reproducible
  for (int round = 0; round < 100; ++round) {
    HeldLocks locks;
    std::string model(48, '-');
    const auto range = [&] {
      const std::uint64_t offset = random() % model.size();
      return LockRange{offset, 1 + random() % (model.size() - offset)};
    };
    const auto mark = [](std::string& text, const LockRange& where, char with) {
      for (std::uint64_t i = where.offset; i < where.end(); ++i) text.at(i) = with;
    };
    for (int step = 0; step < 20; ++step) {
      const LockRange changed = range();
      const char kind = "-rw"[random() % 3];
      if (kind == '-') locks.unlock(changed);
      if (kind != '-') locks.lock(changed, kind == 'w');
      mark(model, changed, kind);
      const LockRange asked = range();
      std::string expected(model.size(), '.'), told = expected;
      for (std::uint64_t i = asked.offset; i < asked.end(); ++i) expected.at(i) = model.at(i);
      for (const HeldLock& one : locks.within(asked)) mark(told, one.range, one.write ? 'w' : 'r');
      for (const LockRange& one : locks.not_held(asked)) mark(told, one, '-');
      REQUIRE(told == expected);
    }
  }
}
