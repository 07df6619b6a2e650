// Converts between the values that all versions share and those of NFSv3.
#pragma once

#include <optional>

#include "engine/spot.h"
#include "nfsrdma/types.h"
#include "wire/nfs3/types.h"

namespace nfsrdma::nfs3 {

using engine::FileHandle;

/// For handles that came from this server, which have at most 64 octets.
nfs_fh3 to_wire(const FileHandle& handle);
FileHandle to_public(const nfs_fh3& handle);
FileType to_public(ftype3 type);
/// NFSv3 has no change attribute. The one computed here differs if the ctime, the mtime or the size differs,
/// which is all that a client can know.
Attributes to_public(const fattr3& wire);
std::optional<Attributes> to_public(const post_op_attr& wire);
sattr3 to_wire(const SetAttributes& changes);
/// Attributes for a new object: the permission bits alone.
sattr3 with_mode(std::uint32_t mode);

}  // namespace nfsrdma::nfs3
