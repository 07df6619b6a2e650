// A world for one loop that is by itself: time passes only while the loop waits, and then at once.
//
// With several loops, connections between them and machines that sleep, see tests/sim/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "async/world.h"

namespace nfsrdma::testing {

class VirtualWorld final : public async::World {
 public:
  explicit VirtualWorld(std::uint64_t seed = 1) : chance_(seed) {}

  [[nodiscard]] async::TimePoint now() override { return async::TimePoint(std::chrono::hours(1) + awake_); }
  [[nodiscard]] async::LeaseTime lease_now() override {
    return async::LeaseTime(std::chrono::hours(2) + awake_ + asleep_);
  }
  [[nodiscard]] std::int64_t wall_seconds() override {
    return 1'000'000'000 + std::chrono::duration_cast<std::chrono::seconds>(awake_ + asleep_).count();
  }
  /// splitmix64.
  void random(std::span<std::byte> out) override {
    for (std::byte& one : out) {
      std::uint64_t z = chance_ += 0x9e3779b97f4a7c15U;
      z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
      z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
      one = static_cast<std::byte>(z >> 56U);
    }
  }
  std::size_t wait(async::TimePoint until, std::span<async::Ready> /*ready*/) override {
    const bool finite = until != async::TimePoint::min() && until != async::TimePoint::max();
    if (finite && until > now()) awake_ += until - now();
    return 0;
  }

  void pass(async::Clock::duration time) { awake_ += time; }
  void sleep(async::Clock::duration time) { asleep_ += time; }

 private:
  async::Clock::duration awake_{}, asleep_{};
  std::uint64_t chance_;
};

}  // namespace nfsrdma::testing
