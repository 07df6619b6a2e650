// What the fuzz targets share: reading a script from the input, and checks that end the process.
//
// A target is deterministic: whatever it varies comes from the input. Its input is cut to a limit of its own,
// so that one run stays within milliseconds. Numbers of a script stand at its front, big-endian, which keeps
// seeds easy to make (seeds.py); what is left is the peer's bytes. Reading past the end gives zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

// Not assert(): it has to work in every build type.
#define FUZZ_CHECK(condition)                                                        \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)

namespace nfsrdma::fuzz {

using Octets = std::vector<std::byte>;
using ConstOctets = std::span<const std::byte>;

class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size, std::size_t limit)
      : rest_(std::as_bytes(std::span(data, size < limit ? size : limit))) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] ConstOctets rest() const { return rest_; }
  std::uint8_t u8() {
    const ConstOctets one = take(1);
    return one.empty() ? std::uint8_t{0} : std::to_integer<std::uint8_t>(one[0]);
  }
  std::uint16_t u16() {
    const unsigned high = u8();
    return static_cast<std::uint16_t>(high << 8 | u8());
  }
  /// Up to `count` bytes: fewer at the end.
  ConstOctets take(std::size_t count) {
    const ConstOctets out = rest_.first(count < rest_.size() ? count : rest_.size());
    rest_ = rest_.subspan(out.size());
    return out;
  }

 private:
  ConstOctets rest_;
};

/// Sizes of pieces, from one byte of the script: 0 is "all at once"; otherwise pieces of 1 to some power of
/// two.
class Cuts {
 public:
  explicit Cuts(std::uint8_t seed)
      : state_(seed * 2654435761U + 1), most_(seed == 0 ? 0 : 1U << (seed % 14)) {}
  std::size_t next() {
    if (most_ == 0) return SIZE_MAX;
    state_ = state_ * 1664525U + 1013904223U;
    return 1 + (state_ >> 8) % most_;
  }

 private:
  std::uint32_t state_;
  std::uint32_t most_;
};

}  // namespace nfsrdma::fuzz
