#include "fuse/kernel_stat.h"

#include <sys/sysmacros.h>

#include "ids/id_names.h"

namespace nfsrdma::fuse {
namespace {

constexpr std::uint32_t kNobody = 65534;

timespec to_timespec(const Time& time) {
  timespec out{};
  out.tv_sec = time.seconds;
  out.tv_nsec = static_cast<long>(time.nanoseconds);
  return out;
}

}  // namespace

mode_t type_bits(FileType type) {
  switch (type) {
    case FileType::regular:
      return S_IFREG;
    case FileType::directory:
      return S_IFDIR;
    case FileType::symlink:
      return S_IFLNK;
    case FileType::block:
      return S_IFBLK;
    case FileType::character:
      return S_IFCHR;
    case FileType::fifo:
      return S_IFIFO;
    case FileType::socket:
      return S_IFSOCK;
    case FileType::unknown:
      break;
  }
  return 0;
}

struct stat to_stat(const Attributes& from) {
  struct stat out{};
  out.st_ino = from.file_id;
  out.st_mode = type_bits(from.type) | (from.mode & 07777U);
  out.st_nlink = from.links;
  const ids::IdNames& names = ids::IdNames::system();
  out.st_uid = (from.uid ? from.uid : names.known(ids::Kind::user, from.owner)).value_or(kNobody);
  out.st_gid = (from.gid ? from.gid : names.known(ids::Kind::group, from.group)).value_or(kNobody);
  out.st_rdev = makedev(from.device_major, from.device_minor);
  out.st_size = static_cast<off_t>(from.size);
  out.st_blksize = 1 << 20;
  out.st_blocks = static_cast<blkcnt_t>((from.space_used + 511) / 512);
  out.st_atim = to_timespec(from.accessed);
  out.st_mtim = to_timespec(from.modified);
  out.st_ctim = to_timespec(from.changed);
  return out;
}

}  // namespace nfsrdma::fuse
