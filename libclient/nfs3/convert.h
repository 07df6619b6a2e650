// Between the values of all versions and NFSv3's.
#pragma once

#include <optional>

#include "engine/spot.h"
#include "nfs3/types/types.h"
#include "nfsrdma/types.h"

namespace nfsrdma::nfs3 {

using engine::FileHandle;

/// Handles that came from this server: 64 octets at most.
nfs_fh3 to_wire(const FileHandle& handle);
FileHandle to_public(const nfs_fh3& handle);
FileType to_public(ftype3 type);
/// NFSv3 has no change attribute: this one differs when the times of the last change or the size do, which is
/// as much as a client can know.
Attributes to_public(const fattr3& wire);
std::optional<Attributes> to_public(const post_op_attr& wire);
sattr3 to_wire(const SetAttributes& changes);
/// Of what is made: the permission bits alone.
sattr3 with_mode(std::uint32_t mode);

}  // namespace nfsrdma::nfs3
