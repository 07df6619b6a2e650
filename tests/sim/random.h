// All chance in a simulation comes from one of these, and so from the seed.
//
// xoshiro256** seeded by splitmix64: the standard library's distributions differ from one implementation to
// the next, and a seed that fails must fail everywhere.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <span>

namespace nfsrdma::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      std::uint64_t z = seed += 0x9e3779b97f4a7c15U;
      z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
      z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
      word = z ^ (z >> 31U);
    }
  }

  std::uint64_t next() {
    const std::uint64_t out = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return out;
  }
  /// 0 to n - 1; 0 where n is 0. The remainder's bias is nothing against the size of what is drawn.
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
  /// Both ends included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  std::chrono::nanoseconds between(std::chrono::nanoseconds low, std::chrono::nanoseconds high) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(
        between(static_cast<std::uint64_t>(low.count()), static_cast<std::uint64_t>(high.count()))));
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  bool per_mille(unsigned chances) { return below(1000) < chances; }
  /// Another generator, whose numbers do not depend on how many are drawn from this one afterwards.
  Random split() { return Random(next()); }

  void fill(std::span<std::byte> out) {
    std::uint64_t word = 0;
    unsigned left = 0;
    for (std::byte& one : out) {
      if (left == 0) word = next();
      left = (left + 7) % 8;
      one = static_cast<std::byte>(word);
      word >>= 8U;
    }
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace nfsrdma::sim
