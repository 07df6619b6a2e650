// See local.h.
#include "cli/local.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "cli/commands.h"
#include "cli/part_file.h"
#include "cli/report.h"
#include "cli/servers.h"

namespace nfsrdma::cli {
namespace {

constexpr std::size_t block = 4096;             // the unit of holes
constexpr std::uint64_t flush_step = 8U << 20;  // bytes between two hints to start writing to the disk
constexpr std::string_view temporary_suffix = ".nfsrdma-XXXXXX";

bool is_null_device(int fd) {
  struct stat facts{};
  return fstat(fd, &facts) == 0 && S_ISCHR(facts.st_mode) && facts.st_rdev == makedev(1, 3);
}

/// Returns true if a call that failed must be tried again.
bool again(const StopFlag& stop) {
  return errno == EINTR && !stop;
}

bool all_zero(std::span<const std::byte> data) {
  if (data.empty() || data[0] != std::byte{0}) return data.empty();
  return std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0;
}

/// Returns the path that a symbolic link leads to, for a link whose file does not exist.
std::string followed(std::string path) {
  constexpr int most = 40;  // as Linux's path walk
  std::array<char, PATH_MAX> text{};
  for (int i = 0; i < most; ++i) {
    const ssize_t length = readlink(path.c_str(), text.data(), text.size());
    if (length < 0) break;
    const std::string_view next(text.data(), static_cast<std::size_t>(length));
    path = next.starts_with('/') ? std::string(next) : join(directory_name(path), next);
  }
  return path;
}

/// Returns the path without symbolic links. A rename to a link would replace the link, not the file that it leads to.
std::string real_path(const std::string& path) {
  std::array<char, PATH_MAX> real{};
  return realpath(path.c_str(), real.data()) != nullptr ? real.data() : followed(path);
}

}  // namespace

StreamSink::StreamSink(int fd) : fd_(fd), immediate_(is_null_device(fd)) {}

int StreamSink::run(Chunk& chunk, const StopFlag& stop) {
  std::span<const std::byte> rest = chunk.memory.first(chunk.length);
  while (!rest.empty()) {
    const ssize_t count = ::write(fd_, rest.data(), rest.size());
    if (count >= 0) {
      rest = rest.subspan(static_cast<std::size_t>(count));
    } else if (!again(stop)) {
      return errno;
    }
  }
  return 0;
}

int FileSink::write_at(std::span<const std::byte> data, std::uint64_t offset, const StopFlag& stop) const {
  while (!data.empty()) {
    const ssize_t count = pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
    if (count >= 0) {
      data = data.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    } else if (!again(stop)) {
      return errno;
    }
  }
  return 0;
}

int FileSink::write_without_zeros(std::span<const std::byte> data, std::uint64_t offset,
                                  const StopFlag& stop) const {
  while (!data.empty()) {
    std::size_t kept = 0;  // a run of blocks that are not all zero
    std::size_t length = 0;
    while (kept < data.size()) {
      length = std::min(block, data.size() - kept);
      if (all_zero(data.subspan(kept, length))) break;
      kept += length;
      length = 0;
    }
    if (const int fault = write_at(data.first(kept), offset, stop); fault != 0) return fault;
    data = data.subspan(kept + length);
    offset += kept + length;
  }
  return 0;
}

int FileSink::run(Chunk& chunk, const StopFlag& stop) {
  const std::span<const std::byte> data = chunk.memory.first(chunk.length);
  const int fault =
      chunk.punch ? write_without_zeros(data, chunk.offset, stop) : write_at(data, chunk.offset, stop);
  if (fault != 0) return fault;
  pending_ += chunk.length;
  if (pending_ >= flush_step) {
    const std::uint64_t end = chunk.offset + chunk.length;
    // The call is only a hint: an error here occurs again, and is reported, in fsync.
    sync_file_range(fd_, static_cast<off_t>(flush_from_), static_cast<off_t>(end - flush_from_),
                    SYNC_FILE_RANGE_WRITE);
    flush_from_ = end;
    pending_ = 0;
  }
  return 0;
}

bool Source::find_data(int& fault) {
  if (dense_tail_) return true;
  const off_t data = lseek(fd_, static_cast<off_t>(position_), SEEK_DATA);
  if (data < 0 && errno == ENXIO) return false;  // a hole up to the end, or past it
  const off_t end = data < 0 ? -1 : lseek(fd_, data, SEEK_HOLE);
  if (end < 0 && errno == EINVAL) {  // the file system reports no holes: all of the file is data
    dense_tail_ = true;
    return true;
  }
  if (end < 0) {
    fault = errno;
    return false;
  }
  position_ = static_cast<std::uint64_t>(data);
  data_end_ = static_cast<std::uint64_t>(end);
  return true;
}

int Source::run(Chunk& chunk, const StopFlag& stop) {
  chunk.length = 0;
  if (ended_) return 0;
  int fault = 0;
  if (sparse_ && position_ >= data_end_ && !find_data(fault)) return fault;
  if (position_ >= end_) return 0;
  const std::uint64_t extent = std::min(end_, sparse_ && !dense_tail_ ? data_end_ : UINT64_MAX) - position_;
  const std::size_t room = static_cast<std::size_t>(std::min<std::uint64_t>(extent, chunk.memory.size()));
  chunk.offset = position_;
  while (chunk.length < room) {
    const std::span<std::byte> rest = chunk.memory.subspan(chunk.length, room - chunk.length);
    const ssize_t count = regular_ ? pread(fd_, rest.data(), rest.size(), static_cast<off_t>(position_))
                                   : ::read(fd_, rest.data(), rest.size());
    if (count < 0 && again(stop)) continue;
    if (count < 0) return errno;
    if (count == 0) {
      // The file ends here, even if SEEK_HOLE has promised more, because it was truncated meanwhile.
      ended_ = true;
      break;
    }
    chunk.length += static_cast<std::size_t>(count);
    position_ += static_cast<std::uint64_t>(count);
  }
  return 0;
}

std::uint32_t creation_mask() {
  // The umask can be read only by setting it.
  static const std::uint32_t mask = [] {
    const mode_t current = umask(0);
    umask(current);
    return static_cast<std::uint32_t>(current);
  }();
  return mask;
}

bool is_directory(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

std::string temporary_template(std::string_view name, std::size_t limit) {
  const std::size_t room = limit - 1 - temporary_suffix.size();
  return "." + std::string(name.substr(0, room)) + std::string(temporary_suffix);
}

Result<TemporaryFile> TemporaryFile::create(const std::string& path) {
  TemporaryFile out;
  out.path_ = real_path(path);
  const std::string_view directory = directory_name(out.path_);
  std::string name = join(directory, temporary_template(base_name(out.path_)));
  out.fd_ = Descriptor(mkostemp(name.data(), O_CLOEXEC));
  if (out.fd_.get() < 0) return local_error(errno, "create a temporary file next to it", path);
  out.name_ = std::move(name);
  return out;
}

Result<TemporaryFile> TemporaryFile::open_part(const std::string& path, const PartOf& of) {
  TemporaryFile out;
  out.path_ = real_path(path);
  const std::string directory(directory_name(out.path_));
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return local_error(errno, "open", directory);
  auto part = open_local_part(opened.get(), std::string(base_name(out.path_)), of, path);
  if (!part) return part.error();
  out.name_ = join(directory, part->name);
  out.fd_ = std::move(part->fd);
  out.begin_ = part->begin;
  out.is_part_ = true;
  return out;
}

TemporaryFile::~TemporaryFile() {
  if (!name_.empty() && !is_part_) unlink(name_.c_str());
}

Status TemporaryFile::commit(const Finished& finished) {
  if (ftruncate(fd(), static_cast<off_t>(finished.size)) != 0)
    return local_error(errno, "set the size", path_);
  if (finished.exact) {
    const int fault = apply_traits(fd(), *finished.exact);
    if (fault != 0) return local_error(fault, "set mode and times", path_);
  } else if (fchmod(fd(), finished.mode) != 0) {
    return local_error(errno, "set the mode", path_);
  }
  if (fsync(fd()) != 0) return local_error(errno, "fsync", path_);
  if (const int fault = fd_.close(); fault != 0) return local_error(fault, "close", path_);
  if (rename(name_.c_str(), path_.c_str()) != 0) return local_error(errno, "rename to the final name", path_);
  name_.clear();
  return {};
}

}  // namespace nfsrdma::cli
