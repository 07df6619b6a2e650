// A world for one loop, in which work on threads beside it (async/helper.h) brings no result, as where a server is asked
// that says nothing. To wait for it takes no real time: the loop's time jumps to its next timer.
//
//     SilentHelpers world;        // nothing comes from any helper
//     SilentHelpers world(1);     // nothing comes from the first; the others are waited for as usual
//     async::Loop loop(world);
//
// The work itself is done all the same, on real time: whom it asks has to be silent indeed. For a loop that watches nothing
// but the ends of its helpers, one of them at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "async/world.h"

namespace nfsrdma::testing {

class SilentHelpers final : public async::World {
 public:
  /// `count`: so many of the helpers, from the first one on, are not heard of.
  explicit SilentHelpers(unsigned count = ~0U) : silent_(count) {}

  [[nodiscard]] async::TimePoint now() override { return system_->now() + skipped_; }
  [[nodiscard]] async::LeaseTime lease_now() override { return system_->lease_now() + skipped_; }
  [[nodiscard]] std::int64_t wall_seconds() override { return system_->wall_seconds(); }
  void random(std::span<std::byte> out) override { system_->random(out); }

  std::size_t wait(async::TimePoint until, std::span<async::Ready> ready) override {
    const bool finite = until != async::TimePoint::min() && until != async::TimePoint::max();
    if (hears()) return system_->wait(finite ? until - skipped_ : until, ready);
    if (const auto from = now(); finite && until > from) skipped_ += until - from;
    return 0;
  }
  void watch(int fd, std::uint32_t events, std::uint64_t tag) override {
    ++watched_;
    if (hears()) system_->watch(fd, events, tag);
  }
  void unwatch(int fd) override {
    if (hears()) system_->unwatch(fd);
  }

 private:
  [[nodiscard]] bool hears() const { return watched_ > silent_; }

  const std::unique_ptr<async::World> system_ = async::system_world();
  const unsigned silent_;
  unsigned watched_ = 0;  // ever
  async::Clock::duration skipped_{};
};

}  // namespace nfsrdma::testing
