#include "nfs3/convert.h"

#include <algorithm>
#include <string>

namespace nfsrdma::nfs3 {
namespace {

Time to_time(const nfstime3& time) {
  return {time.seconds, time.nseconds};
}

std::uint64_t number_of(const nfstime3& time) {
  return (std::uint64_t{time.seconds} << 30U) + time.nseconds;
}

set_time3 set_time(const std::optional<Time>& time, bool now) {
  set_time3 out;
  if (now) out.emplace<SET_TO_SERVER_TIME>();
  if (time) {
    // NFSv3 has seconds since 1970 as an unsigned number of 32 bits (RFC 1813 2.5).
    constexpr std::int64_t kMost = 0xffffffff;
    out.emplace<SET_TO_CLIENT_TIME>() = {
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(time->seconds, 0, kMost)), time->nanoseconds};
  }
  return out;
}

}  // namespace

nfs_fh3 to_wire(const FileHandle& handle) {
  nfs_fh3 out;
  out.length = std::min<std::uint32_t>(handle.length, NFS3_FHSIZE);
  std::copy_n(handle.bytes.begin(), out.length, out.bytes.begin());
  out.mark = handle.mark;
  return out;
}

FileHandle to_public(const nfs_fh3& handle) {
  FileHandle out;
  out.length = handle.length;
  std::copy_n(handle.bytes.begin(), handle.length, out.bytes.begin());
  out.mark = handle.mark;
  return out;
}

FileType to_public(ftype3 type) {
  switch (type) {
    case NF3REG:
      return FileType::regular;
    case NF3DIR:
      return FileType::directory;
    case NF3BLK:
      return FileType::block;
    case NF3CHR:
      return FileType::character;
    case NF3LNK:
      return FileType::symlink;
    case NF3SOCK:
      return FileType::socket;
    case NF3FIFO:
      return FileType::fifo;
  }
  return FileType::unknown;
}

Attributes to_public(const fattr3& wire) {
  constexpr std::uint32_t kPermissions = 07777;
  // Mixes the bits of mtime and size before they are added to the ctime.
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  Attributes out;
  out.type = to_public(wire.type);
  out.mode = wire.mode & kPermissions;
  out.links = wire.nlink;
  out.owner = std::to_string(wire.uid);
  out.group = std::to_string(wire.gid);
  out.uid = wire.uid;
  out.gid = wire.gid;
  out.size = wire.size;
  out.space_used = wire.used;
  out.file_id = wire.fileid;
  out.change = number_of(wire.ctime) + kOdd * (number_of(wire.mtime) + kOdd * wire.size);
  out.filesystem_major = wire.fsid;
  out.device_major = wire.rdev.specdata1;
  out.device_minor = wire.rdev.specdata2;
  out.accessed = to_time(wire.atime);
  out.modified = to_time(wire.mtime);
  out.changed = to_time(wire.ctime);
  return out;
}

std::optional<Attributes> to_public(const post_op_attr& wire) {
  if (!wire) return std::nullopt;
  return to_public(*wire);
}

sattr3 to_wire(const SetAttributes& changes) {
  sattr3 out;
  out.mode = changes.mode;
  out.uid = changes.uid;
  out.gid = changes.gid;
  out.size = changes.size;
  out.atime = set_time(changes.accessed, changes.accessed_now);
  out.mtime = set_time(changes.modified, changes.modified_now);
  return out;
}

sattr3 with_mode(std::uint32_t mode) {
  sattr3 out;
  out.mode = mode & 07777U;
  return out;
}

}  // namespace nfsrdma::nfs3
