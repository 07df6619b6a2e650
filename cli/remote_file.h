// The server's side of put: which file is replaced, and the temporary one that replaces it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "cli/servers.h"

namespace nfsrdma::cli {

/// A file that a put creates or replaces.
struct Replaced {
  Remote remote;                           ///< its own path: no directory, no symbolic link at the end
  std::optional<std::uint32_t> kept_mode;  ///< permissions of the file that is there
};

/// Whether both are of one file, whatever it is called.
bool are_same(const Attributes& one, const Attributes& other);

/// Follows symbolic links at the end of the path. The file that they lead to need not be there.
Result<Remote> without_links(Remote remote);

/// `name`: what the file is called if `target` is a directory; "" if it has no name (standard input).
Result<Replaced> find_replaced(const Remote& target, std::string_view name);

struct RemoteTemporary {
  Remote remote;
  std::unique_ptr<File> file;
};

/// Creates a file in the directory of `to`, open for writing or for both. The create is exclusive: a name that exists, a
/// symbolic link included, is not used.
Result<RemoteTemporary> create_temporary(const Remote& to, std::uint32_t mode,
                                         OpenMode access = OpenMode::write);

/// Removes it, within a Grace; says so if it had to stay. Main thread.
void discard(RemoteTemporary& temporary);

}  // namespace nfsrdma::cli
