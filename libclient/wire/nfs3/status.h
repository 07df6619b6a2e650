// For each nfsstat3: its name, the nearest errno, and an explanation for the user.
//
// A code that RFC 1813 does not have gets EIO and a sentence that says so. Pure functions on constant data,
// for use from any thread.
#pragma once

#include <string>

#include "nfsrdma/result.h"
#include "wire/nfs3/types.h"

namespace nfsrdma::nfs3 {

struct StatusRow {
  nfsstat3 status;
  const char* name;         ///< "NFS3ERR_NOENT"
  int errno_value;          ///< the nearest errno, 0 for NFS3_OK
  const char* explanation;  ///< one sentence without a full stop, with the next step if there is one
};

/// Returns the row of a status, or null for a number that the specification does not have.
const StatusRow* find_status(nfsstat3 status);
/// Returns the name, such as "NFS3ERR_NOENT", or "an unknown status".
const char* to_string(nfsstat3 status);

/// Returns the Error for the server's refusal of `operation` on `peer` (a server or a path). Its status() is
/// `status`.
Error status_error(nfsstat3 status, std::string operation, std::string peer);

}  // namespace nfsrdma::nfs3
