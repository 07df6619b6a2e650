#include "wire/nfs4/status.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>

namespace nfsrdma::nfs4 {
namespace {

// Wordings for a mistake of this client or of the server, which is not the user's fault.
#define OUR_FAULT "; this is an error in this client, please report it with a capture of the traffic"
#define RECOVERED "; it is re-established, and the operation may be repeated"

// clang-format off
constexpr auto kRows = std::to_array<StatusRow>({
    {NFS4_OK, "NFS4_OK", 0, Retry::none, "success"},
    {NFS4ERR_PERM, "NFS4ERR_PERM", EPERM, Retry::never, "the server allows this to the owner or to root only; use such an identity (uid=), or check root_squash on the server"},
    {NFS4ERR_NOENT, "NFS4ERR_NOENT", ENOENT, Retry::never, "there is no such file or directory"},
    {NFS4ERR_IO, "NFS4ERR_IO", EIO, Retry::some_times, "the server could not read or write its storage; look into the server's log"},
    {NFS4ERR_NXIO, "NFS4ERR_NXIO", ENXIO, Retry::never, "the server has no such device or no data beyond this offset"},
    {NFS4ERR_ACCESS, "NFS4ERR_ACCESS", EACCES, Retry::never, "the server denies access to this user; check the permissions, the identity used (uid=, gid=) and the export's options"},
    {NFS4ERR_EXIST, "NFS4ERR_EXIST", EEXIST, Retry::never, "there is a file or directory of that name already"},
    {NFS4ERR_XDEV, "NFS4ERR_XDEV", EXDEV, Retry::never, "the two names are on different file systems of the server; copy and remove instead"},
    {NFS4ERR_NOTDIR, "NFS4ERR_NOTDIR", ENOTDIR, Retry::never, "a part of the path is not a directory"},
    {NFS4ERR_ISDIR, "NFS4ERR_ISDIR", EISDIR, Retry::never, "this is a directory"},
    {NFS4ERR_INVAL, "NFS4ERR_INVAL", EINVAL, Retry::never, "the server finds an argument invalid for this object"},
    {NFS4ERR_FBIG, "NFS4ERR_FBIG", EFBIG, Retry::never, "the file would become larger than the server's file system allows"},
    {NFS4ERR_NOSPC, "NFS4ERR_NOSPC", ENOSPC, Retry::never, "the server's file system is full; free some space on it"},
    {NFS4ERR_ROFS, "NFS4ERR_ROFS", EROFS, Retry::never, "the file system is exported or mounted read-only on the server"},
    {NFS4ERR_MLINK, "NFS4ERR_MLINK", EMLINK, Retry::never, "the file has as many hard links as the server's file system allows"},
    {NFS4ERR_NAMETOOLONG, "NFS4ERR_NAMETOOLONG", ENAMETOOLONG, Retry::never, "a name is longer than the server's file system allows; shorten it"},
    {NFS4ERR_NOTEMPTY, "NFS4ERR_NOTEMPTY", ENOTEMPTY, Retry::never, "the directory is not empty"},
    {NFS4ERR_DQUOT, "NFS4ERR_DQUOT", EDQUOT, Retry::never, "the user's or group's quota on the server is used up; free some space or have it raised"},
    {NFS4ERR_STALE, "NFS4ERR_STALE", ESTALE, Retry::never, "the file was removed on the server, or its file system is no longer exported; look it up again"},
    {NFS4ERR_BADHANDLE, "NFS4ERR_BADHANDLE", ESTALE, Retry::never, "the server does not recognize the file handle; look the path up again"},
    {NFS4ERR_BAD_COOKIE, "NFS4ERR_BAD_COOKIE", EIO, Retry::otherwise, "the directory changed while it was read; list it again"},
    {NFS4ERR_NOTSUPP, "NFS4ERR_NOTSUPP", EOPNOTSUPP, Retry::otherwise, "the server or its file system does not support this operation"},
    {NFS4ERR_TOOSMALL, "NFS4ERR_TOOSMALL", EIO, Retry::otherwise, "the result does not fit into the size that was asked for" OUR_FAULT},
    {NFS4ERR_SERVERFAULT, "NFS4ERR_SERVERFAULT", EREMOTEIO, Retry::some_times, "the server failed with an error that NFS has no code for; look into the server's log"},
    {NFS4ERR_BADTYPE, "NFS4ERR_BADTYPE", EINVAL, Retry::never, "the server cannot make objects of this type"},
    {NFS4ERR_DELAY, "NFS4ERR_DELAY", EAGAIN, Retry::later, "the server is busy with this file and asked to wait; try again"},
    {NFS4ERR_SAME, "NFS4ERR_SAME", EIO, Retry::never, "the attributes are the same as those given" OUR_FAULT},
    {NFS4ERR_DENIED, "NFS4ERR_DENIED", EAGAIN, Retry::when_released, "another client holds a lock on this part of the file; try again when it is released"},
    {NFS4ERR_EXPIRED, "NFS4ERR_EXPIRED", EIO, Retry::with_new_state, "the lease ran out and the server dropped this client's open files and locks; open the file again"},
    {NFS4ERR_LOCKED, "NFS4ERR_LOCKED", EAGAIN, Retry::when_released, "a lock of another client forbids reading or writing here; try again when it is released"},
    {NFS4ERR_GRACE, "NFS4ERR_GRACE", EAGAIN, Retry::later, "the server restarted and lets clients recover first; try again in a minute or two"},
    {NFS4ERR_FHEXPIRED, "NFS4ERR_FHEXPIRED", ESTALE, Retry::otherwise, "the file handle expired on the server; look the path up again"},
    {NFS4ERR_SHARE_DENIED, "NFS4ERR_SHARE_DENIED", EACCES, Retry::when_released, "another client has the file open and denies sharing it; close it there"},
    {NFS4ERR_WRONGSEC, "NFS4ERR_WRONGSEC", EPERM, Retry::otherwise, "the server wants another security flavour for this path; choose it with sec="},
    {NFS4ERR_CLID_INUSE, "NFS4ERR_CLID_INUSE", EBUSY, Retry::when_released, "another principal uses this client's identifier on the server; connect with the identity used before, or wait until its lease ran out"},
    {NFS4ERR_RESOURCE, "NFS4ERR_RESOURCE", EREMOTEIO, Retry::some_times, "the server ran out of resources for this request; try again later"},
    {NFS4ERR_MOVED, "NFS4ERR_MOVED", EREMOTE, Retry::elsewhere, "the file system moved to another server; connect to that one"},
    {NFS4ERR_NOFILEHANDLE, "NFS4ERR_NOFILEHANDLE", EIO, Retry::never, "no file was selected for the operation" OUR_FAULT},
    {NFS4ERR_MINOR_VERS_MISMATCH, "NFS4ERR_MINOR_VERS_MISMATCH", EPROTONOSUPPORT, Retry::otherwise, "the server does not offer this minor version of NFSv4; choose another with vers="},
    {NFS4ERR_STALE_CLIENTID, "NFS4ERR_STALE_CLIENTID", EIO, Retry::with_new_session, "the server no longer knows this client, most likely because it restarted" RECOVERED},
    {NFS4ERR_STALE_STATEID, "NFS4ERR_STALE_STATEID", EIO, Retry::with_new_state, "the server restarted since the file was opened; open it again"},
    {NFS4ERR_OLD_STATEID, "NFS4ERR_OLD_STATEID", EIO, Retry::with_new_state, "the state of the open file changed meanwhile; try again"},
    {NFS4ERR_BAD_STATEID, "NFS4ERR_BAD_STATEID", EIO, Retry::with_new_state, "the server does not know this open file or lock; open the file again"},
    {NFS4ERR_BAD_SEQID, "NFS4ERR_BAD_SEQID", EIO, Retry::with_new_state, "a request on an open file came out of order" OUR_FAULT},
    {NFS4ERR_NOT_SAME, "NFS4ERR_NOT_SAME", EIO, Retry::otherwise, "the object changed since it was looked at; try again"},
    {NFS4ERR_LOCK_RANGE, "NFS4ERR_LOCK_RANGE", EINVAL, Retry::otherwise, "the server cannot lock a part of, or beyond, a range that is locked already"},
    {NFS4ERR_SYMLINK, "NFS4ERR_SYMLINK", ELOOP, Retry::never, "this is a symbolic link, where a file or directory is needed"},
    {NFS4ERR_RESTOREFH, "NFS4ERR_RESTOREFH", EIO, Retry::never, "no file handle was saved for the operation" OUR_FAULT},
    {NFS4ERR_LEASE_MOVED, "NFS4ERR_LEASE_MOVED", EREMOTE, Retry::elsewhere, "a file system that is in use moved to another server; connect to that one"},
    {NFS4ERR_ATTRNOTSUPP, "NFS4ERR_ATTRNOTSUPP", EOPNOTSUPP, Retry::otherwise, "the server's file system does not have one of the attributes to be set"},
    {NFS4ERR_NO_GRACE, "NFS4ERR_NO_GRACE", EIO, Retry::otherwise, "the server no longer lets clients reclaim what they had open; open the file again"},
    {NFS4ERR_RECLAIM_BAD, "NFS4ERR_RECLAIM_BAD", EIO, Retry::otherwise, "the server has no record that the file was open; open it again"},
    {NFS4ERR_RECLAIM_CONFLICT, "NFS4ERR_RECLAIM_CONFLICT", EIO, Retry::otherwise, "another client got hold of the file or lock while the server restarted; open it again"},
    {NFS4ERR_BADXDR, "NFS4ERR_BADXDR", EREMOTEIO, Retry::never, "the server could not decode the request" OUR_FAULT},
    {NFS4ERR_LOCKS_HELD, "NFS4ERR_LOCKS_HELD", EBUSY, Retry::when_released, "the file cannot be closed as it has locks; release them first"},
    {NFS4ERR_OPENMODE, "NFS4ERR_OPENMODE", EBADF, Retry::otherwise, "the file is not open for this kind of access; open it for reading or writing as needed"},
    {NFS4ERR_BADOWNER, "NFS4ERR_BADOWNER", EINVAL, Retry::never, "the server does not know this owner or group; check the id mapping domain on both sides, or give a number"},
    {NFS4ERR_BADCHAR, "NFS4ERR_BADCHAR", EINVAL, Retry::never, "a name has a character that the server's file system does not allow; use another name"},
    {NFS4ERR_BADNAME, "NFS4ERR_BADNAME", EINVAL, Retry::never, "the server does not accept this name; use another one"},
    {NFS4ERR_BAD_RANGE, "NFS4ERR_BAD_RANGE", EINVAL, Retry::never, "the server cannot lock this range of the file"},
    {NFS4ERR_LOCK_NOTSUPP, "NFS4ERR_LOCK_NOTSUPP", EOPNOTSUPP, Retry::otherwise, "the server cannot change a lock from shared to exclusive or back at once; unlock first"},
    {NFS4ERR_OP_ILLEGAL, "NFS4ERR_OP_ILLEGAL", EOPNOTSUPP, Retry::otherwise, "the server does not know this operation; a lower minor version (vers=4.1) does without it"},
    {NFS4ERR_DEADLOCK, "NFS4ERR_DEADLOCK", EDEADLK, Retry::never, "the lock would wait for a client that waits for this one; release locks and try again"},
    {NFS4ERR_FILE_OPEN, "NFS4ERR_FILE_OPEN", EBUSY, Retry::when_released, "the file is open on the server, which forbids this; close it there"},
    {NFS4ERR_ADMIN_REVOKED, "NFS4ERR_ADMIN_REVOKED", EIO, Retry::with_new_state, "the server's administrator revoked this open file or lock; open the file again"},
    {NFS4ERR_CB_PATH_DOWN, "NFS4ERR_CB_PATH_DOWN", EIO, Retry::otherwise, "the server cannot reach this client with its callbacks; reconnect"},
    {NFS4ERR_BADIOMODE, "NFS4ERR_BADIOMODE", EIO, Retry::never, "the server finds the layout's mode invalid" OUR_FAULT},
    {NFS4ERR_BADLAYOUT, "NFS4ERR_BADLAYOUT", EIO, Retry::never, "the server finds the layout invalid" OUR_FAULT},
    {NFS4ERR_BAD_SESSION_DIGEST, "NFS4ERR_BAD_SESSION_DIGEST", EIO, Retry::never, "the session's secret does not verify" OUR_FAULT},
    {NFS4ERR_BADSESSION, "NFS4ERR_BADSESSION", EIO, Retry::with_new_session, "the server does not know this session" RECOVERED},
    {NFS4ERR_BADSLOT, "NFS4ERR_BADSLOT", EIO, Retry::in_session, "the request used a session slot that the server does not have" OUR_FAULT},
    {NFS4ERR_COMPLETE_ALREADY, "NFS4ERR_COMPLETE_ALREADY", EIO, Retry::otherwise, "recovery was already declared complete" OUR_FAULT},
    {NFS4ERR_CONN_NOT_BOUND_TO_SESSION, "NFS4ERR_CONN_NOT_BOUND_TO_SESSION", EIO, Retry::in_session, "the connection does not belong to the session" RECOVERED},
    {NFS4ERR_DELEG_ALREADY_WANTED, "NFS4ERR_DELEG_ALREADY_WANTED", EIO, Retry::never, "a delegation was already requested" OUR_FAULT},
    {NFS4ERR_BACK_CHAN_BUSY, "NFS4ERR_BACK_CHAN_BUSY", EBUSY, Retry::later, "the server still waits for answers to its callbacks; try again"},
    {NFS4ERR_LAYOUTTRYLATER, "NFS4ERR_LAYOUTTRYLATER", EAGAIN, Retry::later, "the server gives no layout at the moment; try again later"},
    {NFS4ERR_LAYOUTUNAVAILABLE, "NFS4ERR_LAYOUTUNAVAILABLE", EOPNOTSUPP, Retry::otherwise, "the server gives no layout for this file"},
    {NFS4ERR_NOMATCHING_LAYOUT, "NFS4ERR_NOMATCHING_LAYOUT", EIO, Retry::never, "this client holds no such layout"},
    {NFS4ERR_RECALLCONFLICT, "NFS4ERR_RECALLCONFLICT", EAGAIN, Retry::later, "the server is recalling what was requested; try again"},
    {NFS4ERR_UNKNOWN_LAYOUTTYPE, "NFS4ERR_UNKNOWN_LAYOUTTYPE", EOPNOTSUPP, Retry::otherwise, "the server does not support this type of layout"},
    {NFS4ERR_SEQ_MISORDERED, "NFS4ERR_SEQ_MISORDERED", EIO, Retry::in_session, "a request came out of order on its session slot" OUR_FAULT},
    {NFS4ERR_SEQUENCE_POS, "NFS4ERR_SEQUENCE_POS", EIO, Retry::never, "SEQUENCE did not come first" OUR_FAULT},
    {NFS4ERR_REQ_TOO_BIG, "NFS4ERR_REQ_TOO_BIG", EMSGSIZE, Retry::otherwise, "the request is larger than the session allows; lower wsize="},
    {NFS4ERR_REP_TOO_BIG, "NFS4ERR_REP_TOO_BIG", EMSGSIZE, Retry::otherwise, "the reply is larger than the session allows; lower rsize="},
    {NFS4ERR_REP_TOO_BIG_TO_CACHE, "NFS4ERR_REP_TOO_BIG_TO_CACHE", EMSGSIZE, Retry::otherwise, "the reply is larger than what the session caches" OUR_FAULT},
    {NFS4ERR_RETRY_UNCACHED_REP, "NFS4ERR_RETRY_UNCACHED_REP", EIO, Retry::in_session, "the request was executed before the connection was lost, and the server did not keep the answer; check its effect before it is repeated"},
    {NFS4ERR_UNSAFE_COMPOUND, "NFS4ERR_UNSAFE_COMPOUND", EIO, Retry::otherwise, "the server considers the operations unsafe in one request" OUR_FAULT},
    {NFS4ERR_TOO_MANY_OPS, "NFS4ERR_TOO_MANY_OPS", E2BIG, Retry::otherwise, "the request has more operations than the session allows" OUR_FAULT},
    {NFS4ERR_OP_NOT_IN_SESSION, "NFS4ERR_OP_NOT_IN_SESSION", EIO, Retry::never, "the operation needs a session" OUR_FAULT},
    {NFS4ERR_HASH_ALG_UNSUPP, "NFS4ERR_HASH_ALG_UNSUPP", EOPNOTSUPP, Retry::otherwise, "the server does not support any of the hash algorithms offered"},
    {NFS4ERR_CLIENTID_BUSY, "NFS4ERR_CLIENTID_BUSY", EBUSY, Retry::when_released, "the client identifier still has sessions or open files; close these first"},
    {NFS4ERR_PNFS_IO_HOLE, "NFS4ERR_PNFS_IO_HOLE", EIO, Retry::otherwise, "the data server has a hole there; go through the metadata server"},
    {NFS4ERR_SEQ_FALSE_RETRY, "NFS4ERR_SEQ_FALSE_RETRY", EIO, Retry::in_session, "a request was mistaken for a retransmission of another one" OUR_FAULT},
    {NFS4ERR_BAD_HIGH_SLOT, "NFS4ERR_BAD_HIGH_SLOT", EIO, Retry::in_session, "the request named a highest slot that the session does not have" OUR_FAULT},
    {NFS4ERR_DEADSESSION, "NFS4ERR_DEADSESSION", EIO, Retry::with_new_session, "the server ended this session" RECOVERED},
    {NFS4ERR_ENCR_ALG_UNSUPP, "NFS4ERR_ENCR_ALG_UNSUPP", EOPNOTSUPP, Retry::otherwise, "the server does not support any of the encryption algorithms offered"},
    {NFS4ERR_PNFS_NO_LAYOUT, "NFS4ERR_PNFS_NO_LAYOUT", EIO, Retry::otherwise, "the data server found no layout for this file; go through the metadata server"},
    {NFS4ERR_NOT_ONLY_OP, "NFS4ERR_NOT_ONLY_OP", EIO, Retry::never, "the operation must be the only one in its request" OUR_FAULT},
    {NFS4ERR_WRONG_CRED, "NFS4ERR_WRONG_CRED", EPERM, Retry::otherwise, "the server requires the identity with which the state was created; use that one"},
    {NFS4ERR_WRONG_TYPE, "NFS4ERR_WRONG_TYPE", EINVAL, Retry::never, "the operation does not apply to this type of object"},
    {NFS4ERR_DIRDELEG_UNAVAIL, "NFS4ERR_DIRDELEG_UNAVAIL", EAGAIN, Retry::otherwise, "the server gives no delegation for this directory"},
    {NFS4ERR_REJECT_DELEG, "NFS4ERR_REJECT_DELEG", EIO, Retry::otherwise, "the delegation was rejected"},
    {NFS4ERR_RETURNCONFLICT, "NFS4ERR_RETURNCONFLICT", EAGAIN, Retry::later, "a layout is being returned; try again"},
    {NFS4ERR_DELEG_REVOKED, "NFS4ERR_DELEG_REVOKED", EIO, Retry::with_new_state, "the server revoked a delegation of this file; open the file again"},
    {NFS4ERR_PARTNER_NOTSUPP, "NFS4ERR_PARTNER_NOTSUPP", EOPNOTSUPP, Retry::otherwise, "one of the two servers cannot copy to or from the other; copy through this client"},
    {NFS4ERR_PARTNER_NO_AUTH, "NFS4ERR_PARTNER_NO_AUTH", EPERM, Retry::otherwise, "one of the two servers does not let the other copy; copy through this client"},
    {NFS4ERR_UNION_NOTSUPP, "NFS4ERR_UNION_NOTSUPP", EOPNOTSUPP, Retry::otherwise, "the server does not support this variant of the operation"},
    {NFS4ERR_OFFLOAD_DENIED, "NFS4ERR_OFFLOAD_DENIED", EPERM, Retry::otherwise, "the server declines to copy by itself; copy through this client"},
    {NFS4ERR_WRONG_LFS, "NFS4ERR_WRONG_LFS", EOPNOTSUPP, Retry::never, "the server does not know this format of security labels"},
    {NFS4ERR_BADLABEL, "NFS4ERR_BADLABEL", EINVAL, Retry::never, "the security label is invalid for the server"},
    {NFS4ERR_OFFLOAD_NO_REQS, "NFS4ERR_OFFLOAD_NO_REQS", EOPNOTSUPP, Retry::otherwise, "the server cannot copy in the way asked for; copy through this client"},
    {NFS4ERR_NOXATTR, "NFS4ERR_NOXATTR", ENODATA, Retry::never, "the file has no extended attribute of that name"},
    {NFS4ERR_XATTR2BIG, "NFS4ERR_XATTR2BIG", E2BIG, Retry::never, "the extended attribute is larger than the server's file system allows"},
});
// clang-format on
#undef OUR_FAULT
#undef RECOVERED

static_assert(std::ranges::is_sorted(kRows, std::ranges::less_equal{}, &StatusRow::status),
              "find_status() searches by halves, and each status has one row");

/// Whether the number is an enumerator of nfsstat4. For an enumerator the compiler writes its name, for other
/// numbers a cast.
template <nfsstat4 kStatus>
constexpr bool is_enumerator() {
  return std::string_view(__PRETTY_FUNCTION__).find("NFS4") != std::string_view::npos;
}
template <std::uint32_t kFirst, std::size_t... kOffsets>
constexpr std::size_t count_enumerators(std::index_sequence<kOffsets...> /*offsets*/) {
  return (std::size_t{is_enumerator<static_cast<nfsstat4>(kFirst + kOffsets)>()} + ...);
}
/// Number of enumerators. The specifications number statuses from 0, as errno does, and from 10001.
constexpr std::size_t kEnumerators = count_enumerators<0>(std::make_index_sequence<128>()) +
                                     count_enumerators<10000>(std::make_index_sequence<256>());
static_assert(kEnumerators == kRows.size(), "each status has a row, and says how to retry");
static_assert(std::ranges::all_of(kRows, [](const StatusRow& row) {
  return (row.status == NFS4_OK) == (row.retry == Retry::none);
}));

}  // namespace

const StatusRow* find_status(nfsstat4 status) {
  const auto at = std::ranges::lower_bound(kRows, status, {}, &StatusRow::status);
  return at != kRows.end() && at->status == status ? &*at : nullptr;
}

const char* to_string(nfsstat4 status) {
  const StatusRow* row = find_status(status);
  return row != nullptr ? row->name : "an unknown status";
}

int errno_of(nfsstat4 status) {
  const StatusRow* row = find_status(status);
  return row != nullptr ? row->errno_value : EIO;
}

Retry retry_of(nfsstat4 status) {
  const StatusRow* row = find_status(status);
  return row != nullptr ? row->retry : Retry::never;
}

Retry retry_of(const Error& error) {
  return error.kind() == ErrorKind::server ? retry_of(static_cast<nfsstat4>(error.status())) : Retry::none;
}

bool passes(Retry retry) {
  return retry == Retry::later || retry == Retry::some_times;
}

const char* explain(nfsstat4 status) {
  const StatusRow* row = find_status(status);
  return row != nullptr ? row->explanation : "the server answered with a status that NFSv4 does not have";
}

bool is_unsupported(nfsstat4 status) {
  switch (status) {
    case NFS4ERR_NOTSUPP:
    case NFS4ERR_OP_ILLEGAL:
    case NFS4ERR_UNION_NOTSUPP:
    case NFS4ERR_OFFLOAD_NO_REQS:
    case NFS4ERR_OFFLOAD_DENIED:
    case NFS4ERR_MINOR_VERS_MISMATCH:
      return true;
    default:
      return false;
  }
}

bool is_unsupported(const Error& error) {
  return error.kind() == ErrorKind::server && is_unsupported(static_cast<nfsstat4>(error.status()));
}

Error status_error(nfsstat4 status, std::string operation, std::string peer) {
  std::string message = std::string(explain(status)) + " (" + to_string(status);
  if (find_status(status) == nullptr) message += " " + std::to_string(static_cast<unsigned>(status));
  message += ")";
  return {ErrorKind::server,    errno_of(status), static_cast<unsigned>(status),
          std::move(operation), std::move(peer),  std::move(message)};
}

}  // namespace nfsrdma::nfs4
