// The environment of a Loop: time, randomness, and waiting.
//
// Each Loop has a World of its own. By default it is the system's. Tests have one in which time is a number
// that they advance, and randomness comes from a seed. No code on a loop may bypass its World.
//
// There are two clocks. The monotonic one stands still while the machine sleeps: deadlines and pauses are
// measured with it, so that they do not all expire at once at wake-up. A server's lease, however, expires
// while this machine sleeps, so it is measured with the clock that continues (RFC 8881 8.3; conformance row
// S20). Their times have different types, because comparing one with the other is meaningless.
//
// Confined to the loop's thread, except for wait(), which may run at the same time as the other functions
// (Loop::WaitGuard).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace nfsrdma::async {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

/// The clock that continues while the machine sleeps. World::lease_now() reads it.
struct LeaseClock {
  using duration = Clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<LeaseClock>;
  static constexpr bool is_steady = true;
};
using LeaseTime = LeaseClock::time_point;

/// A descriptor that is ready: the tag that it was watched with, and events as in epoll(7).
struct Ready {
  std::uint64_t tag;
  std::uint32_t events;
};

class World {
 public:
  World() = default;
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] virtual TimePoint now() = 0;
  [[nodiscard]] virtual LeaseTime lease_now() = 0;
  /// Returns the seconds since 1970.
  [[nodiscard]] virtual std::int64_t wall_seconds() = 0;
  /// Fills `out` with unpredictable bytes. In a test they follow from its seed.
  virtual void random(std::span<std::byte> out) = 0;
  /// Returns whether this place in the source takes its alternative behaviour now (buggify.h).
  [[nodiscard]] virtual bool whim(const char* /*file*/, unsigned /*line*/, unsigned /*percent*/) {
    return false;
  }

  /// Waits until a descriptor is ready or another event gives the loop something to do, at most until
  /// `until`. With TimePoint::min() it does not wait. Returns how many of `ready` are filled.
  virtual std::size_t wait(TimePoint until, std::span<Ready> ready) = 0;

  // A world without descriptors does not override these; calling them there ends the program.
  virtual void watch(int fd, std::uint32_t events, std::uint64_t tag);
  virtual void change(int fd, std::uint32_t events, std::uint64_t tag);
  virtual void unwatch(int fd);
  /// Returns a descriptor that is readable when wait() would find a descriptor ready.
  [[nodiscard]] virtual int descriptor() const;
};

/// Makes the real world: epoll, and the system's clocks and random numbers.
[[nodiscard]] std::unique_ptr<World> system_world();

}  // namespace nfsrdma::async
