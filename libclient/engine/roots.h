// Where the names of a server begin, for the versions of NFS that have a MOUNT protocol beside them (RFC 1813
// appendix I): each export has a root handle, which is had by its path.
//
// Confined to the loop's thread. Arguments are taken by value: a task may outlive what it was called with, but not
// the Roots.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "async/task.h"
#include "engine/spot.h"
#include "nfsrdma/result.h"

namespace nfsrdma::engine {

struct Root {
  /// Of no octets: the names are those of directories above exports, and lead to none.
  FileHandle handle;
  std::size_t names = 0;  ///< how many of the names lead to it
};

class Roots {
 public:
  Roots() = default;
  virtual ~Roots();
  Roots(const Roots&) = delete;
  Roots& operator=(const Roots&) = delete;

  /// The export that the path with these names is on: the deepest one of those that lead there.
  virtual async::Task<Result<Root>> find(std::vector<std::string> names) = 0;
  /// The names that lead on from there towards exports, where they are not below one.
  virtual async::Task<Result<std::vector<std::string>>> towards_exports(std::vector<std::string> names) = 0;
  /// The server does not know the handle any more, which was given for these names.
  virtual void forget(const FileHandle& root) = 0;
};

}  // namespace nfsrdma::engine
