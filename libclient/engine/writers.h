// Who keeps data of files that the server does not have yet, behind the close(2) of whoever wrote it.
//
// A server that has promised to let nobody else see a file (a write delegation, RFC 8881 10.4) takes that back when
// somebody wants to see it: then the data is to be written out first. Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/spot.h"

namespace nfsrdma::engine {

class Writers {
 public:
  virtual ~Writers() = default;
  /// Lets go of `until` when the server has what there is of the file now, or will not have it.
  virtual void write_out(const FileHandle& file, std::shared_ptr<void> until) = 0;
  /// How large the file is, if the server has all that there is of it, and that is known for sure.
  [[nodiscard]] virtual std::optional<std::uint64_t> written_size(const FileHandle& file) const = 0;
};

}  // namespace nfsrdma::engine
