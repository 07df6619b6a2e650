// The progress bar: arithmetic that can be tested, and the line on the terminal.
//
// The line is written to stderr, if that is a terminal and quiet was not asked for. report.h erases it before
// it writes anything else there.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace nfsrdma::cli {

/// Bytes per second over the recent past: an average that forgets with a time constant, so that a stall shows
/// within seconds and a single slow second does not make the ETA jump.
class RateMeter {
 public:
  using Seconds = std::chrono::duration<double>;
  /// Called when `done` bytes are through, `elapsed` after the start. Calls that are too close together are
  /// counted with the next one.
  void update(std::uint64_t done, Seconds elapsed);
  [[nodiscard]] double rate() const { return rate_; }
  /// Returns no value while the rate is too low for an estimate.
  [[nodiscard]] std::optional<std::chrono::seconds> remaining(std::uint64_t left) const;

 private:
  std::uint64_t done_ = 0;
  Seconds elapsed_{0};
  double rate_ = 0;
  bool started_ = false;
};

/// The state of a transfer at one moment.
struct ProgressState {
  std::string name;
  std::uint64_t done = 0;
  std::optional<std::uint64_t> total;  ///< absent: unknown, as from a pipe
  double rate = 0;
  std::optional<std::chrono::seconds> remaining;
  std::chrono::seconds elapsed{0};
};

/// Returns a line of at most `width` columns: "name  42% [=====>    ]  420 MiB  950 MiB/s  ETA 0:12". If
/// there is no room, the bar is left out first, and then the end of the name.
std::string progress_line(const ProgressState& state, std::size_t width);

/// Draws the progress of a transfer while it lives.
class Progress {
 public:
  Progress(std::string name, std::optional<std::uint64_t> total, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap when it is not yet time to draw.
  void update(std::uint64_t done);
  /// Draws the last state, and leaves it on the screen with a newline.
  void finish(std::uint64_t done);
  /// Takes the line off the terminal until the next update. Does nothing if none is shown.
  static void erase();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::uint64_t done, Clock::time_point now);

  ProgressState state_;
  RateMeter meter_;
  bool shown_;
  Clock::time_point start_, next_;
};

}  // namespace nfsrdma::cli
