// Writes the metrics of a mount to the file of the option `metrics`, at an interval, while the mount is served.
//
// The text is made by the loop's thread. A thread that lives for one text writes it, because a disk that is slow
// or hangs must not hold up the mount: as long as one text is being written, no other one is begun.
//
// A failure is logged once, and so is the first success after it. The mount works on without the file, and each
// interval tries again. At the end the file is removed; a mount that was killed leaves it.
//
// Confined to the loop's thread, apart from the MetricsFile, which the writing thread has to itself.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "async/loop.h"
#include "fuse/log.h"
#include "fuse/metrics_file.h"

namespace nfsrdma::fuse {

class MetricsWriter final : private async::Loop::Timer {
 public:
  MetricsWriter(async::Loop& loop, std::shared_ptr<MetricsFile> file, std::chrono::seconds interval,
                std::function<std::string()> text, Log log);

  /// Writes the first text, waits a moment for the outcome, which the log tells, and sets the timer.
  void begin();
  /// Removes the file. A text that is still being written after a moment is left.
  void end();

 private:
  void on_time() override;
  void write();
  /// Returns true if no text is being written. Logs the outcome of the last one if it differs from the one before.
  bool collect(std::chrono::milliseconds patience);

  async::Loop& loop_;
  const std::shared_ptr<MetricsFile> file_;
  const std::chrono::seconds interval_;
  const std::function<std::string()> text_;
  const Log log_;
  std::future<Status> writing_;  // not valid: nothing is being written
  bool has_failed_ = false;
};

}  // namespace nfsrdma::fuse
