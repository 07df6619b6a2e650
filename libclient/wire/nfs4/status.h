// The table of statuses: the name of an nfsstat4, the nearest errno, how the refused request may be made
// again, and an explanation for the person who sees it.
//
// Code that recovers something (a session, an open, a lock, a connection's binding) asks retry_of() instead
// of comparing statuses, so that a passing error of the server is nowhere taken for a final answer.
//
// There is one table for NFSv4.0 to 4.2 and the extended attributes. A code that is in none of the
// specifications gets EIO and a sentence that says so. Pure functions on constant data; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "nfsrdma/result.h"
#include "wire/nfs4/base.h"

namespace nfsrdma::nfs4 {

/// How a request that was refused may be made again (RFC 8881 15.1).
enum class Retry : std::uint8_t {
  none,   ///< NFS4_OK: the request was not refused
  never,  ///< final: the server would refuse it again
  later,  ///< the server asks the client to wait: after a pause, until the caller's deadline
  /// The server has trouble of its own, which may pass: after a pause, a bounded number of times.
  some_times,
  when_released,     ///< another client's state is in the way: the caller decides whether to wait
  with_new_state,    ///< the stateid or its owner is gone: after OPEN or LOCK has established it again
  with_new_session,  ///< the session or the client id is gone: after a recovery
  in_session,        ///< slot, sequence id or connection: Session decides (2.10.6.1)
  elsewhere,         ///< the file system is at another server
  otherwise,         ///< another request may do it: another operation, flavour, size or minor version
};

struct StatusRow {
  nfsstat4 status;
  const char* name;  ///< "NFS4ERR_NOENT"
  int errno_value;   ///< the nearest errno, 0 for NFS4_OK
  Retry retry;
  const char*
      explanation;  ///< one sentence without a full stop, which ends in the next step where there is one
};

/// Returns the row of a status; null for a number that no specification has.
const StatusRow* find_status(nfsstat4 status);

/// Returns the name, "NFS4ERR_NOENT" for example, or "an unknown status".
const char* to_string(nfsstat4 status);
int errno_of(nfsstat4 status);
/// Returns Retry::never for a number that no specification has.
Retry retry_of(nfsstat4 status);
/// Judges an Error of status_error(). Returns Retry::none for an Error that the server has not sent.
Retry retry_of(const Error& error);
/// Whether the same request may be accepted after a pause.
bool passes(Retry retry);
const char* explain(nfsstat4 status);
/// Whether the server lacks the operation, or lacks it for these arguments, so that the caller should use
/// another way.
bool is_unsupported(nfsstat4 status);
/// Judges an Error of status_error().
bool is_unsupported(const Error& error);

/// Returns the server's refusal of `operation` on `peer` (a server or a path) as an Error, whose status() is
/// `status`.
Error status_error(nfsstat4 status, std::string operation, std::string peer);

}  // namespace nfsrdma::nfs4
