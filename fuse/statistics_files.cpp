#include "fuse/statistics_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "fuse/mount.h"

namespace nfsrdma::fuse {
namespace {

StatisticsFiles& files_of(fuse_req_t raw) {
  return static_cast<Mount*>(fuse_req_userdata(raw))->statistics_files();
}

/// Wraps an operation of the table. `ours` answers a request for one of the files and returns true; else it
/// returns false.
template <auto Operation, auto ours, class Type = decltype(Operation)>
struct Diverted;
template <auto Operation, auto ours, class... Arguments>
struct Diverted<Operation, ours, void (*fuse_lowlevel_ops::*)(fuse_req_t, Arguments...)> {
  static void call(fuse_req_t raw, Arguments... arguments) {
    if (!ours(raw, arguments...)) (files_of(raw).behind().*Operation)(raw, arguments...);
  }
};
template <auto Operation, auto ours>
void divert(fuse_lowlevel_ops& table) {
  if (table.*Operation != nullptr) table.*Operation = Diverted<Operation, ours>::call;
}

constexpr bool is_ours(fuse_ino_t inode) {
  return StatisticsFiles::is_inode(inode);
}

bool refuse_if(bool refused, fuse_req_t raw, int code) {
  if (refused) fuse_reply_err(raw, code);
  return refused;
}

bool lookup(fuse_req_t raw, fuse_ino_t parent, const char* name) {
  const fuse_ino_t inode = StatisticsFiles::find(parent, name);
  if (inode == 0) return false;
  files_of(raw).look_up(raw, inode);
  return true;
}
bool getattr(fuse_req_t raw, fuse_ino_t inode, fuse_file_info*) {
  if (!is_ours(inode)) return false;
  files_of(raw).attributes(raw, inode);
  return true;
}
bool access(fuse_req_t raw, fuse_ino_t inode, int mask) {
  if (!is_ours(inode)) return false;
  files_of(raw).access(raw, inode, mask);
  return true;
}
bool open(fuse_req_t raw, fuse_ino_t inode, fuse_file_info* info) {
  if (!is_ours(inode)) return false;
  files_of(raw).open(raw, inode, *info);
  return true;
}
bool read(fuse_req_t raw, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info* info) {
  if (!is_ours(inode)) return false;
  files_of(raw).read(raw, size, offset, *info);
  return true;
}
bool write(fuse_req_t raw, fuse_ino_t inode, const char* data, std::size_t size, off_t offset,
           fuse_file_info*) {
  if (!is_ours(inode)) return false;
  files_of(raw).write(raw, inode, {data, size}, offset);
  return true;
}
bool setattr(fuse_req_t raw, fuse_ino_t inode, struct stat*, int which, fuse_file_info*) {
  if (!is_ours(inode)) return false;
  files_of(raw).set_attributes(raw, inode, which);
  return true;
}
bool release(fuse_req_t raw, fuse_ino_t inode, fuse_file_info* info) {
  if (!is_ours(inode)) return false;
  files_of(raw).release(raw, *info);
  return true;
}
/// Answers for the file system that is mounted.
bool statfs(fuse_req_t raw, fuse_ino_t inode) {
  if (!is_ours(inode)) return false;
  files_of(raw).behind().statfs(raw, fs::Inodes::kRoot);
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
  return refuse_if(StatisticsFiles::find(parent, name) != 0, raw, EPERM);
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

fuse_ino_t StatisticsFiles::find(fuse_ino_t directory, std::string_view name) {
  if (directory != fs::Inodes::kRoot) return 0;
  const auto* const found = std::ranges::find(kFiles, name, &File::name);
  return found == kFiles.end() ? 0 : inode_of(static_cast<std::size_t>(found - kFiles.begin()));
}

StatisticsFiles::StatisticsFiles(std::function<std::string(Show)> show, Control control)
    : show_(std::move(show)), control_(std::move(control)), owner_(::getuid()), group_(::getgid()) {}

fuse_lowlevel_ops StatisticsFiles::in_front_of(const fuse_lowlevel_ops& behind) {
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
  divert<&Table::write, fuse::write>(out);
  divert<&Table::setattr, fuse::setattr>(out);
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

bool StatisticsFiles::shows_itself(fuse_req_t raw) const {
  const uid_t caller = fuse_req_ctx(raw)->uid;
  return caller == owner_ || caller == 0;
}

/// Returns the attributes. The size is not known before the file is opened, so it is 0, as it is for files in
/// /proc.
struct stat StatisticsFiles::stat(fuse_ino_t inode) const {
  struct stat out{};
  out.st_ino = inode;
  out.st_mode = S_IFREG | (is_writable(inode) ? 0600U : 0400U);
  out.st_nlink = 1;
  out.st_uid = owner_;
  out.st_gid = group_;
  out.st_atim.tv_sec = out.st_mtim.tv_sec = out.st_ctim.tv_sec = std::time(nullptr);
  return out;
}

void StatisticsFiles::look_up(fuse_req_t raw, fuse_ino_t inode) const {
  if (!shows_itself(raw)) {
    fuse_reply_err(raw, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = inode;
  entry.generation = 1;  // it is the same file in every mount
  entry.attr = stat(inode);
  fuse_reply_entry(raw, &entry);
}

void StatisticsFiles::attributes(fuse_req_t raw, fuse_ino_t inode) const {
  const struct stat now = stat(inode);
  fuse_reply_attr(raw, &now, 0);
}

void StatisticsFiles::access(fuse_req_t raw, fuse_ino_t inode, int mask) const {
  const int possible = is_writable(inode) ? R_OK | W_OK : R_OK;
  fuse_reply_err(raw, (mask & ~possible) != 0 || !shows_itself(raw) ? EACCES : 0);
}

void StatisticsFiles::open(fuse_req_t raw, fuse_ino_t inode, const fuse_file_info& info) {
  const bool writes = (info.flags & O_ACCMODE) != O_RDONLY;
  if ((writes && !is_writable(inode)) || !shows_itself(raw)) {
    fuse_reply_err(raw, EACCES);
    return;
  }
  fuse_file_info reply = info;
  reply.fh = --last_number_;
  reply.direct_io = 1;
  open_.emplace(reply.fh, show_(kFiles[~inode].text));
  if (fuse_reply_open(raw, &reply) != 0) open_.erase(reply.fh);
}

void StatisticsFiles::read(fuse_req_t raw, std::size_t size, off_t offset, const fuse_file_info& info) const {
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

void StatisticsFiles::write(fuse_req_t raw, fuse_ino_t inode, std::string_view text, off_t offset) const {
  if (!is_writable(inode) || offset != 0) {
    fuse_reply_err(raw, is_writable(inode) ? EINVAL : EBADF);
    return;
  }
  if (const int code = control_(text); code != 0) {
    fuse_reply_err(raw, code);
    return;
  }
  fuse_reply_write(raw, text.size());
}

void StatisticsFiles::set_attributes(fuse_req_t raw, fuse_ino_t inode, int which) const {
  constexpr int kHarmless =
      FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW | FUSE_SET_ATTR_CTIME;
  if (!is_writable(inode) || (which & ~kHarmless) != 0 || !shows_itself(raw)) {
    fuse_reply_err(raw, EPERM);
    return;
  }
  attributes(raw, inode);
}

void StatisticsFiles::release(fuse_req_t raw, const fuse_file_info& info) {
  open_.erase(info.fh);
  fuse_reply_err(raw, 0);
}

}  // namespace nfsrdma::fuse
