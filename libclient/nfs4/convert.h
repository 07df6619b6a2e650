// Between the public API's values and NFSv4's.
#pragma once

#include <optional>
#include <string>

#include "ids/owner_names.h"
#include "nfs4/types/attributes.h"
#include "nfsrdma/client.h"
#include "writing/unstable_data.h"

namespace nfsrdma::nfs4 {

/// The attributes that the public Attributes is made of.
const bitmap4& public_attributes();
/// Owners that the server gives as names have no numbers yet (ids/id_names.h has them).
Attributes to_public(const WireAttributes& wire);
FileType to_public(nfs_ftype4 type);
/// None: they cannot be decoded.
std::optional<Attributes> to_public(const fattr4& wire);
/// Of what is made: the permission bits alone.
SetAttributes with_mode(std::uint32_t mode);
/// For SETATTR, OPEN and CREATE. Owners are said by their numbers where they have no names.
fattr4 encode_changes(const SetAttributes& changes, const writing::Resizing& resizing,
                      const ids::OwnerNames& names = {});
/// Leaves the size out, which needs a Resizing.
fattr4 encode_changes_but_size(const SetAttributes& changes, const ids::OwnerNames& names = {});
Error undecodable_attributes(std::string path);

}  // namespace nfsrdma::nfs4
