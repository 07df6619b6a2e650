#include "wire/nfs3/status.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace nfsrdma::nfs3 {
namespace {

// clang-format off
constexpr auto kRows = std::to_array<StatusRow>({
    {NFS3_OK, "NFS3_OK", 0, "success"},
    {NFS3ERR_PERM, "NFS3ERR_PERM", EPERM, "the server allows this to the owner or to root only; use such an identity (uid=), or see whether the export squashes root"},
    {NFS3ERR_NOENT, "NFS3ERR_NOENT", ENOENT, "there is no such file or directory"},
    {NFS3ERR_IO, "NFS3ERR_IO", EIO, "the server's storage failed; see its log"},
    {NFS3ERR_NXIO, "NFS3ERR_NXIO", ENXIO, "the server has no such device"},
    {NFS3ERR_ACCES, "NFS3ERR_ACCES", EACCES, "this user may not do that on the server; check permissions, the identity used (uid=, gid=) and the export's options"},
    {NFS3ERR_EXIST, "NFS3ERR_EXIST", EEXIST, "the name is taken already"},
    {NFS3ERR_XDEV, "NFS3ERR_XDEV", EXDEV, "the names are on different file systems of the server; copy and remove instead"},
    {NFS3ERR_NODEV, "NFS3ERR_NODEV", ENODEV, "the server has no such device"},
    {NFS3ERR_NOTDIR, "NFS3ERR_NOTDIR", ENOTDIR, "a part of the path is not a directory"},
    {NFS3ERR_ISDIR, "NFS3ERR_ISDIR", EISDIR, "this is a directory"},
    {NFS3ERR_INVAL, "NFS3ERR_INVAL", EINVAL, "the server finds an argument invalid for this object"},
    {NFS3ERR_FBIG, "NFS3ERR_FBIG", EFBIG, "the file would be larger than the server's file system takes"},
    {NFS3ERR_NOSPC, "NFS3ERR_NOSPC", ENOSPC, "no space is left on the server's file system"},
    {NFS3ERR_ROFS, "NFS3ERR_ROFS", EROFS, "the server exports or mounts this file system read-only"},
    {NFS3ERR_MLINK, "NFS3ERR_MLINK", EMLINK, "the file cannot have another hard link on the server"},
    {NFS3ERR_NAMETOOLONG, "NFS3ERR_NAMETOOLONG", ENAMETOOLONG, "the name is longer than the server's file system allows; shorten it"},
    {NFS3ERR_NOTEMPTY, "NFS3ERR_NOTEMPTY", ENOTEMPTY, "the directory is not empty"},
    {NFS3ERR_DQUOT, "NFS3ERR_DQUOT", EDQUOT, "a quota on the server is used up; free some space or have it raised"},
    {NFS3ERR_STALE, "NFS3ERR_STALE", ESTALE, "the file is gone from the server, or its file system is not exported any more; look it up again"},
    {NFS3ERR_REMOTE, "NFS3ERR_REMOTE", EREMOTE, "the object is on another server; connect to that one"},
    {NFS3ERR_BADHANDLE, "NFS3ERR_BADHANDLE", ESTALE, "the server does not recognize its own file handle; look the path up again"},
    {NFS3ERR_NOT_SYNC, "NFS3ERR_NOT_SYNC", EAGAIN, "the file changed before its attributes could be set; try again"},
    {NFS3ERR_BAD_COOKIE, "NFS3ERR_BAD_COOKIE", EIO, "the directory changed while it was read; list it again"},
    {NFS3ERR_NOTSUPP, "NFS3ERR_NOTSUPP", EOPNOTSUPP, "the server or its file system does not support this"},
    {NFS3ERR_TOOSMALL, "NFS3ERR_TOOSMALL", EIO, "the server's answer does not fit into the size that was asked for; please report this with a capture of the traffic"},
    {NFS3ERR_SERVERFAULT, "NFS3ERR_SERVERFAULT", EREMOTEIO, "the server failed with an error that NFS has no code for; see its log"},
    {NFS3ERR_BADTYPE, "NFS3ERR_BADTYPE", EINVAL, "the server cannot make objects of this type"},
    {NFS3ERR_JUKEBOX, "NFS3ERR_JUKEBOX", EAGAIN, "the server was still busy with this file at the timeout, as happens if it is fetched from tape; try again"},
});
// clang-format on

static_assert(std::ranges::is_sorted(kRows, {}, &StatusRow::status), "find_status() searches by halves");

}  // namespace

const StatusRow* find_status(nfsstat3 status) {
  const auto at = std::ranges::lower_bound(kRows, status, {}, &StatusRow::status);
  return at != kRows.end() && at->status == status ? &*at : nullptr;
}

const char* to_string(nfsstat3 status) {
  const StatusRow* row = find_status(status);
  return row != nullptr ? row->name : "an unknown status";
}

Error status_error(nfsstat3 status, std::string operation, std::string peer) {
  const StatusRow* row = find_status(status);
  const auto number = static_cast<unsigned>(status);
  std::string message = row != nullptr ? std::string(row->explanation) + " (" + row->name + ")"
                                       : "the server answered with a status that NFSv3 does not have (" +
                                             std::to_string(number) + ")";
  return {ErrorKind::server,
          row != nullptr ? row->errno_value : EIO,
          number,
          std::move(operation),
          std::move(peer),
          std::move(message)};
}

}  // namespace nfsrdma::nfs3
