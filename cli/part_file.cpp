// See part_file.h.
#include "cli/part_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "cli/report.h"
#include "cli/sha256.h"
#include "cli/traits.h"

namespace nfsrdma::cli {
namespace {

constexpr std::string_view part_mark = ".nfsrdma-part-";
constexpr std::size_t digits = 16;  // of a fingerprint
constexpr std::size_t longest_name = 255;

std::string fingerprint(std::string_view name, const PartOf& of) {
  std::string text(name);
  for (const std::string& one : {std::to_string(of.size), std::to_string(of.modified.seconds),
                                 std::to_string(of.modified.nanoseconds)}) {
    text += '\0';
    text += one;
  }
  Sha256 sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.finish().substr(0, digits);
}

/// Returns the begin that the names of all parts of a file share.
std::string begin_of_parts(std::string_view name) {
  return "." + std::string(name.substr(0, longest_name - 1 - part_mark.size() - digits)) +
         std::string(part_mark);
}

/// Returns where a copy goes on behind what a part has.
std::uint64_t resume_at(std::uint64_t size, const PartOf& of) {
  return std::min(size, of.size) / part_step * part_step;
}

// ---- on this machine ----

/// Opens a part that an earlier command has left. -1 if there is none that is this user's own.
int open_own(int directory, const std::string& part, std::uint64_t& size) {
  constexpr int flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Descriptor fd(::openat(directory, part.c_str(), flags));
  struct stat facts{};
  if (fd.get() < 0 || ::fstat(fd.get(), &facts) != 0) return -1;
  const bool is_own = S_ISREG(facts.st_mode) && facts.st_nlink == 1 && facts.st_uid == ::geteuid() &&
                      (facts.st_mode & 07777U) == kPrivateFile;
  size = static_cast<std::uint64_t>(facts.st_size);
  return is_own ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1;
}

void remove_parts(int directory, const std::string& name) {
  const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = own < 0 ? nullptr : ::fdopendir(own);
  if (stream == nullptr) {
    if (own >= 0) ::close(own);
    return;
  }
  while (const dirent* const one = ::readdir(stream)) {
    const char* const found = static_cast<const char*>(one->d_name);
    if (is_part_of(found, name)) (void)::unlinkat(directory, found, 0);
  }
  ::closedir(stream);
}

// ---- on a server ----

/// Returns true if this user has made the file. Only root can open a private file of another user.
bool is_own(const Attributes& part) {
  const bool is_private = part.type == FileType::regular && part.links == 1 && part.mode == kPrivateFile;
  constexpr std::uint32_t nobody = 65534;  // whom the server may take root for
  return is_private && (!gives_files_away() || !part.uid || *part.uid == 0 || *part.uid == nobody);
}

/// Opens a part that an earlier command has left. Nothing if there is none that is this user's own.
Result<std::optional<RemotePart>> open_own(const Remote& part, const PartOf& of) {
  const Result<Attributes> there = part.client->stat(part.path, false);
  if (!there && there.error().errno_value() == ENOENT) return std::optional<RemotePart>();
  if (!there) return there.error();
  if (!is_own(*there)) return std::optional<RemotePart>();
  auto file = part.client->open(part.path, OpenMode::read_write);
  if (!file) return file.error();
  const Result<Attributes> opened = (*file)->attributes();
  if (!opened) return opened.error();
  if (!are_same(*there, *opened)) return std::optional<RemotePart>();
  return std::optional(RemotePart{{part, *std::move(file)}, resume_at(opened->size, of)});
}

void remove_parts(const Remote& directory, std::string_view name) {
  std::vector<std::string> found;
  const Status listed = directory.client->list(directory.path, [&](const DirectoryEntry& entry) {
    if (is_plain_name(entry.name) && is_part_of(entry.name, name)) found.push_back(entry.name);
    return true;
  });
  if (!listed) return;  // the directory may be written to and not be listed
  for (const std::string& one : found) (void)directory.client->remove_file(directory.child(one).path);
}

}  // namespace

std::string part_name(std::string_view name, const PartOf& of) {
  return begin_of_parts(name) + fingerprint(name, of);
}

bool is_part_name(std::string_view name) {
  if (!name.starts_with('.') || name.size() <= part_mark.size() + digits + 1) return false;
  const std::string_view end = name.substr(name.size() - digits);
  return name.substr(name.size() - digits - part_mark.size(), part_mark.size()) == part_mark &&
         end.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_part_of(std::string_view part, std::string_view name) {
  const std::string begin = begin_of_parts(name);
  return is_part_name(part) && part.starts_with(begin) && part.size() == begin.size() + digits;
}

Result<LocalPart> open_local_part(int directory, const std::string& name, const PartOf& of,
                                  const std::string& path) {
  LocalPart out{Descriptor(), part_name(name, of), 0};
  std::uint64_t size = 0;
  out.fd = Descriptor(open_own(directory, out.name, size));
  if (out.fd.get() >= 0) {
    out.begin = resume_at(size, of);
    return out;
  }
  remove_parts(directory, name);
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  out.fd = Descriptor(::openat(directory, out.name.c_str(), flags, kPrivateFile));
  if (out.fd.get() >= 0 && ::fchmod(out.fd.get(), kPrivateFile) == 0) return out;
  return local_error(errno, "create a part next to it", path);
}

Result<RemotePart> open_remote_part(const Remote& to, const PartOf& of) {
  const std::string_view name = base_name(to.path);
  const Remote directory{to.client, std::string(directory_name(to.path)), to.host};
  const Remote part = directory.child(part_name(name, of));
  auto there = open_own(part, of);
  if (!there) return there.error();
  if (*there) return std::move(**there);
  remove_parts(directory, name);
  OpenFlags flags;
  flags.create = flags.exclusive = true;
  flags.mode = kPrivateFile;
  auto file = part.client->open(part.path, OpenMode::read_write, flags);
  if (!file) return file.error();
  return RemotePart{{part, *std::move(file)}, 0};
}

}  // namespace nfsrdma::cli
