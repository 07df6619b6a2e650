#include "cli/local_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "cli/commands.h"

namespace nfsrdma::cli {
namespace {

constexpr int as_directory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr int new_file = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
constexpr int most_tries = 100;  // of temporary names

FileType type_of(mode_t mode) {
  constexpr std::array<std::pair<mode_t, FileType>, 7> types{{{S_IFREG, FileType::regular},
                                                              {S_IFDIR, FileType::directory},
                                                              {S_IFLNK, FileType::symlink},
                                                              {S_IFBLK, FileType::block},
                                                              {S_IFCHR, FileType::character},
                                                              {S_IFIFO, FileType::fifo},
                                                              {S_IFSOCK, FileType::socket}}};
  for (const auto& [bits, type] : types) {
    if ((mode & S_IFMT) == bits) return type;
  }
  return FileType::unknown;
}

/// Returns another name each time, which may be in use nevertheless.
std::string temporary_beside(const std::string& name) {
  static std::atomic<unsigned> last;
  return temporary_template(name).substr(0, 240) + std::to_string(::getpid()) + std::to_string(++last);
}

}  // namespace

FileType LocalEntry::type() const {
  return type_of(facts.st_mode);
}

Attributes attributes_of(const struct stat& facts) {
  constexpr std::uint64_t block = 512;  // the unit of st_blocks
  const Traits traits = traits_of(facts);
  Attributes out;
  out.type = type_of(facts.st_mode);
  out.mode = traits.mode;
  out.links = static_cast<std::uint32_t>(facts.st_nlink);
  out.uid = traits.uid;
  out.gid = traits.gid;
  out.size = static_cast<std::uint64_t>(facts.st_size);
  out.space_used = static_cast<std::uint64_t>(facts.st_blocks) * block;
  out.file_id = facts.st_ino;
  out.filesystem_major = facts.st_dev;
  out.accessed = traits.accessed;
  out.modified = traits.modified;
  return out;
}

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
                                                    const Attributes& traits, Keep keep) {
  // Only its owner may use the directory until it is complete.
  const bool made = ::mkdirat(above->fd(), name.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return local_error(errno, "mkdir", above->path(name));
  Result<Ref> out = open_in(above, name);
  if (!out) return out;
  if (made) (*out)->mode_ = traits.mode & kPermissions & ~creation_mask();
  (*out)->finish_with(traits, keep);
  return out;
}

void LocalDirectory::finish_with(const Attributes& traits, Keep keep) {
  if (keep == Keep::everything) exact_ = traits_of(traits);
  if (keep == Keep::times) modified_ = traits.modified;
}

void LocalDirectory::open_up() {
  struct stat facts{};
  if (::fstat(fd(), &facts) != 0 || (facts.st_mode & 0300U) == 0300U) return;
  if (::fchmod(fd(), (facts.st_mode & 07777U) | 0300U) == 0 && !mode_) mode_ = facts.st_mode & 07777U;
}

LocalDirectory::~LocalDirectory() {
  // Errors are ignored, because the tree itself is complete.
  if (exact_) {
    // A directory that was there may let in users whom its new owner would not.
    (void)::fchmod(fd_.get(), 0700);
    (void)apply_traits(fd_.get(), *exact_);
    return;
  }
  if (mode_) (void)::fchmod(fd_.get(), *mode_);
  if (modified_) (void)apply_modified(fd_.get(), *modified_);
}

Result<LocalEntry> LocalDirectory::entry(const std::string& name) const {
  LocalEntry out{name, {}, {}};
  if (::fstatat(fd(), name.c_str(), &out.facts, AT_SYMLINK_NOFOLLOW) == 0) return out;
  return local_error(errno, "stat", path(name));
}

Result<std::vector<LocalEntry>> LocalDirectory::list(const std::function<void(const Error&)>& failed) const {
  // A descriptor of its own: the position in the directory belongs to the open file, which dup(2) would share.
  const int own = ::openat(fd(), ".", as_directory);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(own < 0 ? nullptr : ::fdopendir(own), &::closedir);
  if (!stream) {
    const int fault = errno;
    if (own >= 0) ::close(own);
    return local_error(fault, "opendir", path());
  }
  std::vector<LocalEntry> out;
  for (errno = 0; const dirent* const one = ::readdir(stream.get()); errno = 0) {
    const std::string name = static_cast<const char*>(one->d_name);
    if (name == "." || name == "..") continue;
    auto found = entry(name);
    if (found)
      out.push_back(*std::move(found));
    else
      failed(found.error());
  }
  if (errno != 0) return local_error(errno, "readdir", path());
  return out;
}

Result<Descriptor> LocalDirectory::open_file(LocalEntry& entry, const char* operation) const {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Descriptor fd(::openat(fd_.get(), entry.name.c_str(), flags));
  if (fd.get() < 0) return local_error(errno, "open", path(entry.name));
  if (::fstat(fd.get(), &entry.facts) != 0) return local_error(errno, "stat", path(entry.name));
  if (S_ISREG(entry.facts.st_mode)) return fd;
  return Error(ErrorKind::local, EBUSY, operation, path(entry.name), "is no longer a regular file; skipped");
}

Result<LocalDirectory::New> LocalDirectory::create(const std::string& name, std::uint32_t mode,
                                                   Naming naming) {
  New out{Descriptor(), name, name, {}};
  if (naming == Naming::its_own) {
    out.fd = Descriptor(::openat(fd(), name.c_str(), new_file, mode & kPermissions));
    if (out.fd.get() >= 0) return out;
    if (errno != EEXIST) return local_error(errno, "open", path(name));
  }
  struct stat facts{};
  const bool there = ::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && S_ISDIR(facts.st_mode)) return local_error(EISDIR, "get", path(name));
  if (there && S_ISREG(facts.st_mode)) out.kept_mode = facts.st_mode & kPermissions;
  return create_temporary(std::move(out), mode);
}

Result<LocalDirectory::New> LocalDirectory::create_temporary(New file, std::uint32_t mode) const {
  int fault = EEXIST;
  for (int tries = 0; tries < most_tries && fault == EEXIST; ++tries) {
    file.temporary = temporary_beside(file.name);
    const int made =
        ::openat(fd(), file.temporary.c_str(), new_file, mode & file.kept_mode.value_or(kPermissions));
    if (made >= 0) {
      file.fd = Descriptor(made);
      return file;
    }
    fault = errno;
  }
  return local_error(fault, "create a temporary file next to it", path(file.name));
}

Result<LocalDirectory::New> LocalDirectory::create_part(const std::string& name, std::uint32_t mode,
                                                        const PartOf& of) {
  struct stat facts{};
  const bool there = ::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && S_ISDIR(facts.st_mode)) return local_error(EISDIR, "get", path(name));
  auto part = open_local_part(fd(), name, of, path(name));
  if (!part) return part.error();
  const bool is_kept = there && S_ISREG(facts.st_mode);
  New out{std::move(part->fd), name, part->name, {}, part->begin, true};
  out.kept_mode = is_kept ? facts.st_mode & kPermissions : mode & kPermissions & ~creation_mask();
  return out;
}

Status LocalDirectory::finish(New& file, const Attributes& traits, Keep keep) {
  int fault = 0;
  if (keep == Keep::everything) {
    fault = apply_traits(file.fd.get(), traits_of(traits));
  } else if (file.kept_mode && ::fchmod(file.fd.get(), *file.kept_mode) != 0) {
    fault = errno;  // the mode is set because the umask has cut it
  }
  if (keep == Keep::times && fault == 0) fault = apply_modified(file.fd.get(), traits.modified);
  if (const int closing = file.fd.close(); fault == 0) fault = closing;
  if (fault == 0 && file.temporary != file.name &&
      ::renameat(fd(), file.temporary.c_str(), fd(), file.name.c_str()) != 0) {
    fault = errno;
  }
  if (fault == 0) return {};
  discard(file);
  return local_error(fault, "write", path(file.name));
}

void LocalDirectory::discard(New& file) {
  if (!file.is_part) (void)::unlinkat(fd(), file.temporary.c_str(), 0);
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
