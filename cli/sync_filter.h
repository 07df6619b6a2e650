// Which names of a tree sync leaves out: --include, --exclude and --exclude-from, by the rules of rsync(1).
//
// The patterns are tried in the order of the command line. The first one that matches a name decides, and a name
// that none matches is taken. A directory that is left out is not entered. Paths are relative to the directory
// that DESTINATION stands for, without a slash at their begin.
//
// A pattern that begins with a slash matches from there on; every other one matches at the end of a path. A
// pattern that ends in a slash matches directories only. Without another slash and without "**", it is compared
// with the last name of a path. '*' and '?' match no slash, "**" does, and "dir/***" matches dir and all in it.
//
// Own code because fnmatch(3) has no "**". Pure, except for add_file().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/result.h"

namespace nfsrdma::cli {

/// Returns true if the pattern matches the whole text.
bool glob_matches(std::string_view pattern, std::string_view text);

class SyncFilter {
 public:
  void include(std::string_view pattern) { add(pattern, false); }
  void exclude(std::string_view pattern) { add(pattern, true); }
  /// Adds the patterns of a file, one on a line. "+ " before a pattern includes, "- " or nothing excludes. Empty
  /// lines, and lines that begin with '#' or ';', are skipped.
  Status add_file(const std::string& path);

  [[nodiscard]] bool leaves_out(std::string_view path, bool is_directory) const;

 private:
  struct Rule {
    std::string pattern;  ///< without the slashes at its begin and end, and without "/***"
    bool excludes = false;
    bool is_anchored = false, directories_only = false;
    bool whole_paths = false;    ///< compared with paths, not with the last name
    bool with_contents = false;  ///< "/***": matches everything below, too
  };
  void add(std::string_view pattern, bool excludes);
  void add_line(std::string_view line);
  static bool matches(const Rule& rule, std::string_view path, bool is_directory);

  std::vector<Rule> rules_;
};

}  // namespace nfsrdma::cli
