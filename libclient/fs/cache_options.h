// The cache options of a mount. Constant once the file system is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nfsrdma::fs {

using Seconds = std::chrono::duration<double>;

struct CacheOptions {
  std::uint32_t rsize = 1U << 20, wsize = 1U << 20;
  std::size_t most_ahead = 64U << 20;  ///< bytes that may be read ahead, for all files together
  /// The mount options acregmin, acregmax, acdirmin and acdirmax.
  Seconds file_min{3}, file_max{60}, directory_min{30}, directory_max{60};
  bool negative_names = true;  ///< lookupcache=all: missing names are cached, too
  bool names = true;           ///< false: lookupcache=none, no name is cached
  bool sync = false;           ///< a write is answered when it is on the server's disk
  bool close_to_open = true;   ///< the mount option cto
  /// Users other than the one who mounted may use the mount, and the server checks the rights of each. A name
  /// that one user has looked up is not taken as valid for another.
  bool several_users = false;
  /// The kernel keeps what programs write and decides how large a file is (writeback_cache).
  bool kernel_gathers = false;
  std::size_t most_delegated = 1000;  ///< limit of files that are kept open only for their delegations

  /// Whether any name is valid without asking the server.
  [[nodiscard]] bool names_believed() const { return names && file_max > Seconds(0); }
  /// Whether an open has to check the names by which the kernel may have found the file (name_checks.h).
  [[nodiscard]] bool checks_names() const { return close_to_open && names_believed(); }
};

}  // namespace nfsrdma::fs
