#include "cli/local_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "cli/commands.h"

namespace nfsrdma::cli {
namespace {

constexpr int as_directory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr int most_tries = 100;  // of temporary names

/// Returns another name each time, which may be in use nevertheless.
std::string temporary_beside(const std::string& name) {
  static std::atomic<unsigned> last;
  return temporary_template(name).substr(0, 240) + std::to_string(::getpid()) + std::to_string(++last);
}

}  // namespace

Result<LocalDirectory::Ref> LocalDirectory::open(const std::string& path) {
  Descriptor fd(::open(path.c_str(), as_directory));
  if (fd.get() < 0) return local_error(errno, "open", path);
  return Ref(new LocalDirectory(std::move(fd), path, nullptr));
}

Result<LocalDirectory::Ref> LocalDirectory::open_in(const Ref& above, const std::string& name) {
  Descriptor fd(::openat(above->fd(), name.c_str(), as_directory | O_NOFOLLOW));
  if (fd.get() < 0) return local_error(errno, "open", above->path(name));
  return Ref(new LocalDirectory(std::move(fd), above->path(name), above));
}

Result<LocalDirectory::Ref> LocalDirectory::make_in(const Ref& above, const std::string& name,
                                                    const Attributes& traits, bool exact) {
  // Only its owner may use the directory until it is complete.
  const bool made = ::mkdirat(above->fd(), name.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return local_error(errno, "mkdir", above->path(name));
  Result<Ref> out = open_in(above, name);
  if (!out) return out;
  LocalDirectory& directory = **out;
  if (exact) {
    directory.exact_ = traits_of(traits);
  } else if (made) {
    directory.mode_ = traits.mode & kPermissions & ~creation_mask();
  }
  return out;
}

LocalDirectory::~LocalDirectory() {
  // Errors are ignored, because the tree itself is complete.
  if (mode_) (void)::fchmod(fd_.get(), *mode_);
  if (!exact_) return;
  // A directory that was there may let in users whom its new owner would not.
  (void)::fchmod(fd_.get(), 0700);
  (void)apply_traits(fd_.get(), *exact_);
}

Result<LocalDirectory::New> LocalDirectory::create(const std::string& name, std::uint32_t mode) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  New out{Descriptor(::openat(fd(), name.c_str(), flags, mode & kPermissions)), name, name, {}};
  if (out.fd.get() >= 0) return out;
  if (errno != EEXIST) return local_error(errno, "open", path(name));
  struct stat facts{};
  const bool there = ::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && S_ISDIR(facts.st_mode)) return local_error(EISDIR, "get", path(name));
  if (there && S_ISREG(facts.st_mode)) out.kept_mode = facts.st_mode & kPermissions;
  int fault = EEXIST;
  for (int tries = 0; tries < most_tries && fault == EEXIST; ++tries) {
    out.temporary = temporary_beside(name);
    const int made =
        ::openat(fd(), out.temporary.c_str(), flags, mode & out.kept_mode.value_or(kPermissions));
    if (made >= 0) {
      out.fd = Descriptor(made);
      return out;
    }
    fault = errno;
  }
  return local_error(fault, "create a temporary file next to it", path(name));
}

Status LocalDirectory::finish(New& file, const Attributes& traits, bool exact) {
  int fault = 0;
  if (exact) {
    fault = apply_traits(file.fd.get(), traits_of(traits));
  } else if (file.kept_mode && ::fchmod(file.fd.get(), *file.kept_mode) != 0) {
    fault = errno;  // the mode is set because the umask has cut it
  }
  if (const int closing = file.fd.close(); fault == 0) fault = closing;
  if (fault == 0 && file.temporary != file.name &&
      ::renameat(fd(), file.temporary.c_str(), fd(), file.name.c_str()) != 0) {
    fault = errno;
  }
  if (fault == 0) return {};
  (void)::unlinkat(fd(), file.temporary.c_str(), 0);
  return local_error(fault, "write", path(file.name));
}

void LocalDirectory::discard(New& file) {
  (void)::unlinkat(fd(), file.temporary.c_str(), 0);
}

Status LocalDirectory::symlink(const std::string& text, const std::string& name) {
  if (::symlinkat(text.c_str(), fd(), name.c_str()) == 0) return {};
  if (errno != EEXIST) return local_error(errno, "symlink", path(name));
  struct stat facts{};
  if (::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(facts.st_mode))
    return local_error(EISDIR, "symlink", path(name));
  std::string temporary;
  int fault = EEXIST;
  for (int tries = 0; tries < most_tries && fault == EEXIST; ++tries) {
    temporary = temporary_beside(name);
    fault = ::symlinkat(text.c_str(), fd(), temporary.c_str()) == 0 ? 0 : errno;
  }
  if (fault == 0 && ::renameat(fd(), temporary.c_str(), fd(), name.c_str()) != 0) {
    fault = errno;
    (void)::unlinkat(fd(), temporary.c_str(), 0);
  }
  return fault == 0 ? Status() : Status(local_error(fault, "symlink", path(name)));
}

Status write_all(int fd, std::span<const std::byte> data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t count = ::write(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR && !interrupt::raised()) continue;
    if (count < 0) return local_error(errno, "write", path);
    data = data.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace nfsrdma::cli
