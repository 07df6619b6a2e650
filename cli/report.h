// Output of the program: facts on stdout, errors and notices on stderr.
//
// Thread-safety: say() and Output::error() from anywhere; the rest of an Output one thread at a time.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "nfsrdma/result.h"

namespace nfsrdma::cli {

/// Writes "nfsrdma-cli: <text>" as one line to stderr, in one write. A progress line is erased before.
void say(std::string_view text);

/// Lets say() and say_error() write JSON objects (error_json.h), or sentences for people.
void report_as_json(bool wanted);
/// Writes an Error as one line to stderr.
void say_error(const Error& error);
/// Writes lines of the program's own to stderr as they are. A progress line is erased before.
void write_error(std::string_view text);

/// Returns an errno of this machine as an Error with a next step.
Error local_error(int errno_value, std::string operation, std::string file);

/// Standard output: buffered, remembers its first error, and stops writing after it.
class Output {
 public:
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Returns false once writing has failed, and the command should stop.
  bool write(std::string_view text);
  bool line(std::string_view text) { return write(text) && write({&line_end_, 1}); }
  /// Lets NUL characters end the lines.
  void end_lines_with_nul() { line_end_ = '\0'; }
  bool flush();
  /// The errno of the first failure, 0 for none.
  [[nodiscard]] int error() const { return error_; }
  /// Called when other code has written to stdout and failed (cat).
  void set_error(int errno_value) { error_ = errno_value; }
  [[nodiscard]] bool terminal() const { return terminal_; }

 private:
  static bool is_terminal();
  std::string buffer_;
  char line_end_ = '\n';
  std::atomic<int> error_ = 0;
  bool terminal_ = is_terminal();
};

}  // namespace nfsrdma::cli
