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
  std::optional<std::uint32_t> kept_mode;  ///< of the file that is there
};

/// `name`: what the file is called if `target` is a directory; "" if it has no name (standard input).
Result<Replaced> find_replaced(const Remote& target, std::string_view name);

struct RemoteTemporary {
  Remote remote;
  std::unique_ptr<File> file;
};

/// A new file beside `to`, open for writing.
Result<RemoteTemporary> create_temporary(const Remote& to, std::uint32_t mode);

/// Removes it, within a Grace; says so if it had to stay.
void discard(RemoteTemporary& temporary);

}  // namespace nfsrdma::cli
