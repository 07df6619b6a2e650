// Lines of the interactive shell, taken apart as the POSIX shell does it (XCU 2.2 and 2.3): words, quotes,
// comments, and commands with ";" between them.
//
// A special character of a pattern (glob.h) that was quoted is an ordinary one. A ShellWord therefore has a NUL
// before each such character; no line and no name can contain a NUL itself. plain() and for_pattern() make of it
// what a local name and a pattern need. There are no variables, no redirections and no pipes; "!" hands the rest
// of a line to the local shell, which has them.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/result.h"

namespace nfsrdma::cli {

using ShellWord = std::string;

/// The word as the user meant it, without marks.
std::string plain(const ShellWord& word);
/// The word with a backslash before each special character that was quoted.
std::string for_pattern(const ShellWord& word);

struct ShellCommand {
  std::vector<ShellWord> words;
  std::string local;      ///< after "!": the line for the local shell
  bool is_local = false;  ///< it began with "!"
};
/// Takes a line apart. Returns an Error (usage) for a quote that is not closed.
Result<std::vector<ShellCommand>> split_line(std::string_view line);

/// The word that ends at the cursor, for completion.
struct UnfinishedWord {
  std::vector<std::string> before;  ///< the words of its command before it, without quotes
  std::string text;                 ///< without quotes
  std::size_t begin = 0;            ///< where it begins in the line, quotes included
};
UnfinishedWord word_at_end(std::string_view line);

/// Returns the text with a backslash before each character that has a meaning in a line.
std::string with_backslashes(std::string_view text);

/// Joins a directory and a path, which may be absolute, and resolves "." and ".." by the names alone, as "cd"
/// of the shell does. A slash at the end stays.
std::string resolved_path(std::string_view directory, std::string_view path);

}  // namespace nfsrdma::cli
