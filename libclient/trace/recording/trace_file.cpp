#include "trace/recording/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace nfsrdma::trace {
namespace {

constexpr mode_t kMode = 0600;

Error local_error(int errno_value, const std::string& name, const std::string& text) {
  return {ErrorKind::local, errno_value, "trace", name, text};
}
Error refused(const std::string& name, const std::string& why) {
  return local_error(EEXIST, name, why + "; name another file, or remove this one");
}

bool is_pcapng_or_empty(int fd) {
  std::array<std::byte, 4> begin{};
  const ssize_t got = ::pread(fd, begin.data(), begin.size(), 0);
  return got == 0 || (got == static_cast<ssize_t>(begin.size()) && begins_as_pcapng(begin));
}

}  // namespace

/// Removes a file that exists, if it may be replaced.
Status TraceFile::make_way() {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const async::Descriptor old(
      ::openat(directory_.get(), base_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!old.is_valid() && errno == ENOENT) return {};
  if (!old.is_valid() && errno == ELOOP) return refused(name_, "the file is a symbolic link");
  if (!old.is_valid()) return local_error(errno, name_, std::strerror(errno));
  struct stat facts{};
  if (::fstat(old.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || !is_pcapng_or_empty(old.get()))
    return refused(name_, "the file exists, and is not a trace");
  if (::flock(old.get(), LOCK_EX | LOCK_NB) != 0)
    return refused(name_, "another process is writing a trace to the file");
  if (::unlinkat(directory_.get(), base_.c_str(), 0) != 0 && errno != ENOENT) {
    return local_error(errno, name_,
                       std::string("the older trace cannot be replaced: ") + std::strerror(errno));
  }
  return {};
}

Status TraceFile::open(const std::string& name, std::uint64_t most) {
  name_ = name;
  most_ = most;
  const std::size_t slash = name.rfind('/');
  base_ = name.substr(slash + 1);
  const std::string directory = name.substr(0, slash == 0 ? 1 : slash);
  directory_ = async::Descriptor(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory_.is_valid()) return local_error(errno, name_, std::strerror(errno));
  if (auto done = make_way(); !done) return done;
  return create();
}

Status TraceFile::create() {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC;
  descriptor_ = async::Descriptor(::openat(directory_.get(), base_.c_str(), kNew, kMode));
  size_ = 0;
  if (!is_open()) return local_error(errno, name_, std::string("cannot be made: ") + std::strerror(errno));
  // The lock is for make_way() of another process. Some file systems have no locks, so an error is ignored.
  (void)::flock(descriptor_.get(), LOCK_EX | LOCK_NB);
  return {};
}

Status TraceFile::rotate() {
  if (!is_open()) return local_error(EBADF, name_, "the file is not open");
  const std::string older = base_ + ".1";
  const int done = ::renameat(directory_.get(), base_.c_str(), directory_.get(), older.c_str());
  if (done != 0 && errno != ENOENT) return end_with(errno);
  close();
  return create();
}

Status TraceFile::write(ConstBytes blocks) {
  const std::uint64_t before = size_;
  while (!blocks.empty()) {
    const ssize_t written = ::write(descriptor_.get(), blocks.data(), blocks.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int code = written == 0 ? EIO : errno;
      // If this fails, too, the file ends in a part of a block, which readers tolerate.
      [[maybe_unused]] const int cut = ::ftruncate(descriptor_.get(), static_cast<off_t>(before));
      size_ = before;
      return end_with(code);
    }
    size_ += static_cast<std::uint64_t>(written);
    blocks = blocks.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status TraceFile::end_with(int errno_value) {
  close();
  return local_error(
      errno_value, name_,
      std::string("the trace ends here: ") + std::strerror(errno_value) + "; the work goes on without it");
}

}  // namespace nfsrdma::trace
