// Lines that a user types or a script contains: with editing, history and completion if standard input is a
// terminal and the program was built with libedit, else as they come.
//
// Signals: a signal (interrupt.h) ends the wait for a line; read() then returns Input::interrupted. A script is
// read byte by byte, so that a command of the script which reads standard input finds what follows its line.
//
// History is kept in a file that only its user may read, and holds a bounded number of lines. Lines that begin
// with a blank are not kept.
//
// Thread-safety: one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nfsrdma::cli {

/// Candidates for the word at the end of a line.
struct Completion {
  std::size_t begin = 0;           ///< where the word begins in the line
  std::string replacement;         ///< what all candidates have in common, quoted
  std::vector<std::string> names;  ///< the candidates, as they are shown
};
/// Called with the line up to the cursor.
using Completer = std::function<Completion(const std::string& line)>;

/// Returns "$XDG_STATE_HOME/nfsrdma/history", below ~/.local/state if that is not set; "" without a home.
std::string history_path();

class LineEditor {
 public:
  enum class Input : unsigned char { line, end, interrupted };

  LineEditor(Completer completer, bool is_interactive);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  Input read(const std::string& prompt, std::string& line);

 private:
  class Terminal;
  std::unique_ptr<Terminal> terminal_;  ///< null: lines are read as they come
  const bool is_interactive_;
};

}  // namespace nfsrdma::cli
