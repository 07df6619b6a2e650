// Access control lists: in order, complete, and as text.
//
// The text of POSIX lists is that of getfacl(1): "user:joe:rw-", "default:group::r-x". The text of NFSv4
// lists is that of nfs4_getfacl(1): "A:g:staff@example.org:rxtncy". The parser accepts entries on separate
// lines or separated by commas, and comments after "#" (in the NFSv4 form only lines that begin with "#").
//
// Thread-safety: pure functions, for use from any thread.
#pragma once

#include <string>
#include <string_view>

#include "nfsrdma/acl_types.h"
#include "nfsrdma/result.h"

namespace nfsrdma::acl {

/// Returns the list in the order of POSIX (by tag, then id). EINVAL if an entry is missing, occurs twice or
/// has no meaning. An empty list stays empty.
Result<PosixAcl> ordered(PosixAcl list);
/// Adds what `wanted` leaves out, as setfacl(1) does: an empty list becomes that of `current`; missing
/// entries "user::", "group::" and "other::" of the default list are taken from the access list; a missing
/// mask that is needed allows what any entry that it limits allows.
PosixAcls completed(PosixAcls wanted, const PosixAcls& current);
/// Returns the list as text, one entry per line, each with a newline at its end.
std::string text(const Acl& acl, const AclNames& names = {});
/// Parses a list; its first entry determines which of the two forms it is. POSIX lists are returned as they
/// stand, neither ordered() nor completed(). An EINVAL error names the malformed entry.
Result<Acl> parse(std::string_view text, const AclNames& names = {});

}  // namespace nfsrdma::acl
