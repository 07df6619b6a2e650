// Access control lists as extended attributes, by the names that Linux's own client gives them: over NFSv3
// system.posix_acl_access and system.posix_acl_default, over NFSv4 system.nfs4_acl. Their values: acl/octets.h.
//
// An access list that says no more than the mode is not there as an attribute. The two POSIX lists are set
// together on the wire, so that one is read to set the other: two programs that set both at once may lose one.
//
// The engine must outlive the tasks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace nfsrdma::fs {

enum class AclXattr : unsigned char { none, access, inherited, nfs4 };

/// none: the name is that of something else, or of a list in a form that the version does not have.
AclXattr acl_xattr(const std::string& name, engine::Engine::AclForm form);

/// ENODATA: there is none.
async::Task<Result<std::vector<std::byte>>> get_acl_xattr(engine::Engine& engine, engine::Caller caller,
                                                          engine::FileHandle object, AclXattr what);
/// Empty: removes it. Without an access list the mode stays as it is.
async::Task<Status> set_acl_xattr(engine::Engine& engine, engine::Caller caller, engine::FileHandle object,
                                  AclXattr what, std::vector<std::byte> value);
/// The names of those that the object has.
async::Task<Result<std::vector<std::string>>> acl_xattrs(engine::Engine& engine, engine::Caller caller,
                                                         engine::FileHandle object);

}  // namespace nfsrdma::fs
