// The operands of a command: what each of them is, and the patterns among them, which are replaced by the names
// on the server that match.
//
// The usage line of a command says what its operands are. "TARGET..." stands for objects that exist, and is
// expanded; a destination ("TARGET" after other operands) and the names that mkdir makes are taken as they are.
//
// What an operand such as server:/data/*.csv stands for:
//   - a file that has exactly this name, with all its special characters: the operand is that file alone, and a
//     notice says so. So a command never acts on other files than the one whose name was copied to it.
//   - otherwise all names that match, sorted. If there is none, that is an error, and nothing is done.
// In a URL, a special character that is percent-encoded is an ordinary one; "?" begins the options there.
// --no-glob takes all operands as they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/commands.h"

namespace nfsrdma::cli {

/// Kind of an operand.
enum class Role : unsigned char {
  other,    ///< a mode, an owner, the text of a link
  local,    ///< a file of this machine
  server,   ///< a target whose path does not matter
  target,   ///< taken as it is
  pattern,  ///< objects that exist on the server
};

/// Returns the kind of the operand with this index.
Role role_of(const Command& command, const Arguments& arguments, std::size_t index);

/// The path of an operand as a pattern, and the text around the path.
struct OperandPattern {
  std::string before, after;  ///< "nfs://server", "?vers=3"
  std::string path;           ///< with backslashes before special characters that were percent-encoded
  bool is_url = false;
  /// Returns an operand for another path on the same server.
  [[nodiscard]] std::string with_path(const std::string& other) const;
};
/// Returns nothing for an operand that has no special character. `path`: that of the parsed operand.
std::optional<OperandPattern> pattern_of(std::string_view operand, std::string_view path);

/// Replaces the patterns among the operands by what they match. Returns false if the command must not run,
/// which is reported.
bool expand_operands(Call& call);

}  // namespace nfsrdma::cli
