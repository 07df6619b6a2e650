// The server's side of put: which file is replaced, and the temporary one that replaces it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/servers.h"

namespace nfsrdma::cli {

/// A file that a put creates or replaces.
struct Replaced {
  Remote remote;                    ///< its own path: no directory, no symbolic link at the end
  std::optional<Attributes> there;  ///< of the file that is there

  [[nodiscard]] std::optional<std::uint32_t> kept_mode() const;  ///< its permissions
};

/// Returns true if both are attributes of one file, whatever its names are.
bool are_same(const Attributes& one, const Attributes& other);

/// Follows symbolic links at the end of the path. The file that they lead to need not exist.
Result<Remote> without_links(Remote remote);

/// Finds the file that a put creates or replaces. `name` is its name if `target` is a directory; "" if it has
/// none (standard input). Nothing: `target` itself must be the file.
Result<Replaced> find_replaced(const Remote& target, std::optional<std::string_view> name);

/// Returns a name for a temporary file, for the file `name` in the same directory. The name is random,
/// so that it is not in use, and another user could not foresee it.
std::string temporary_name(std::string_view name);

struct RemoteTemporary {
  Remote remote;
  std::unique_ptr<File> file;
};

/// Creates a file in the directory of `to`, open for writing or for both. The create is exclusive: a name
/// that exists, a symbolic link included, is not used.
Result<RemoteTemporary> create_temporary(const Remote& to, std::uint32_t mode,
                                         OpenMode access = OpenMode::write);

/// Removes the temporary file, within a Grace. Reports if it had to stay. Main thread.
void discard(RemoteTemporary& temporary);

}  // namespace nfsrdma::cli
