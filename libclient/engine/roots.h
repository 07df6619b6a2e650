// The root handles of a server's exports, for the versions of NFS that use a separate MOUNT protocol
// (RFC 1813 appendix I). The path of an export leads to its root handle.
//
// Confined to the loop's thread. Arguments are taken by value, because a task may outlive the objects that it
// was called with. The Roots have to outlive their tasks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "async/task.h"
#include "engine/spot.h"
#include "nfsrdma/result.h"

namespace nfsrdma::engine {

struct Root {
  /// Empty if the names are directories above exports and no export contains them.
  FileHandle handle;
  std::size_t names = 0;  ///< how many of the names lead to the export
};

class Roots {
 public:
  Roots() = default;
  virtual ~Roots();
  Roots(const Roots&) = delete;
  Roots& operator=(const Roots&) = delete;

  /// Returns the export that contains the path with these names: the deepest one of those that do.
  virtual async::Task<Result<Root>> find(std::vector<std::string> names) = 0;
  /// Returns the names that lead from this directory towards exports, if it is not inside one.
  virtual async::Task<Result<std::vector<std::string>>> towards_exports(std::vector<std::string> names) = 0;
  /// Called when the server has answered that the handle, which find() returned, is stale.
  virtual void forget(const FileHandle& root) = 0;
};

}  // namespace nfsrdma::engine
