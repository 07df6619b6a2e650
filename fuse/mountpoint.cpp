#include "fuse/mountpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "connect/options.h"
#include "fuse/client_id.h"
#include "fuse/mountinfo.h"

namespace nfsrdma::fuse {
namespace {

/// Returns what to do about a path that cannot be used.
std::string next_step(int code, const std::string& path) {
  switch (code) {
    case ENOENT:
      return "create the mount point (mkdir -p " + path + "), or check its path";
    case EACCES:
      return "check the permissions of the directories above";
    case ENOTDIR:
      return "mount on a directory";
    case ENOTCONN:
      return "the program that served the mount there has ended; unmount it (fusermount3 -u " + path +
             ", or as root umount -l " + path + "), then mount again";
    default:
      return "check the path";
  }
}

Error unusable(const std::string& path, int code) {
  return {ErrorKind::local, code, "mount", path, std::strerror(code) + ("; " + next_step(code, path))};
}

}  // namespace

std::optional<int> passed_descriptor(const std::string& mountpoint) {
  constexpr std::string_view prefix = "/dev/fd/";
  if (!mountpoint.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = std::string_view(mountpoint).substr(prefix.size());
  int out = 0;
  const auto [stop, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (fault != std::errc() || stop != digits.data() + digits.size() || out < 0) return std::nullopt;
  return out;
}

Status check_passed_descriptor(int descriptor) {
  constexpr unsigned misc_major = 10, fuse_minor = 229;  // Documentation/admin-guide/devices.txt of Linux
  constexpr int first_free = 3;                          // the others are standard input, output and error
  struct stat facts{};
  const std::string place = "/dev/fd/" + std::to_string(descriptor);
  if (::fstat(descriptor, &facts) != 0)
    return Error(
        ErrorKind::usage, errno, "mount", place,
        "no such descriptor is open; the process that starts this program has to open /dev/fuse, mount "
        "with it, and pass it on without close-on-exec");
  if (descriptor < first_free || !S_ISCHR(facts.st_mode) ||
      facts.st_rdev != ::makedev(misc_major, fuse_minor))
    return Error(ErrorKind::usage, EINVAL, "mount", place,
                 "this is no descriptor of /dev/fuse; pass on the one that the file system was mounted with");
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return {};
}

Result<std::string> find_mountpoint(const std::string& given) {
  const std::unique_ptr<char, decltype(&std::free)> full(::realpath(given.c_str(), nullptr), &std::free);
  if (full == nullptr) return unusable(given, errno);
  return std::string(full.get());
}

namespace {

/// Returns true if both name one path of one server, in whichever form. The ports are not compared, because those of a
/// mount that exists are not known.
bool is_same_export(const std::string& one, const std::string& other) {
  const auto a = connect::parse_target(one), b = connect::parse_target(other);
  const auto trimmed = [](const std::string& path) { return path.substr(0, path.find_last_not_of('/') + 1); };
  if (!a || !b) return one == other;
  return a->host == b->host && trimmed(a->path) == trimmed(b->path);
}

}  // namespace

Status check_mountpoint(const std::string& mountpoint, const std::string& source) {
  struct stat facts{};
  if (::stat(mountpoint.c_str(), &facts) != 0) {
    const int code = errno;
    // Only the user who made a FUSE mount may look at it, unless the mount has allow_other.
    if (code != EACCES || !mounted_at(mountpoint)) return unusable(mountpoint, code);
    return Error(ErrorKind::local, EBUSY, "mount", mountpoint,
                 "another user's file system is mounted here; unmount it first (umount " + mountpoint + ")");
  }
  if (!S_ISDIR(facts.st_mode)) return unusable(mountpoint, ENOTDIR);
  return check_not_mounted(mountinfo_now(), mountpoint, source);
}

Status check_not_mounted(const std::string& mountinfo, const std::string& mountpoint,
                         const std::string& source) {
  const auto mount = topmost_mount(mountinfo, mountpoint);
  if (!mount || !mount->is_nfsrdma() || mount->root != "/" || !is_same_export(mount->source, source))
    return {};
  return Error(ErrorKind::local, EBUSY, "mount", mountpoint,
               source +
                   " is already mounted here; to mount it with other options, unmount it first (umount " +
                   mountpoint + ")");
}

MountingLock::MountingLock()
    : directory_(::open(claims_directory().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
  constexpr int kTries = 50;
  constexpr std::chrono::milliseconds kPause(20);
  for (int i = 0; i < kTries && directory_.is_valid(); ++i) {
    if (::flock(directory_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace nfsrdma::fuse
