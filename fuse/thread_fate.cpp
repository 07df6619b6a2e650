#include "fuse/thread_fate.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

namespace nfsrdma::fuse {
namespace {

constexpr std::uint64_t bit(int signal) {
  return std::uint64_t{1} << static_cast<unsigned>(signal - 1);
}
/// Signals that do not end a process by default (signal(7)).
constexpr std::uint64_t kHarmless = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) |
                                    bit(SIGTTOU) | bit(SIGURG) | bit(SIGWINCH);

/// The value of a line "name:\tvalue" of the status.
std::string_view field(std::string_view status, std::string_view name) {
  for (std::size_t at = 0; at < status.size();) {
    const std::size_t end = std::min(status.find('\n', at), status.size());
    std::string_view line = status.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name) || line.size() == name.size() || line[name.size()] != ':') continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return line;
  }
  return {};
}

std::uint64_t parsed(std::string_view text, int base) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

/// Returns no value, with errno set, if the file cannot be read.
std::optional<std::string> content(pid_t thread, const char* file) {
  const std::string path = "/proc/" + std::to_string(thread) + "/" + file;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::array<char, 4096> room;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
  const ssize_t got = ::read(fd, room.data(), room.size());
  const int error = errno;
  ::close(fd);
  errno = error;
  if (got < 0) return std::nullopt;
  return std::string(room.data(), static_cast<std::size_t>(got));
}

}  // namespace

bool has_fatal_signal(std::string_view status) {
  const std::string_view state = field(status, "State");
  if (state.starts_with('Z') || state.starts_with('X')) return true;
  const auto set = [&](const char* name) { return parsed(field(status, name), 16); };
  const std::uint64_t pending = set("SigPnd") | set("ShdPnd");
  if ((pending & bit(SIGKILL)) != 0) return true;
  // A debugger may still suppress any other signal.
  if (parsed(field(status, "TracerPid"), 10) != 0) return false;
  return (pending & ~set("SigBlk") & ~set("SigIgn") & ~set("SigCgt") & ~kHarmless) != 0;
}

bool dies_of_signal(std::string_view stat) {
  constexpr unsigned kFlags = 9, kExitCode = 52;  // proc_pid_stat(5), counted from 1
  constexpr std::uint64_t kExiting = 0x4;         // PF_EXITING
  const std::size_t name_end = stat.rfind(')');   // the name of the program may have blanks in it
  if (name_end == std::string_view::npos) return false;
  std::uint64_t flags = 0, code = 0;
  unsigned index = 2;
  std::size_t at = name_end + 1;
  while (at < stat.size()) {
    at = stat.find_first_not_of(" \n", at);
    if (at == std::string_view::npos) break;
    const std::size_t end = std::min(stat.find_first_of(" \n", at), stat.size());
    ++index;
    if (index == kFlags) flags = parsed(stat.substr(at, end - at), 10);
    if (index == kExitCode) code = parsed(stat.substr(at, end - at), 10);
    at = end;
  }
  constexpr std::uint64_t kSignal = 0x7f;  // WTERMSIG of what wait(2) gives
  return (flags & kExiting) != 0 && (code & kSignal) != 0;
}

Fate fate_of(pid_t thread) {
  if (thread <= 0) return Fate::unknown;
  const auto status = content(thread, "status");
  if (!status) return errno == ESRCH ? Fate::ends : Fate::unknown;
  if (has_fatal_signal(*status)) return Fate::ends;
  const auto stat = content(thread, "stat");
  return stat && dies_of_signal(*stat) ? Fate::ends : Fate::goes_on;
}

}  // namespace nfsrdma::fuse
