// The state of the interactive shell, and what its lines do: commands of the program with paths relative to a
// remote directory, and commands of the shell itself (cd, lcd, ...).
//
// All commands use the Servers of the shell, so its connection is kept. A path becomes a target of the shell's
// server; a word that is a target already stays. Patterns and their quoting are those of operands.h.
//
// A signal ends the command that runs. The shell goes on after SIGINT, and ends after SIGTERM and SIGHUP.
//
// Thread-safety: one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/line_editor.h"
#include "cli/shell_words.h"

namespace nfsrdma::cli {

class ShellSession {
 public:
  /// `start` is a directory, whose connection is made. `is_json`: each command has the option --json.
  ShellSession(Servers& servers, const Target& target, const Remote& start, bool is_json = false);

  /// Runs the commands of a line. With `stops` the first failure ends the line.
  void run(const std::string& line, bool stops);
  /// The exit status of the last command.
  [[nodiscard]] int status() const { return status_; }
  /// Returns true after "exit", a signal that ends the program, or when standard output is gone.
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] std::string prompt() const;
  [[nodiscard]] Completion complete(const std::string& line);

 private:
  using Words = std::vector<ShellWord>;
  struct Builtin {
    const char* name;
    int (ShellSession::*run)(const Words& words);
    const char* summary;
  };
  static const std::vector<Builtin>& builtins();
  static const Builtin* find_builtin(const std::string& name);

  int run_one(const ShellCommand& command);
  int run_program(const Command& command, const Words& words);
  int run_parsed(const Command& command, Arguments arguments);
  int finish(Output& out, int status);
  void make_targets(const Command& command, Arguments& arguments);
  [[nodiscard]] std::string target_of(const std::string& path) const;
  Status apply_options(const Arguments& arguments);

  int change_directory(const Words& words);
  int print_directory(const Words& words);
  int change_local(const Words& words);
  int print_local(const Words& words);
  int list_local(const Words& words);
  int help(const Words& words);
  int leave(const Words& words);

  [[nodiscard]] std::vector<std::string> names_below(const UnfinishedWord& word, bool is_remote,
                                                     bool only_directories);
  [[nodiscard]] std::vector<std::string> remote_names(const std::string& directory, bool only_directories);

  Servers& servers_;
  const bool is_json_;
  const Options base_;
  const std::string host_;
  const std::string top_;  ///< where "cd" without an operand leads
  std::string directory_, previous_;
  int status_ = 0;
  bool is_over_ = false;
};

}  // namespace nfsrdma::cli
