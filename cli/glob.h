// Patterns in paths on the server, as the POSIX shell has them (XCU 2.13): * ? [...], and ** for directories at
// any depth.
//
// A path is matched component by component. A component without a wildcard is never listed, and each directory
// that has to be listed is listed once. A name with a leading dot matches only a pattern with an explicit dot.
// Names are bytes; the "C" locale of the program makes fnmatch(3) compare them so. A backslash takes the
// character behind it as it is, if that character is * ? [ ] or a backslash; any other backslash is a part of
// the name.
//
// Thread-safety: parse() and the members of Pattern are pure; expand() makes blocking calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/client.h"

namespace nfsrdma::cli {

class Pattern {
 public:
  /// Takes an absolute path.
  static Pattern parse(std::string_view path);

  [[nodiscard]] bool has_wildcards() const;
  /// Returns the path without backslashes that quote. For a path without wildcards.
  [[nodiscard]] std::string literal() const;
  /// Returns the paths on the server that match, sorted by their bytes. A directory that was found by a
  /// wildcard and may not be listed has no matches; any other failure is an Error.
  [[nodiscard]] Result<std::vector<std::string>> expand(Client& client) const;

 private:
  enum class Kind : unsigned char {
    literal,
    wild,
    deep,  ///< "**": any number of directories; at the end of the path everything below
  };
  struct Component {
    Kind kind = Kind::literal;
    std::string text;  ///< of a literal without the backslashes that quote
  };
  class Expansion;
  std::vector<Component> components_;
  bool is_directory_ = false;  ///< the path ends in a slash
};

/// Puts a backslash before each character that would have a meaning in a pattern.
std::string quoted_for_glob(std::string_view name);

/// Returns true for * ? [ ] and the backslash.
bool is_special_in_glob(char c);

}  // namespace nfsrdma::cli
