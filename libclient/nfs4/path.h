// A path on the server while it is being resolved: its names, and the substitution of symbolic links.
//
// "." and ".." are taken out when it is parsed, as in a URL. A plain value; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/result.h"

namespace nfsrdma::nfs4 {

class Path {
 public:
  /// `text` is absolute or is taken as such. An Error (ENAMETOOLONG) where the protocol could not carry it.
  static Result<Path> parse(std::string_view text);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] bool is_root() const { return names_.empty(); }
  [[nodiscard]] const std::string& last() const { return names_.back(); }
  /// The path without its last name.
  [[nodiscard]] Path parent() const;
  /// For messages.
  [[nodiscard]] std::string text() const;

  /// The name at `index` is a symbolic link with this text: it is replaced by what it points to. An Error
  /// (ELOOP) after forty of them.
  Status substitute(std::size_t index, std::string_view link_text);

 private:
  static Status append(std::vector<std::string>& names, std::string_view text);
  std::vector<std::string> names_;
  int links_followed_ = 0;
};

}  // namespace nfsrdma::nfs4
