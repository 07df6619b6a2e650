// The terminal while a command draws on it, or a user edits a line on it.
//
// A Screen is a second screen, without a cursor, on which keys arrive at once and without echo. A Prompt is the
// time in which libedit has the terminal. For both, the terminal gets its state back when the object is destroyed,
// before a signal stops or ends the process (SIGTSTP, SIGQUIT), and before a second signal ends it at once
// (interrupt.h). After SIGCONT the state is there again, also if the process was stopped by SIGSTOP. A process
// that is continued in the background is stopped by SIGTTOU until it has the terminal.
//
// There is one Screen or Prompt at a time, on the main thread.
#pragma once

#include <chrono>
#include <string_view>

namespace nfsrdma::cli {

/// Writes to standard output at once. Returns false if the terminal is gone. Async-signal-safe.
bool write_to_terminal(std::string_view text);

/// Returns true if the process was continued, or the terminal has another size, since the last call: what is on it
/// must be drawn again.
bool must_draw_again();
/// Readable while must_draw_again() would return true. To be polled together with the keys: a signal that comes
/// just before the poll does not end it.
int redraw_fd();

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Replaces all that is on the screen. Returns false if the terminal is gone.
  bool show(std::string_view text) const;
  /// Waits for a key. Returns it; 0 if there was none until `deadline`, or if a signal came; '\f' if the screen
  /// must be drawn again.
  static char key(std::chrono::steady_clock::time_point deadline);

  struct Size {
    std::size_t lines = 24, columns = 80;
  };
  static Size size();
};

class Prompt {
 public:
  Prompt();
  ~Prompt();
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;
  /// Notes the state that libedit has given the terminal, for SIGCONT.
  static void note_state();
};

}  // namespace nfsrdma::cli
