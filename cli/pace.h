// A limit on the bytes that a command moves per second (--bwlimit), shared by all its transfers.
//
// A Pace says how long to wait after bytes were moved, so that the average since its begin does not exceed the
// rate. Time in which less was moved than allowed is credited up to one second, so that a pause is not followed
// by a burst.
//
// Thread-safety: every function.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace nfsrdma::cli {

class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  /// `rate`: bytes per second; 0 for no limit.
  explicit Pace(std::uint64_t rate = 0) : rate_(rate) {}

  [[nodiscard]] std::uint64_t rate() const { return rate_; }
  /// Counts bytes that were moved, and returns how long to wait before more are moved.
  Clock::duration take(std::uint64_t bytes, Clock::time_point now);
  /// Counts bytes and waits, at most until a signal comes (interrupt.h).
  void wait(std::uint64_t bytes);

 private:
  const std::uint64_t rate_;
  std::mutex mutex_;
  Clock::time_point due_{};  ///< when all bytes so far may have been moved; guarded by mutex_
};

}  // namespace nfsrdma::cli
