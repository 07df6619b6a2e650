// The interface of a layer that keeps data of a file after the close(2) of its writer has returned, before
// the server has that data.
//
// A write delegation (RFC 8881 10.4) allows this. The server recalls the delegation when another client wants
// to see the file; then the engine has the data written out first. A mount implements this (fs/closing.h). Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/spot.h"

namespace nfsrdma::engine {

class WriteBackOwner {
 public:
  virtual ~WriteBackOwner() = default;
  /// Writes out the data of the file. Releases `until` when the server has all of it, or will not get it.
  virtual void write_out(const FileHandle& file, std::shared_ptr<void> until) = 0;
  /// Returns the size of the file if the server has all of its data and the size is certain; otherwise none.
  [[nodiscard]] virtual std::optional<std::uint64_t> written_size(const FileHandle& file) const = 0;
};

}  // namespace nfsrdma::engine
