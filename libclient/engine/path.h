// A path on the server while it is being resolved: its names, and the substitution of symbolic links.
//
// "." and ".." are taken out when it is parsed, as in a URL. A plain value; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/spot.h"
#include "nfsrdma/result.h"

namespace nfsrdma::engine {

class Path {
 public:
  /// `text` is absolute or is taken as such. An Error (ENAMETOOLONG) where the protocol could not carry it.
  static Result<Path> parse(std::string_view text);
  /// The same, but a relative one leads on from `directory`.
  static Result<Path> parse_at(const FileHandle& directory, std::string_view text);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// It leads to where it begins.
  [[nodiscard]] bool is_begin() const { return names_.empty(); }
  [[nodiscard]] const std::string& last() const { return names_.back(); }
  /// The path without its last name.
  [[nodiscard]] Path parent() const;
  /// For messages.
  [[nodiscard]] std::string text() const;

  /// Where its first `count` names lead to, where all of them do, and the directory that the last is in.
  [[nodiscard]] Spot spot(std::size_t count) const;
  [[nodiscard]] Spot spot() const { return spot(names_.size()); }
  [[nodiscard]] Spot directory() const { return spot(names_.size() - 1); }

  /// A path that began at a handle leads out of it ("../x"): its names begin so many directories above. Who
  /// has found the one above says so by rise().
  [[nodiscard]] std::size_t above() const { return above_; }
  [[nodiscard]] const std::optional<FileHandle>& begin() const { return begin_; }
  void rise(const FileHandle& parent) {
    begin_ = parent;
    --above_;
  }

  /// The name at `index` is a symbolic link with this text: it is replaced by what it points to. Gives how
  /// many of the names before it have stayed. An Error (ELOOP) after forty of them.
  Result<std::size_t> substitute(std::size_t index, std::string_view link_text);

 private:
  static Status append(Path& path, std::string_view text, std::size_t& stayed);
  std::optional<FileHandle> begin_;  // none: the server's root
  std::size_t above_ = 0;
  std::vector<std::string> names_;
  int links_followed_ = 0;
};

}  // namespace nfsrdma::engine
