// Access control lists as JSON, for acl get --json: one object for each list.
//
// Each entry has its parts and, as "text", the form that "acl set" takes. The parts of an NFSv4 entry are
// those of nfs4_getfacl(1), with words for the types, and the mask as a number, because the letters do not
// cover every bit that a server may send.
#pragma once

#include "cli/json.h"
#include "nfsrdma/acl.h"

namespace nfsrdma::cli {

/// Adds the members "form" (posix or nfs4) and "entries".
void add_acl(json::Object& out, const Acl& acl, const AclNames& names);

}  // namespace nfsrdma::cli
