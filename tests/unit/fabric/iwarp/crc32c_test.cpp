// CRC32C against the examples of RFC 3720 B.4, and the two implementations against each other.
#include "fabric/iwarp/crc32c.h"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <vector>

#include "support/skipped.h"

namespace iwarp = nfsrdma::fabric::iwarp;

namespace {

using Sum = std::uint32_t (*)(std::uint32_t, std::span<const std::byte>);

std::vector<Sum> implementations() {
  std::vector<Sum> out{iwarp::crc32c_table, iwarp::crc32c};
  if (iwarp::crc32c_hardware_available()) {
    out.push_back(iwarp::crc32c_hardware);
  } else {
    nfsrdma::testing::skip("this processor has no CRC32 instruction, only the table is tested");
  }
  return out;
}

struct Example {
  std::vector<std::byte> bytes;
  std::array<unsigned char, 4> on_the_wire;
};

std::vector<Example> rfc3720_examples() {
  std::vector<Example> out;
  out.push_back({std::vector<std::byte>(32, std::byte{0}), {0xaa, 0x36, 0x91, 0x8a}});
  out.push_back({std::vector<std::byte>(32, std::byte{0xff}), {0x43, 0xab, 0xa8, 0x62}});
  std::vector<std::byte> up(32);
  std::vector<std::byte> down(32);
  for (std::size_t i = 0; i < 32; ++i) up[i] = down[31 - i] = static_cast<std::byte>(i);
  out.push_back({up, {0x4e, 0x79, 0xdd, 0x46}});
  out.push_back({down, {0x5c, 0xdb, 0x3f, 0x11}});
  constexpr std::array<unsigned char, 48> read10{0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                                                 0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                                                 0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0};
  std::vector<std::byte> pdu;
  for (const unsigned char octet : read10) pdu.push_back(static_cast<std::byte>(octet));
  out.push_back({pdu, {0x56, 0x3a, 0x96, 0xd9}});
  return out;
}

std::vector<std::byte> noise(std::size_t size, std::mt19937& random) {
  std::vector<std::byte> out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

}  // namespace

TEST_CASE("CRC32C: the examples of RFC 3720 B.4, in the order of the wire") {
  for (const Sum sum : implementations()) {
    for (const Example& example : rfc3720_examples()) {
      std::array<std::byte, 4> wire{};
      iwarp::store_crc(wire.data(), sum(0, example.bytes));
      for (std::size_t i = 0; i < 4; ++i) CHECK(std::to_integer<unsigned>(wire[i]) == example.on_the_wire[i]);
      CHECK(iwarp::load_crc(wire.data()) == sum(0, example.bytes));
    }
  }
}

TEST_CASE("CRC32C: the check value of \"123456789\", and nothing of nothing") {
  std::vector<std::byte> digits;
  for (const char c : {'1', '2', '3', '4', '5', '6', '7', '8', '9'})
    digits.push_back(static_cast<std::byte>(c));
  for (const Sum sum : implementations()) {
    CHECK(sum(0, digits) == 0xe3069283U);
    CHECK(sum(0, {}) == 0);
    CHECK(sum(0x12345678, {}) == 0x12345678);
  }
}

TEST_CASE("CRC32C: instruction and table agree on every length, alignment and cut") {
  std::mt19937 random(1);
  const auto bytes = noise(40000, random);
  const auto all = std::span(bytes);
  for (std::size_t length = 0; length < 2000; ++length) {
    const auto part = all.subspan(length % 9, length);
    REQUIRE(iwarp::crc32c(0, part) == iwarp::crc32c_table(0, part));
  }
  for (int i = 0; i < 300; ++i) {
    const std::size_t start = random() % 100;
    const std::size_t length = random() % (bytes.size() - 100);
    const auto part = all.subspan(start, length);
    const std::uint32_t whole = iwarp::crc32c_table(0, part);
    REQUIRE(iwarp::crc32c(0, part) == whole);
    const std::size_t cut = length == 0 ? 0 : random() % length;
    REQUIRE(iwarp::crc32c(iwarp::crc32c(0, part.first(cut)), part.subspan(cut)) == whole);
  }
}
