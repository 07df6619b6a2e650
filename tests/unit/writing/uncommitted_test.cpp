// Uncommitted against a model: for each byte of a small file, which write it came from and with which
// verifier.
#include "writing/uncommitted.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace nfsrdma::writing {
namespace {

Verifier verifier(int number) {
  Verifier out{};
  out[0] = static_cast<std::byte>(number);
  return out;
}
std::vector<std::byte> data_of(std::size_t size, int seed) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(seed * 17 + static_cast<int>(i));
  return out;
}
std::string text(const Uncommitted::Piece& piece) {
  const auto data = piece.bytes;
  return std::to_string(piece.offset) + ":" +
         std::string(reinterpret_cast<const char*>(data.data()), data.size());
}
void add(Uncommitted& to, std::uint64_t offset, std::string_view data, int number) {
  to.add(offset, std::as_bytes(std::span(data.data(), data.size())), verifier(number));
}

/// A COMMIT: what it found lost.
std::vector<Uncommitted::Piece> commit(Uncommitted& pieces, std::uint64_t number, int with) {
  pieces.committed(number, verifier(with));
  std::vector<Uncommitted::Piece> out;
  for (auto lost = pieces.lost(number, verifier(with), 0); lost;
       lost = pieces.lost(number, verifier(with), lost->offset + lost->bytes.size())) {
    out.push_back(*lost);
  }
  return out;
}

struct Pool {
  async::MemoryPool pool;
};
struct Pieces : Pool, Uncommitted {
  Pieces() : Uncommitted(pool) {}
};

struct Byte {
  std::byte value;
  std::uint64_t number;
  int verifier;
};
constexpr std::size_t kSize = 200;
using Model = std::array<std::optional<Byte>, kSize>;

}  // namespace

TEST_CASE("S14 uncommitted: a COMMIT with the same verifier makes stable, with another gives back") {
  Pieces pieces;
  CHECK(pieces.empty());
  add(pieces, 0, "abc", 1);
  add(pieces, 10, "def", 1);
  CHECK(pieces.bytes() == 6);
  CHECK(pieces.last_number() == 2);
  CHECK(commit(pieces, pieces.last_number(), 1).empty());
  CHECK(pieces.empty());
  CHECK(pieces.bytes() == 0);
  add(pieces, 0, "abc", 1);
  add(pieces, 10, "def", 2);
  const auto lost = commit(pieces, pieces.last_number(), 2);
  REQUIRE(lost.size() == 1);
  CHECK(text(lost[0]) == "0:abc");
  CHECK(pieces.count() == 1);  // lost, so not forgotten
  add(pieces, 0, "abc", 2);    // written again
  CHECK(commit(pieces, pieces.last_number(), 2).empty());
  CHECK(pieces.empty());
}

TEST_CASE("S14 uncommitted: what was written after the COMMIT was sent stays") {
  Pieces pieces;
  add(pieces, 0, "old", 1);
  const auto number = pieces.last_number();
  add(pieces, 1, "new", 1);
  CHECK(commit(pieces, number, 1).empty());
  CHECK(pieces.count() == 1);
  CHECK(pieces.bytes() == 3);
  const auto lost = commit(pieces, pieces.last_number(), 2);
  REQUIRE(lost.size() == 1);
  CHECK(text(lost[0]) == "1:new");
}

TEST_CASE("uncommitted: a write in the middle cuts a piece in two") {
  Pieces pieces;
  add(pieces, 0, "abcdefghij", 1);
  add(pieces, 3, "XY", 1);
  CHECK(pieces.count() == 3);
  CHECK(pieces.bytes() == 10);
  const auto lost = commit(pieces, pieces.last_number(), 2);
  REQUIRE(lost.size() == 3);
  CHECK(text(lost[0]) == "0:abc");
  CHECK(text(lost[1]) == "3:XY");
  CHECK(text(lost[2]) == "5:fghij");
}

TEST_CASE("F4 uncommitted: what is given up goes with its memory, what came later stays") {
  Pieces pieces;
  add(pieces, 0, "abc", 1);
  add(pieces, 10, "def", 2);
  const auto number = pieces.last_number();
  add(pieces, 2, "XY", 1);
  pieces.give_up(number);
  CHECK(pieces.bytes() == 2);
  const auto lost = commit(pieces, pieces.last_number(), 3);
  REQUIRE(lost.size() == 1);
  CHECK(text(lost[0]) == "2:XY");
}

TEST_CASE("uncommitted: nothing is nothing") {
  Pieces pieces;
  add(pieces, 5, "", 1);
  CHECK(pieces.empty());
  CHECK(pieces.last_number() == 0);
  pieces.cover(0, 100);
  CHECK(commit(pieces, 0, 1).empty());
}

TEST_CASE("uncommitted: random writes, stable writes and COMMITs against a model") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t most) {
      return std::uniform_int_distribution<std::size_t>(0, most)(random);
    };
    Pieces pieces;
    Model model;
    std::uint64_t number = 0;
    int boot = 1;
    for (int step = 0; step < 300; ++step) {
      const std::size_t offset = pick(kSize - 1);
      const std::size_t length = pick(std::min<std::size_t>(kSize - offset, 40));
      const std::size_t what = pick(19);
      if (what < 14) {
        const auto data = data_of(length, step);
        pieces.add(offset, data, verifier(boot));
        if (length != 0) ++number;
        for (std::size_t i = 0; i < length; ++i) model[offset + i] = Byte{data[i], number, boot};
      } else if (what < 17) {
        pieces.cover(offset, length);
        for (std::size_t i = 0; i < length; ++i) model[offset + i].reset();
      } else if (what == 17) {
        boot = 1 + boot % 5;
      } else {
        const std::uint64_t until = number - std::min<std::uint64_t>(number, pick(4));
        std::array<std::optional<std::byte>, kSize> given;
        for (const auto& piece : commit(pieces, until, boot)) {
          for (std::size_t i = 0; i < piece.bytes.size(); ++i) {
            REQUIRE_FALSE(given[piece.offset + i]);
            given[piece.offset + i] = piece.bytes[i];
          }
        }
        for (std::size_t i = 0; i < kSize; ++i) {
          auto& byte = model[i];
          const bool settled = byte && byte->number <= until;
          const bool lost = settled && byte->verifier != boot;
          REQUIRE(given[i].has_value() == lost);
          if (lost) REQUIRE(*given[i] == byte->value);
          if (settled && !lost) byte.reset();
        }
      }
      REQUIRE(pieces.last_number() == number);
      const auto left = std::ranges::count_if(model, [](const auto& byte) { return byte.has_value(); });
      REQUIRE(pieces.bytes() == static_cast<std::size_t>(left));
      REQUIRE(pieces.empty() == (left == 0));
    }
  }
}

TEST_CASE("Uncommitted: a piece stays where it was written from, if that is given away and not much larger") {
  constexpr std::size_t kPiece = 1U << 20;
  Pieces pieces;
  const auto memory = pieces.pool.take(kPiece);
  std::memset(memory.data.get(), 7, memory.size);
  const std::span<const std::byte> bytes(memory.data.get(), memory.size);
  const auto first = [&] { return pieces.lost(pieces.last_number(), verifier(9), 0); };
  pieces.add(0, bytes, verifier(1), memory);
  CHECK(first()->bytes.data() == memory.data.get());
  // Half of it, shared by two.
  pieces.add(0, bytes.first(kPiece / 2), verifier(1), memory);
  CHECK(first()->bytes.data() == memory.data.get());
  CHECK(pieces.count() == 2);
  CHECK(pieces.bytes() == kPiece);
  // Too little of it.
  const auto less = bytes.first(kPiece / 33 * 16 - 16);
  pieces.add(0, less, verifier(1), memory);
  CHECK(first()->bytes.data() != memory.data.get());
  CHECK(std::ranges::equal(first()->bytes, less));
  // Nobody's but the caller's.
  pieces.add(0, bytes, verifier(1));
  CHECK(first()->bytes.data() != memory.data.get());
  CHECK(pieces.count() == 1);
  CHECK(memory.data.use_count() == 1);
  pieces.committed(pieces.last_number(), verifier(1));
  CHECK(pieces.pool.spare_bytes() >= kPiece);
}

TEST_CASE("Uncommitted: memory that a cut piece still uses is not given away") {
  Pieces pieces;
  pieces.add(0, data_of(100'000, 1), verifier(1));
  pieces.cover(0, 20);
  const auto rest = *pieces.lost(pieces.last_number(), verifier(9), 0);
  pieces.committed(pieces.last_number(), verifier(1));
  CHECK(pieces.pool.spare_bytes() == 0);
  const auto whole = data_of(100'000, 1);
  CHECK(std::ranges::equal(rest.bytes, std::span(whole).subspan(20)));
}

TEST_CASE("Uncommitted: several count together") {
  const auto all = std::make_shared<std::size_t>(0);
  Pieces one;
  add(one, 0, "abcdef", 1);
  one.count_into(all);
  one.count_into(all);
  CHECK(*all == 6);
  {
    Pieces other;
    other.count_into(all);
    add(other, 0, "ghij", 1);
    CHECK(*all == 10);
    one.cover(2, 2);
    CHECK(*all == 8);
  }
  CHECK(*all == 4);
  one.committed(one.last_number(), verifier(1));
  CHECK(*all == 0);
}

TEST_CASE("Uncommitted: what is left of large pieces does not keep all of their memory") {
  constexpr std::size_t kPiece = 1U << 20, kStep = 4096;
  const auto memory = [](const Uncommitted& pieces) {
    std::map<const void*, std::size_t> held;
    for (auto piece = pieces.lost(pieces.last_number(), verifier(9), 0); piece;
         piece = pieces.lost(pieces.last_number(), verifier(9), piece->offset + piece->bytes.size())) {
      held[piece->memory.data.get()] = piece->memory.size;
    }
    std::size_t sum = 0;
    for (const auto& [at, size] : held) sum += size;
    return sum;
  };
  Pieces pieces;
  const auto data = data_of(kPiece, 1);
  for (std::uint64_t i = 0; i < 100; ++i) pieces.add(i * kStep, data, verifier(1));
  CHECK(pieces.bytes() == kPiece + 99 * kStep);
  CHECK(memory(pieces) <= 2.1 * static_cast<double>(pieces.bytes()));
  // Nor do small pieces take the memory of large ones that have become stable.
  pieces.committed(pieces.last_number(), verifier(1));
  for (std::uint64_t i = 0; i < 100; ++i) {
    pieces.add(2 * i * kStep, std::span(data).first(kStep), verifier(1));
  }
  CHECK(memory(pieces) <= 2.1 * static_cast<double>(pieces.bytes()));
}

}  // namespace nfsrdma::writing
