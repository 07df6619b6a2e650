// Uncommitted against a model: for each byte of a small file, which write it came from and with which
// verifier.
#include "nfs4/uncommitted.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <string>

namespace nfsrdma::nfs4 {
namespace {

verifier4 verifier(int number) {
  verifier4 out{};
  out[0] = static_cast<std::byte>(number);
  return out;
}
std::vector<std::byte> data_of(std::size_t size, int seed) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(seed * 17 + static_cast<int>(i));
  return out;
}
std::string text(const Uncommitted::Piece& piece) {
  const auto data = piece.data();
  return std::to_string(piece.offset) + ":" +
         std::string(reinterpret_cast<const char*>(data.data()), data.size());
}
void add(Uncommitted& to, std::uint64_t offset, std::string_view data, int number) {
  to.add(offset, std::as_bytes(std::span(data.data(), data.size())), verifier(number));
}

/// Whether what a COMMIT found lost stays in the container until it is written again.
template <class Container>
constexpr bool stays = requires(const Container& c) { c.lost(0, verifier4{}, 0); };

/// A COMMIT: what it found lost.
template <class Container>
std::vector<Uncommitted::Piece> commit(Container& pieces, std::uint64_t number, int with) {
  if constexpr (stays<Container>) {
    pieces.committed(number, verifier(with));
    std::vector<Uncommitted::Piece> out;
    for (auto lost = pieces.lost(number, verifier(with), 0); lost;
         lost = pieces.lost(number, verifier(with), lost->offset + lost->length)) {
      out.push_back(*lost);
    }
    return out;
  } else {
    return pieces.committed(number, verifier(with));
  }
}

struct Byte {
  std::byte value;
  std::uint64_t number;
  int verifier;
};
constexpr std::size_t kSize = 200;
using Model = std::array<std::optional<Byte>, kSize>;

}  // namespace

TEST_CASE("uncommitted: a COMMIT with the same verifier makes stable, with another gives back") {
  Uncommitted pieces;
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
  CHECK(pieces.count() == (stays<Uncommitted> ? 1 : 0));  // lost, so not forgotten
  add(pieces, 0, "abc", 2);                               // written again
  CHECK(commit(pieces, pieces.last_number(), 2).empty());
  CHECK(pieces.empty());
}

TEST_CASE("uncommitted: what was written after the COMMIT was sent stays") {
  Uncommitted pieces;
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
  Uncommitted pieces;
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

TEST_CASE("uncommitted: nothing is nothing") {
  Uncommitted pieces;
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
    Uncommitted pieces;
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
          for (std::size_t i = 0; i < piece.length; ++i) {
            REQUIRE_FALSE(given[piece.offset + i]);
            given[piece.offset + i] = piece.data()[i];
          }
        }
        for (std::size_t i = 0; i < kSize; ++i) {
          auto& byte = model[i];
          const bool settled = byte && byte->number <= until;
          const bool lost = settled && byte->verifier != boot;
          REQUIRE(given[i].has_value() == lost);
          if (lost) REQUIRE(*given[i] == byte->value);
          if (settled && !(lost && stays<Uncommitted>)) byte.reset();
        }
      }
      REQUIRE(pieces.last_number() == number);
      const auto left = std::ranges::count_if(model, [](const auto& byte) { return byte.has_value(); });
      REQUIRE(pieces.bytes() == static_cast<std::size_t>(left));
      REQUIRE(pieces.empty() == (left == 0));
    }
  }
}

TEST_CASE("Uncommitted: memory of stable pieces serves later ones, up to a bound") {
  constexpr std::size_t kPiece = 1U << 20;
  Uncommitted pieces;
  const auto write = [&](std::uint64_t count, std::size_t size, int seed) {
    for (std::uint64_t i = 0; i < count; ++i) pieces.add(i * size, data_of(size, seed), verifier(1));
  };
  write(40, kPiece, 1);
  CHECK(pieces.spare_bytes() == 0);
  pieces.committed(pieces.last_number(), verifier(1));
  CHECK(pieces.spare_bytes() == 32 * kPiece);
  write(8, kPiece / 2, 2);
  CHECK(pieces.spare_bytes() == 24 * kPiece);
  CHECK(pieces.lost(pieces.last_number(), verifier(2), 0)->data().size() == kPiece / 2);
  CHECK(
      std::ranges::equal(pieces.lost(pieces.last_number(), verifier(2), 0)->data(), data_of(kPiece / 2, 2)));
  pieces.committed(pieces.last_number(), verifier(1));
  CHECK(pieces.spare_bytes() == 32 * kPiece);
  write(1, 2 * kPiece, 3);  // none is large enough
  CHECK(pieces.spare_bytes() == 0);
}

TEST_CASE("Uncommitted: memory that a cut piece still uses is not given away") {
  Uncommitted pieces;
  pieces.add(0, data_of(100, 1), verifier(1));
  pieces.cover(0, 20);
  const auto rest = *pieces.lost(pieces.last_number(), verifier(9), 0);
  pieces.committed(pieces.last_number(), verifier(1));
  CHECK(pieces.spare_bytes() == 0);
  const auto whole = data_of(100, 1);
  CHECK(std::ranges::equal(rest.data(), std::span(whole).subspan(20)));
}

TEST_CASE("Uncommitted: several count together") {
  const auto all = std::make_shared<std::size_t>(0);
  Uncommitted one;
  add(one, 0, "abcdef", 1);
  CHECK(one.bytes_of_all() == 6);
  one.count_into(all);
  one.count_into(all);
  {
    Uncommitted other;
    other.count_into(all);
    add(other, 0, "ghij", 1);
    CHECK(one.bytes_of_all() == 10);
    one.cover(2, 2);
    CHECK(other.bytes_of_all() == 8);
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
         piece = pieces.lost(pieces.last_number(), verifier(9), piece->offset + piece->length)) {
      held[piece->storage.get()] = piece->storage->capacity();
    }
    std::size_t sum = 0;
    for (const auto& [at, size] : held) sum += size;
    return sum;
  };
  Uncommitted pieces;
  const auto data = data_of(kPiece, 1);
  for (std::uint64_t i = 0; i < 100; ++i) pieces.add(i * kStep, data, verifier(1));
  CHECK(pieces.bytes() == kPiece + 99 * kStep);
  CHECK(memory(pieces) <= 2 * pieces.bytes());
  CHECK(pieces.spare_bytes() <= 32 * kPiece);
  // Nor do small pieces take the memory of large ones that have become stable.
  pieces.committed(pieces.last_number(), verifier(1));
  for (std::uint64_t i = 0; i < 100; ++i) {
    pieces.add(2 * i * kStep, std::span(data).first(kStep), verifier(1));
  }
  CHECK(memory(pieces) <= 2 * pieces.bytes());
}

}  // namespace nfsrdma::nfs4
