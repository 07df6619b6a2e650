// The report of sync: a line or a JSON object for each action, and the sums at the end.
//
// Thread-safety: every function.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "cli/crowd.h"

namespace nfsrdma::cli {

enum class SyncAction : std::uint8_t { copy, make_directory, set_traits, remove };

class SyncReport {
 public:
  /// `is_dry`: actions are only planned.
  SyncReport(const Call& call, Tree& tree, bool is_dry);

  void looked_at(std::uint64_t entries);
  void unchanged();
  /// `path`: below DESTINATION. `reason`: of a copy or a change, in one word, or "".
  void did(SyncAction action, const std::string& path, const char* reason, std::uint64_t bytes = 0);
  /// Prints the sums.
  void finish();

 private:
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
  [[nodiscard]] double seconds() const;

  struct Sums {
    std::uint64_t looked_at = 0, unchanged = 0, copied = 0, bytes = 0, directories = 0, changed = 0,
                  removed = 0;
  };

  const Call& call_;
  Tree& tree_;
  const bool is_dry_, has_lines_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  Sums sums_;  // guarded by mutex_
};

}  // namespace nfsrdma::cli
