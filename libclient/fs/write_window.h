// How many bytes may be on their way to the server: as many as keep it busy, and not so many that whoever
// comes behind them waits long.
//
// What is under way beyond what the way there holds only stands in a queue, in front of every other call of
// the same connection and of everybody who waits for these writes. The queue shows: a WRITE then takes longer
// than the quickest did. While it is short the window grows by what was written, so that it doubles with each
// round trip; where it is long the window shrinks by as much as the queue is too long, once per round trip.
// (TCP Vegas; RFC 6817.)
//
// The quickest of the last minutes counts, since the way may have become a longer one.
//
// Pure; confined to the loop's thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "async/world.h"

namespace nfsrdma::fs {

class WriteWindow {
 public:
  using Duration = async::Clock::duration;
  static constexpr std::size_t kLeast = 2U << 20, kFirst = 4U << 20, kMost = 32U << 20;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// A WRITE of `size` bytes has taken this long. `full`: half of the window and more were used as it began;
  /// otherwise nothing says that there is room for more.
  void ended(std::size_t size, bool full, Duration took, async::TimePoint now) {
    if (now - since_ >= kForget) {
      quickest_[1] = quickest_[0];
      quickest_[0] = took;
      since_ = now;
    }
    quickest_[0] = std::min(quickest_[0], took);
    const Duration queued = took - std::min(quickest_[0], quickest_[1]);
    if (queued > kLong) {
      if (now - took < shrunk_) return;  // begun before
      shrunk_ = now;
      const double factor = std::max(0.5, std::chrono::duration<double>(kLong) / queued);
      bytes_ = std::max(kLeast, static_cast<std::size_t>(static_cast<double>(bytes_) * factor));
    } else if (queued < kShort && full) {
      bytes_ = std::min(kMost, bytes_ + size);
    }
  }

 private:
  static constexpr Duration kShort = std::chrono::milliseconds(20), kLong = std::chrono::milliseconds(50);
  static constexpr Duration kForget = std::chrono::minutes(5);
  std::size_t bytes_ = kFirst;
  async::TimePoint since_{}, shrunk_{};
  std::array<Duration, 2> quickest_{Duration::max(), Duration::max()};  // of this period, of the one before
};

}  // namespace nfsrdma::fs
