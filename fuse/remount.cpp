#include "fuse/remount.h"

#include <sys/mount.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "fuse/mountinfo.h"
#include "fuse/statistics.h"

namespace nfsrdma::fuse {
namespace {

/// The effect of an option on the flags of mount(2).
struct Flag {
  const char* word;
  unsigned long clears, sets;
};
constexpr unsigned long kAccessTimes = MS_NOATIME | MS_RELATIME | MS_STRICTATIME;
constexpr std::array kFlags{
    Flag{"ro", 0, MS_RDONLY},
    Flag{"rw", MS_RDONLY, 0},
    Flag{"nosuid", 0, MS_NOSUID},
    Flag{"suid", MS_NOSUID, 0},
    Flag{"nodev", 0, MS_NODEV},
    Flag{"dev", MS_NODEV, 0},
    Flag{"noexec", 0, MS_NOEXEC},
    Flag{"exec", MS_NOEXEC, 0},
    Flag{"noatime", kAccessTimes, MS_NOATIME},
    Flag{"atime", MS_NOATIME, 0},
    Flag{"relatime", kAccessTimes, MS_RELATIME},
    Flag{"strictatime", kAccessTimes, MS_STRICTATIME},
    Flag{"nodiratime", 0, MS_NODIRATIME},
    Flag{"diratime", MS_NODIRATIME, 0},
    Flag{"dirsync", 0, MS_DIRSYNC},
};

/// Returns null if the word is none of them.
const Flag* flag_of(std::string_view word) {
  const auto flag = std::ranges::find(kFlags, word, [](const Flag& f) { return std::string_view(f.word); });
  return flag == kFlags.end() ? nullptr : flag;
}
void put_upon(unsigned long& flags, std::string_view word) {
  if (const Flag* flag = flag_of(word)) flags = (flags & ~flag->clears) | flag->sets;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) out.push_back(word);
  return out;
}

Error refused(const std::string& mountpoint, const std::string& why) {
  return {ErrorKind::usage, EINVAL, "remount", mountpoint, why};
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Finds the options in the text of the statistics.
std::string options_from(const std::string& text) {
  std::istringstream lines(text);
  constexpr std::string_view kOptions = "options ";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kOptions)) return line.substr(kOptions.size());
  }
  return "";
}

/// Returns true if the value in force may be the result of a negotiation that began with `word`. Sizes are
/// lowered to what the server takes, so larger ones may have been given. vers=4 leaves the choice to the
/// server, and so does sec=, among the flavors that it lists.
bool was_negotiated(const std::string& word, const connect::Options& in_force) {
  if (word == "vers=4" || word == "nfsvers=4") return true;
  connect::Options given;
  if (word.starts_with("rsize=")) return given.set_all(word) && given.rsize >= in_force.rsize;
  if (word.starts_with("wsize=")) return given.set_all(word) && given.wsize >= in_force.wsize;
  if (word.starts_with("sec=")) {
    return given.set_all(word) && in_force.security.size() == 1 &&
           std::ranges::count(given.security, in_force.security.front()) != 0;
  }
  return false;
}

}  // namespace

Result<unsigned long> remount_flags(const std::string& mountinfo, const std::string& mountpoint,
                                    const std::vector<std::string>& words) {
  const auto mount = topmost_mount(mountinfo, mountpoint);
  if (!mount || !mount->is_nfsrdma()) {
    return refused(mountpoint,
                   "nfsrdma is not mounted here, so remount has nothing to change; mount it without remount");
  }
  unsigned long flags = 0;
  for (const std::string& word : split(mount->options)) put_upon(flags, word);
  // The options of the file system hold for all of its mounts.
  for (const std::string& word : split(mount->super_options)) {
    if (word != "rw") put_upon(flags, word);
  }
  for (const std::string& word : words) put_upon(flags, word);
  return flags;
}

Status check_unchanged(const std::string& in_force, const std::vector<std::string>& words) {
  MountOptions now;
  if (auto done = set_options(now, in_force); !done) return done;
  const std::string before = options_text(now);
  for (const std::string& word : words) {
    if (flag_of(word) != nullptr) continue;
    MountOptions after = now;
    if (auto done = set_options(after, word); !done) return done;
    if (after.kernel != now.kernel && std::ranges::count(now.kernel, word) != 0) after.kernel = now.kernel;
    if (options_text(after) == before || was_negotiated(word, now.target.options)) continue;
    return Error(ErrorKind::usage, EINVAL, "remount", "",
                 "'" + word + "' cannot be changed by remount; unmount, then mount with this option");
  }
  return {};
}

Status remount(const MountOptions& options) {
  const std::string& where = options.mountpoint;
  const auto flags = remount_flags(content("/proc/self/mountinfo"), where, options.words);
  if (!flags) return flags.error();
  const std::string in_force = options_from(content(where + "/" + std::string(kStatisticsName)));
  if (in_force.empty()) {
    return Error(ErrorKind::local, EACCES, "remount", where,
                 "the options of the mount cannot be read; remount as the user who mounted it, or as root if "
                 "root may access the mount");
  }
  if (auto done = check_unchanged(in_force, options.words); !done) return done;
  if (::mount(options.source.c_str(), where.c_str(), nullptr, MS_REMOUNT | *flags, nullptr) == 0) return {};
  return Error(ErrorKind::local, errno, "remount", where, std::strerror(errno));
}

}  // namespace nfsrdma::fuse
