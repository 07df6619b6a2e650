// Conversions between the values of the public API and those of NFSv4.
#pragma once

#include <optional>
#include <string>

#include "ids/owner_names.h"
#include "nfsrdma/types.h"
#include "wire/nfs4/attributes.h"
#include "writing/unstable_data.h"

namespace nfsrdma::nfs4 {

/// The attributes that the public Attributes are made of.
const bitmap4& public_attributes();
/// Converts attributes. Owners that the server gives as names have no numbers yet
/// (ids/id_names.h translates them).
Attributes to_public(const WireAttributes& wire);
FileType to_public(nfs_ftype4 type);
/// Returns none if the attributes cannot be decoded.
std::optional<Attributes> to_public(const fattr4& wire);
/// Returns the attributes for a new object: the permission bits alone.
SetAttributes with_mode(std::uint32_t mode);
/// Encodes attributes for SETATTR, OPEN and CREATE. An owner without a name in `names` is sent as a number.
fattr4 encode_changes(const SetAttributes& changes, const writing::Resizing& resizing,
                      const ids::OwnerNames& names = {});
/// Encodes all but the size, which needs a Resizing.
fattr4 encode_changes_but_size(const SetAttributes& changes, const ids::OwnerNames& names = {});
Error undecodable_attributes(std::string path);

}  // namespace nfsrdma::nfs4
