// What a mount is set to. Constant once the file system is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nfsrdma::fs {

using Seconds = std::chrono::duration<double>;

struct CacheOptions {
  std::uint32_t rsize = 1U << 20, wsize = 1U << 20;
  std::size_t most_ahead = 64U << 20;  ///< bytes that are read ahead, of all files together
  Seconds file_min{3}, file_max{60}, directory_min{30}, directory_max{60};  ///< acregmin …
  bool negative_names = true;  ///< lookupcache=all: names that are not there are believed, too
  bool names = true;           ///< lookupcache=none: no name is
  bool sync = false;           ///< every write is on the server's disk when it is answered
  bool close_to_open = true;   ///< cto
  /// Users other than the one who mounted may use the mount, and the server judges each of them. A name that one user has
  /// looked up is not believed for another.
  bool several_users = false;
  std::size_t most_delegated = 1000;  ///< files that are kept open for their delegations alone
};

}  // namespace nfsrdma::fs
