// Access control lists as extended attributes, with the names that Linux's own client uses:
// system.posix_acl_access and system.posix_acl_default over NFSv3, system.nfs4_acl over NFSv4. acl/octets.h
// defines their values.
//
// An access list that says no more than the mode does not exist as an attribute. NFS sets the two POSIX lists
// together, so the other list is read first: two programs that set both lists at the same time may lose one
// change.
//
// The engine must outlive the tasks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace nfsrdma::fs {

enum class AclXattr : unsigned char { none, access, inherited, nfs4 };

/// Returns the list that the attribute name stands for. Returns `none` if it is no list, or if the version
/// has lists of another form.
AclXattr acl_xattr(const std::string& name, engine::Engine::AclForm form);

/// Fails with ENODATA if there is no such list.
async::Task<Result<std::vector<std::byte>>> get_acl_xattr(engine::Engine& engine, engine::Caller caller,
                                                          engine::FileHandle object, AclXattr what);
/// Sets the list; an empty `value` removes it. The mode stays as it is when the access list is removed.
async::Task<Status> set_acl_xattr(engine::Engine& engine, engine::Caller caller, engine::FileHandle object,
                                  AclXattr what, std::vector<std::byte> value);
/// Returns the names of the lists that the object has.
async::Task<Result<std::vector<std::string>>> acl_xattrs(engine::Engine& engine, engine::Caller caller,
                                                         engine::FileHandle object);

}  // namespace nfsrdma::fs
