// The terminal while a command draws on it: a second screen, no cursor, and keys that arrive at once without echo.
//
// The terminal gets its state back when the Screen is destroyed, before a signal stops or ends the process (SIGTSTP,
// SIGQUIT), and before a second signal ends it at once (interrupt.h). After SIGCONT the screen is there again.
//
// There is one Screen at a time, on the main thread.
#pragma once

#include <chrono>
#include <string_view>

namespace nfsrdma::cli {

/// Writes to standard output at once. Returns false if the terminal is gone. Async-signal-safe.
bool write_to_terminal(std::string_view text);

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Replaces all that is on the screen. Returns false if the terminal is gone.
  bool show(std::string_view text) const;
  /// Waits for a key. Returns it; 0 if there was none until `deadline`, or if a signal came.
  static char key(std::chrono::steady_clock::time_point deadline);

  struct Size {
    std::size_t lines = 24, columns = 80;
  };
  static Size size();
};

}  // namespace nfsrdma::cli
