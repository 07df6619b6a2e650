// Parts of large files. With --resume, a copy that is cut off leaves the part that it has made, and the next copy
// continues it.
//
// The part of NAME lies in the directory of the copy, as ".NAME.nfsrdma-part-FINGERPRINT", with access for its owner
// only. It becomes NAME by a rename when it is complete. The fingerprint is made of the name, the size and the time of
// modification of the source, so a part of a source that has changed since is not found, and is removed when another
// part of NAME is begun.
//
// What a part has is complete up to the last multiple of part_step below its size: a copy to a server has all bytes
// before such a multiple on the server's disk before it writes behind it. A copy goes on from there, so up to part_step
// bytes are copied again.
//
// A part is taken only if no other user can have made it: a regular file of this user with one name and the mode of a
// part. Another user may put a file there if the directory can be written to by all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/local.h"
#include "cli/remote_file.h"

namespace nfsrdma::cli {

inline constexpr std::uint64_t part_step = 32U << 20;

/// Returns true if a file of this size has a part. A smaller one is copied again as a whole.
constexpr bool has_part(std::uint64_t size) {
  return size > part_step;
}
std::string part_name(std::string_view name, const PartOf& of);
/// Returns true if a file of this name is a part of some file.
bool is_part_name(std::string_view name);
/// Returns true if a file of this name is a part of the file `name`.
bool is_part_of(std::string_view part, std::string_view name);

struct LocalPart {
  Descriptor fd;
  std::string name;
  std::uint64_t begin = 0;  ///< bytes that are copied already
};
/// Opens the part of a file in the directory, or begins one. `path`: the file, for messages.
Result<LocalPart> open_local_part(int directory, const std::string& name, const PartOf& of,
                                  const std::string& path);

struct RemotePart {
  RemoteTemporary temporary;
  std::uint64_t begin = 0;
};
Result<RemotePart> open_remote_part(const Remote& to, const PartOf& of);

}  // namespace nfsrdma::cli
