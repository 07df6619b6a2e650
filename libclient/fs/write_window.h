// The number of bytes of WRITEs that may be in flight: enough to keep the server busy, and not so many that
// later calls wait long.
//
// Bytes in flight beyond what the path holds only stand in a queue, in front of every other call of the
// connection and of every task that waits for these writes. The queue shows: a WRITE then takes longer than
// one of its size takes alone (pace.h). While the queue is short, the window grows by the bytes that were
// written, so that it doubles with each round trip. When the queue is long, the window shrinks in proportion,
// at most once per round trip. (TCP Vegas; RFC 6817.) So the window settles at what the path holds plus a
// short queue, which keeps the server's disk busy in the meantime.
//
// The tolerated length of the queue is not measured: it is the time for which other calls may be delayed. Nor
// are the two limits of the window: at least two requests, so that one is in flight while the next one is
// prepared, and at most kMost because of memory.
//
// Pure; confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstddef>

#include "fs/counters.h"
#include "fs/pace.h"

namespace nfsrdma::fs {

class WriteWindow {
 public:
  using Duration = Pace::Duration;
  /// kFirst is the window before anything has been measured.
  static constexpr std::size_t kFirst = 4U << 20, kMost = 32U << 20;

  /// `wsize` is the largest size of one WRITE.
  explicit WriteWindow(std::size_t wsize)
      : pace_(wsize), least_(std::min(2 * wsize, kMost)), bytes_(std::max(kFirst, least_)) {}

  [[nodiscard]] std::size_t bytes() const { return pace_.looks() ? pace_.request() : bytes_; }
  [[nodiscard]] Window window() const {
    return {pace_.bandwidth(), pace_.delay(), pace_.product(), bytes_, why()};
  }

  /// Called when a write of `size` bytes is sent.
  void began(std::size_t size, async::TimePoint now) { pace_.began(size, now); }
  void failed(std::size_t size, async::TimePoint now) { pace_.ended(size, 0, now, now); }
  /// Called when a write has ended, after the time `took`. `full`: at least half of the window was in use
  /// when it began; otherwise its speed does not show that there is room for more.
  void ended(std::size_t size, bool full, Duration took, async::TimePoint now) {
    pace_.ended(size, size, now - took, now);
    const Duration queued = took - pace_.expected(size);
    if (queued > kLong) {
      if (now - took < shrunk_) return;  // it was sent before the window last shrank
      shrunk_ = now;
      const double factor = std::max(0.5, std::chrono::duration<double>(kLong) / queued);
      bytes_ = std::max(least_, static_cast<std::size_t>(static_cast<double>(bytes_) * factor));
      moved_ = true;
    } else if (queued < kShort && full) {
      bytes_ = std::min(kMost, bytes_ + size);
      moved_ = true;
    }
  }

 private:
  [[nodiscard]] Window::Why why() const {
    if (bytes_ == kMost) return Window::Why::memory;
    if (bytes_ == least_) return Window::Why::requests;
    return moved_ ? Window::Why::queue : Window::Why::first;
  }

  static constexpr Duration kShort = std::chrono::milliseconds(20), kLong = std::chrono::milliseconds(50);
  Pace pace_;
  const std::size_t least_;
  std::size_t bytes_;
  bool moved_ = false;  // the window has grown or shrunk
  async::TimePoint shrunk_{};
};

}  // namespace nfsrdma::fs
