// What an nfsstat4 is called, which errno it comes nearest to, and what it means to the person who sees it.
//
// One table for NFSv4.0 to 4.2 and the extended attributes; a code that is in none of the specifications gets
// EIO and a sentence that says so. Pure functions on constant data; any thread.
#pragma once

#include <string>

#include "nfs4/types/base.h"
#include "nfsrdma/result.h"

namespace nfsrdma::nfs4 {

struct StatusRow {
  nfsstat4 status;
  const char* name;  ///< "NFS4ERR_NOENT"
  int errno_value;   ///< the nearest errno, 0 for NFS4_OK
  const char*
      explanation;  ///< one sentence without a full stop, which ends in the next step where there is one
};

/// The row of a status; null for a number that no specification has.
const StatusRow* find_status(nfsstat4 status);

/// "NFS4ERR_NOENT", or "an unknown status".
const char* to_string(nfsstat4 status);
int errno_of(nfsstat4 status);
const char* explain(nfsstat4 status);

/// The server's refusal of `operation` on `peer` (a server or a path) as an Error, whose status() it becomes.
Error status_error(nfsstat4 status, std::string operation, std::string peer);

}  // namespace nfsrdma::nfs4
