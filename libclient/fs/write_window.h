// How many bytes may be on their way to the server: as many as keep it busy, and not so many that whoever
// comes behind them waits long.
//
// What is under way beyond what the way there holds only stands in a queue, in front of every other call of
// the same connection and of everybody who waits for these writes. The queue shows: a WRITE then takes longer
// than one of its size would by itself (pace.h). While it is short the window grows by what was written, so that it
// doubles with each round trip; where it is long the window shrinks by as much as the queue is too long, once per
// round trip. (TCP Vegas; RFC 6817.) So it comes to what the way holds and a short queue, which is what the server's
// disk has to do in the meantime.
//
// What a queue may take is not measured: it is how long others may be kept waiting. Nor are the two ends: two
// requests, so that one is under way while the next one comes, and a bound for memory.
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
  /// kFirst: before anything is known.
  static constexpr std::size_t kFirst = 4U << 20, kMost = 32U << 20;

  /// `wsize`: of one WRITE, at most.
  explicit WriteWindow(std::size_t wsize)
      : pace_(wsize), least_(std::min(2 * wsize, kMost)), bytes_(std::max(kFirst, least_)) {}

  [[nodiscard]] std::size_t bytes() const { return pace_.looks() ? pace_.request() : bytes_; }
  [[nodiscard]] Window window() const {
    return {pace_.bandwidth(), pace_.delay(), pace_.product(), bytes_, why()};
  }

  /// A write of `size` bytes is sent.
  void began(std::size_t size, async::TimePoint now) { pace_.began(size, now); }
  void failed(std::size_t size, async::TimePoint now) { pace_.ended(size, 0, now, now); }
  /// It has taken this long. `full`: half of the window and more were used as it began; otherwise nothing says
  /// that there is room for more.
  void ended(std::size_t size, bool full, Duration took, async::TimePoint now) {
    pace_.ended(size, size, now - took, now);
    const Duration queued = took - pace_.expected(size);
    if (queued > kLong) {
      if (now - took < shrunk_) return;  // begun before
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
  bool moved_ = false;  // it has grown or shrunk
  async::TimePoint shrunk_{};
};

}  // namespace nfsrdma::fs
