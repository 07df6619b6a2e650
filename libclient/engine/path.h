// A path on the server while it is being resolved: its names, and the replacement of symbolic links by their
// targets.
//
// "." and ".." are removed when the path is parsed, as in a URL. A plain value, which may be used on any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/spot.h"
#include "nfsrdma/result.h"

namespace nfsrdma::engine {

class Path {
 public:
  /// Parses a path from the server's root; a leading slash is optional. Fails with ENAMETOOLONG if the
  /// protocol could not carry the path.
  static Result<Path> parse(std::string_view text);
  /// Parses a path as parse() does, but a relative one begins at `directory`.
  static Result<Path> parse_at(const FileHandle& directory, std::string_view text);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// Returns whether the path has no names, so that it denotes the directory where it begins.
  [[nodiscard]] bool is_begin() const { return names_.empty(); }
  [[nodiscard]] const std::string& last() const { return names_.back(); }
  /// The path without its last name.
  [[nodiscard]] Path parent() const;
  /// Returns the path as text, for messages.
  [[nodiscard]] std::string text() const;

  /// Three Spots: that of the first `count` names, that of the whole path, and that of the directory which
  /// contains the last name.
  [[nodiscard]] Spot spot(std::size_t count) const;
  [[nodiscard]] Spot spot() const { return spot(names_.size()); }
  [[nodiscard]] Spot directory() const { return spot(names_.size() - 1); }

  /// Returns how many directories above its beginning the names start, for a path that begins at a handle and
  /// leads out of it ("../x"). After each lookup of a parent the caller reports it by rise().
  [[nodiscard]] std::size_t above() const { return above_; }
  [[nodiscard]] const std::optional<FileHandle>& begin() const { return begin_; }
  void rise(const FileHandle& parent) {
    begin_ = parent;
    --above_;
  }

  /// Replaces the name at `index`, which is a symbolic link with this text, by the target of the link.
  /// Returns how many of the names in front of it have stayed. Fails with ELOOP after forty links.
  Result<std::size_t> substitute(std::size_t index, std::string_view link_text);

 private:
  static Status append(Path& path, std::string_view text, std::size_t& stayed);
  std::optional<FileHandle> begin_;  // none: the server's root
  std::size_t above_ = 0;
  std::vector<std::string> names_;
  int links_followed_ = 0;
};

}  // namespace nfsrdma::engine
