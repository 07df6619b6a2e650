// What a Loop needs of the world: time, randomness, and to wait for it.
//
// Each Loop has a World of its own. By default it is the system's; tests have one where time is a number that
// they advance, and chance comes from a seed. Nothing on a loop reaches around it.
//
// There are two clocks. The monotonic one stands still while the machine sleeps: deadlines and pauses are
// measured with it, so that they do not all pass in one moment at wake-up. A server's lease does not wait for
// us to wake up: it is measured with the clock that goes on (RFC 8881 8.3; conformance row S20). Their times
// have different types, because to compare one with the other means nothing.
//
// Confined to the loop's thread, but for wait(), which may run beside the others (Loop::WaitGuard).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace nfsrdma::async {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

/// The clock that goes on while the machine sleeps. World::lease_now() reads it.
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
  /// Since 1970.
  [[nodiscard]] virtual std::int64_t wall_seconds() = 0;
  /// Fills `out` with bytes that nobody can predict, but for who knows a test's seed.
  virtual void random(std::span<std::byte> out) = 0;
  /// Whether the place in the source does its other thing now, which it may do (buggify.h).
  [[nodiscard]] virtual bool whim(const char* /*file*/, unsigned /*line*/, unsigned /*percent*/) {
    return false;
  }

  /// Waits for a descriptor, or for what else may give the loop something to do, at most until `until`;
  /// TimePoint::min() is not to wait at all. Returns how many of `ready` are filled.
  virtual std::size_t wait(TimePoint until, std::span<Ready> ready) = 0;

  // Descriptors. A world without any leaves these alone: to watch one there ends the program.
  virtual void watch(int fd, std::uint32_t events, std::uint64_t tag);
  virtual void change(int fd, std::uint32_t events, std::uint64_t tag);
  virtual void unwatch(int fd);
  /// One that is readable when wait() would find a descriptor ready.
  [[nodiscard]] virtual int descriptor() const;
};

/// The real one: epoll, and the system's clocks and random numbers.
[[nodiscard]] std::unique_ptr<World> system_world();

}  // namespace nfsrdma::async
