// What an nfsstat3 is called, which errno it comes nearest to, and what it means to the person who sees it.
//
// A code that RFC 1813 does not have gets EIO and a sentence that says so. Pure functions on constant data;
// any thread.
#pragma once

#include <string>

#include "nfs3/types/types.h"
#include "nfsrdma/result.h"

namespace nfsrdma::nfs3 {

struct StatusRow {
  nfsstat3 status;
  const char* name;         ///< "NFS3ERR_NOENT"
  int errno_value;          ///< the nearest errno, 0 for NFS3_OK
  const char* explanation;  ///< one sentence without a full stop, with the next step where there is one
};

/// The row of a status; null for a number that the specification does not have.
const StatusRow* find_status(nfsstat3 status);
/// "NFS3ERR_NOENT", or "an unknown status".
const char* to_string(nfsstat3 status);

/// The server's refusal of `operation` on `peer` (a server or a path) as an Error, whose status() it becomes.
Error status_error(nfsstat3 status, std::string operation, std::string peer);

}  // namespace nfsrdma::nfs3
