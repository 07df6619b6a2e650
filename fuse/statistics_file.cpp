#include "fuse/statistics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "fuse/mount.h"

namespace nfsrdma::fuse {
namespace {

StatisticsFile& file_of(fuse_req_t raw) {
  return static_cast<Mount*>(fuse_req_userdata(raw))->statistics_file();
}

/// Wraps an operation of the table. `ours` answers a request for this file and returns true; else it returns
/// false.
template <auto Operation, auto ours, class Type = decltype(Operation)>
struct Diverted;
template <auto Operation, auto ours, class... Arguments>
struct Diverted<Operation, ours, void (*fuse_lowlevel_ops::*)(fuse_req_t, Arguments...)> {
  static void call(fuse_req_t raw, Arguments... arguments) {
    if (!ours(raw, arguments...)) (file_of(raw).behind().*Operation)(raw, arguments...);
  }
};
template <auto Operation, auto ours>
void divert(fuse_lowlevel_ops& table) {
  if (table.*Operation != nullptr) table.*Operation = Diverted<Operation, ours>::call;
}

constexpr bool is_ours(fuse_ino_t inode) {
  return inode == StatisticsFile::kInode;
}

bool refuse_if(bool refused, fuse_req_t raw, int code) {
  if (refused) fuse_reply_err(raw, code);
  return refused;
}

bool lookup(fuse_req_t raw, fuse_ino_t parent, const char* name) {
  if (!StatisticsFile::is_name(parent, name)) return false;
  file_of(raw).look_up(raw);
  return true;
}
bool getattr(fuse_req_t raw, fuse_ino_t inode, fuse_file_info*) {
  if (!is_ours(inode)) return false;
  file_of(raw).attributes(raw);
  return true;
}
bool access(fuse_req_t raw, fuse_ino_t inode, int mask) {
  if (!is_ours(inode)) return false;
  file_of(raw).access(raw, mask);
  return true;
}
bool open(fuse_req_t raw, fuse_ino_t inode, fuse_file_info* info) {
  if (!is_ours(inode)) return false;
  file_of(raw).open(raw, *info);
  return true;
}
bool read(fuse_req_t raw, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info* info) {
  if (!is_ours(inode)) return false;
  file_of(raw).read(raw, size, offset, *info);
  return true;
}
bool release(fuse_req_t raw, fuse_ino_t inode, fuse_file_info* info) {
  if (!is_ours(inode)) return false;
  file_of(raw).release(raw, *info);
  return true;
}
/// Answers for the file system that is mounted.
bool statfs(fuse_req_t raw, fuse_ino_t inode) {
  if (!is_ours(inode)) return false;
  file_of(raw).behind().statfs(raw, fs::Inodes::kRoot);
  return true;
}

/// Answers operations for which there is nothing to do.
constexpr auto done = [](fuse_req_t raw, fuse_ino_t inode, auto...) {
  return refuse_if(is_ours(inode), raw, 0);
};
constexpr auto not_permitted = [](fuse_req_t raw, fuse_ino_t inode, auto...) {
  return refuse_if(is_ours(inode), raw, EPERM);
};
/// Does not answer ENOSYS, because the kernel would then not ask for any other file either.
constexpr auto not_supported = [](fuse_req_t raw, fuse_ino_t inode, auto...) {
  return refuse_if(is_ours(inode), raw, EOPNOTSUPP);
};
/// Refuses to make, rename or remove the name, so that an object of this name on the server stays out of
/// reach.
constexpr auto name_is_taken = [](fuse_req_t raw, fuse_ino_t parent, const char* name, auto...) {
  return refuse_if(StatisticsFile::is_name(parent, name), raw, EPERM);
};
bool symlink(fuse_req_t raw, const char*, fuse_ino_t parent, const char* name) {
  return name_is_taken(raw, parent, name);
}
bool link(fuse_req_t raw, fuse_ino_t inode, fuse_ino_t parent, const char* name) {
  return not_permitted(raw, inode) || name_is_taken(raw, parent, name);
}
bool rename(fuse_req_t raw, fuse_ino_t from, const char* name, fuse_ino_t to, const char* new_name,
            unsigned) {
  return name_is_taken(raw, from, name) || name_is_taken(raw, to, new_name);
}

}  // namespace

StatisticsFile::StatisticsFile(std::function<std::string()> text)
    : text_(std::move(text)), owner_(::getuid()), group_(::getgid()) {}

fuse_lowlevel_ops StatisticsFile::in_front_of(const fuse_lowlevel_ops& behind) {
  using Table = fuse_lowlevel_ops;
  behind_ = behind;
  Table out = behind;
  divert<&Table::lookup, fuse::lookup>(out);
  divert<&Table::getattr, fuse::getattr>(out);
  divert<&Table::access, fuse::access>(out);
  divert<&Table::open, fuse::open>(out);
  divert<&Table::read, fuse::read>(out);
  divert<&Table::release, fuse::release>(out);
  divert<&Table::statfs, fuse::statfs>(out);
  divert<&Table::flush, done>(out);
  divert<&Table::fsync, done>(out);
  divert<&Table::setattr, not_permitted>(out);
  divert<&Table::getxattr, not_supported>(out);
  divert<&Table::setxattr, not_supported>(out);
  divert<&Table::removexattr, not_supported>(out);
  divert<&Table::listxattr, not_supported>(out);
  divert<&Table::create, name_is_taken>(out);
  divert<&Table::mknod, name_is_taken>(out);
  divert<&Table::mkdir, name_is_taken>(out);
  divert<&Table::unlink, name_is_taken>(out);
  divert<&Table::rmdir, name_is_taken>(out);
  divert<&Table::symlink, fuse::symlink>(out);
  divert<&Table::link, fuse::link>(out);
  divert<&Table::rename, fuse::rename>(out);
  return out;
}

bool StatisticsFile::shows_itself(fuse_req_t raw) const {
  const uid_t caller = fuse_req_ctx(raw)->uid;
  return caller == owner_ || caller == 0;
}

/// Returns the attributes. The size is not known before the file is opened, so it is 0, as it is for files in
/// /proc.
struct stat StatisticsFile::stat() const {
  struct stat out{};
  out.st_ino = kInode;
  out.st_mode = S_IFREG | 0400U;
  out.st_nlink = 1;
  out.st_uid = owner_;
  out.st_gid = group_;
  out.st_atim.tv_sec = out.st_mtim.tv_sec = out.st_ctim.tv_sec = std::time(nullptr);
  return out;
}

void StatisticsFile::look_up(fuse_req_t raw) const {
  if (!shows_itself(raw)) {
    fuse_reply_err(raw, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = kInode;
  entry.generation = 1;  // it is the same file in every mount
  entry.attr = stat();
  fuse_reply_entry(raw, &entry);
}

void StatisticsFile::attributes(fuse_req_t raw) const {
  const struct stat now = stat();
  fuse_reply_attr(raw, &now, 0);
}

void StatisticsFile::access(fuse_req_t raw, int mask) const {
  fuse_reply_err(raw, (mask & ~R_OK) != 0 || !shows_itself(raw) ? EACCES : 0);
}

void StatisticsFile::open(fuse_req_t raw, const fuse_file_info& info) {
  if ((info.flags & O_ACCMODE) != O_RDONLY || !shows_itself(raw)) {
    fuse_reply_err(raw, EACCES);
    return;
  }
  fuse_file_info reply = info;
  reply.fh = --last_number_;
  reply.direct_io = 1;
  open_.emplace(reply.fh, text_());
  if (fuse_reply_open(raw, &reply) != 0) open_.erase(reply.fh);
}

void StatisticsFile::read(fuse_req_t raw, std::size_t size, off_t offset, const fuse_file_info& info) const {
  const auto at = open_.find(info.fh);
  if (at == open_.end()) {
    fuse_reply_err(raw, EBADF);
    return;
  }
  const std::string_view all = at->second;
  const auto from = std::min<std::uint64_t>(static_cast<std::uint64_t>(offset), all.size());
  const std::string_view part = all.substr(from, size);
  fuse_reply_buf(raw, part.data(), part.size());
}

void StatisticsFile::release(fuse_req_t raw, const fuse_file_info& info) {
  open_.erase(info.fh);
  fuse_reply_err(raw, 0);
}

}  // namespace nfsrdma::fuse
