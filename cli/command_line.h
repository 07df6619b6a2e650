// The command line: what a command takes, and what was given.
//
// Commands describe their options in constexpr tables. Boost.Program_options reads argv by these tables, in
// command_line.cpp alone. Each error of the user is reported in one sentence that names the option.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nfsrdma/options.h"

namespace nfsrdma::cli {

struct Call;  // commands.h

/// An option of a command.
struct Switch {
  char letter;  ///< 0 for none
  const char* name;
  const char* value;  ///< placeholder of its value in --help; null: it takes none
  const char* text;
};

struct Command {
  const char* name;
  void (*run)(Call&);
  const char* operands;  ///< as in a usage line
  const char* summary;
  std::span<const Switch> switches;
  std::size_t least, most;  ///< operands
  bool facts = false;       ///< prints facts, which --json makes objects; without, only errors become objects
  bool mode_operand = false;  ///< its first operand may look like an option: chmod -x
  bool one_dash = false;      ///< its long options may have one dash, as find(1) has them: -name
};

/// The options and operands that were given to a command.
struct Arguments {
  std::map<std::string, std::vector<std::string>> given;  ///< by the option's name; flags have no values
  /// Options and their values, in the order in which they were given.
  std::vector<std::pair<std::string, std::string>> in_order;
  std::vector<std::string> operands;
  Options base;  ///< -o applied
  bool help = false;

  [[nodiscard]] bool has(const std::string& name) const { return given.contains(name); }
  /// Returns the last value given, if any.
  [[nodiscard]] std::optional<std::string> value(const std::string& name) const;
};

/// Returns true if -v is the option of all commands, which tells what is connected. A few commands have an
/// option -v of their own.
bool has_common_verbose(const Command& command);
/// The name of the option that takes operands as they are (operands.h).
inline constexpr const char* no_glob_name = "no-glob";
/// Returns true if the command takes several objects of a server, and so patterns for their names.
bool takes_patterns(const Command& command);

/// Moves the options -o and --trace that stand before the command behind it, where parse_arguments() takes
/// them.
std::vector<std::string> command_first(std::vector<std::string> words);

/// Returns an Error (usage) that names the mistake, if there is one. With --help the rest is not checked.
Result<Arguments> parse_arguments(const Command& command, std::vector<std::string> words);

/// Returns the options of a command, with those that all commands have.
std::vector<Switch> all_switches(const Command& command);
/// Returns an Error (usage) if there are too few or too many operands.
Status check_operands(const Command& command, const Arguments& arguments);

/// Returns a line for a shell that runs the command with these options and operands.
std::string line_for_shell(const Command& command, const Arguments& arguments,
                           const std::vector<std::string>& operands);

/// Returns the text that --help prints for a command.
std::string help_text(const Command& command);

constexpr std::size_t any_number = static_cast<std::size_t>(-1);

}  // namespace nfsrdma::cli
