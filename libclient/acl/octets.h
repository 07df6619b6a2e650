// Access control lists as octets: the values of the extended attributes by which Linux programs get and set
// them, system.posix_acl_access, system.posix_acl_default and system.nfs4_acl. The last is the value of
// NFSv4's attribute acl as it goes over the wire, nfsace4<> (RFC 8881 6.2.1).
//
// Input is bounded by its own length; input that is not well formed is EINVAL.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nfsrdma/acl_types.h"
#include "nfsrdma/result.h"

namespace nfsrdma::acl {

/// Encodes version 2 in 4 octets, then tag, permissions and id of each entry in 2, 2 and 4, all little endian
/// (linux/posix_acl_xattr.h).
std::vector<std::byte> posix_octets(const PosixAcl& list);
/// Decodes a list and returns it ordered(). No octets at all are an empty list.
Result<PosixAcl> posix_of(std::span<const std::byte> octets);

std::vector<std::byte> nfs4_octets(const Nfs4Acl& list);
Result<Nfs4Acl> nfs4_of(std::span<const std::byte> octets);

}  // namespace nfsrdma::acl
