#include "fuse/mount_record.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "fuse/mountinfo.h"
#include "fuse/mountpoint.h"

namespace nfsrdma::fuse {
namespace {

/// Runs the program of util-linux, without output, and waits until it has ended.
void run(std::vector<std::string> words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  sigset_t none{};
  sigemptyset(&none);
  posix_spawn_file_actions_init(&files);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  std::array<char*, 1> environment{nullptr};
  if (::posix_spawn(&child, words.front().c_str(), &files, &attributes, pointers.data(),
                    environment.data()) == 0)
    ::waitpid(child, nullptr, 0);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
}

/// Removes all records of the mount point. With --no-canonicalize umount(8) does not look at the mount point, which the
/// caller may be serving.
void remove_record(const std::string& mountpoint) {
  run({"/bin/umount", "--fake", "--internal-only", "--no-canonicalize", mountpoint});
}

}  // namespace

std::string recorded_options(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 3> kOthers{"comment=", "helper=", "uhelper="};
  std::string out = "_netdev";
  for (const std::string& word : words) {
    const bool is_kept = word.starts_with("x-") || std::ranges::any_of(kOthers, [&](std::string_view other) {
                           return word.starts_with(other);
                         });
    if (is_kept) out += "," + word;
  }
  return out;
}

bool is_recorded_by_mount8(const MountOptions& options) {
  return options.helper && std::ranges::find(options.words, "_netdev") != options.words.end();
}

void record_mount(const MountOptions& options) {
  if (::geteuid() != 0 || passed_descriptor(options.mountpoint)) return;
  // A record that was left by a daemon that was killed would count instead of the one to be written.
  remove_record(options.mountpoint);
  if (is_recorded_by_mount8(options)) return;
  run({"/bin/mount", "--fake", "--internal-only", "--no-canonicalize", "--types", "fuse.nfsrdma", "--options",
       recorded_options(options.words), "--source", options.source, "--target", options.mountpoint});
}

void forget_mount(const MountOptions& options) {
  if (::geteuid() != 0 || passed_descriptor(options.mountpoint)) return;
  const MountingLock lock;  // a mount that is made here meanwhile is recorded after this
  if (!mounted_at(options.mountpoint)) remove_record(options.mountpoint);
}

}  // namespace nfsrdma::fuse
