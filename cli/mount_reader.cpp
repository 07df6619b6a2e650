// See mount_reader.h.
#include "cli/mount_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "cli/descriptor.h"
#include "cli/event.h"
#include "cli/servers.h"

namespace nfsrdma::cli {
namespace {

constexpr std::string_view file_name = ".nfsrdma-stats";
constexpr std::size_t largest_file = 4U << 20;

/// Returns the text of a file, or an errno.
std::pair<std::string, int> read_all(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW));
  if (file.get() < 0) return {"", errno};
  std::string out;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {"", errno};
    if (got == 0) return {std::move(out), 0};
    out.append(piece.data(), static_cast<std::size_t>(got));
    if (out.size() > largest_file) return {"", EFBIG};
  }
}

std::string trouble_of(int code) {
  switch (code) {
    case ENOENT:
      return "no statistics here: not a mount of nfsrdma-fuse, or one of another user";
    case EACCES:
      return "only the user who mounted can see the statistics";
    case ENOTCONN:
      return "the program that served the mount has ended; unmount it";
    default:
      return std::strerror(code);
  }
}

MountReading read_mount(const std::string& mountpoint) {
  const auto [text, code] = read_all(join(mountpoint, file_name));
  if (code != 0) return {std::nullopt, trouble_of(code)};
  MountReading out{parse_mount_statistics(text), ""};
  if (!out.sample) out.trouble = "the statistics are of another version of nfsrdma-fuse";
  return out;
}

/// Replaces "\040" and the like, as the kernel writes blanks in mountinfo.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && is_digit(i + 1) && is_digit(i + 2) && is_digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// Returns the word of that number, from 0.
std::string_view word_of(std::string_view line, unsigned number) {
  for (; number != 0; --number) line.remove_prefix(std::min(line.find(' ') + 1, line.size()));
  return line.substr(0, line.find(' '));
}

}  // namespace

// The mount has a parser of its own (fuse/mountinfo.cpp), of which this program may include nothing.
std::vector<std::string> nfsrdma_mounts(std::string_view mountinfo) {
  constexpr unsigned mountpoint_word = 4;
  constexpr std::string_view separator = " - ";
  std::vector<std::string> out;
  while (!mountinfo.empty()) {
    const std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(line.size() + 1, mountinfo.size()));
    const std::size_t at = line.find(separator);
    if (at == std::string_view::npos) continue;
    if (word_of(line.substr(at + separator.size()), 0) != "fuse.nfsrdma") continue;
    std::string mountpoint = unescaped(word_of(line, mountpoint_word));
    if (mountpoint.starts_with('/') && std::ranges::find(out, mountpoint) == out.end())
      out.push_back(std::move(mountpoint));
  }
  return out;
}

std::vector<std::string> nfsrdma_mounts() {
  return nfsrdma_mounts(read_all("/proc/self/mountinfo").first);
}

struct MountReader::Shared {
  explicit Shared(std::string at) : mountpoint(std::move(at)) {}
  const std::string mountpoint;
  const Event done;  ///< signalled when a reading has ended
  std::mutex mutex;
  bool under_way = false;  ///< guarded by the mutex, as is `reading`
  MountReading reading;
};

MountReader::MountReader(const std::string& mountpoint) : shared_(std::make_shared<Shared>(mountpoint)) {}

void MountReader::run(const std::shared_ptr<Shared>& shared) {
  MountReading reading = read_mount(shared->mountpoint);
  const std::lock_guard lock(shared->mutex);
  shared->reading = std::move(reading);
  shared->under_way = false;
  shared->done.signal();
}

void MountReader::begin() {
  {
    const std::lock_guard lock(shared_->mutex);
    if (std::exchange(shared_->under_way, true)) return;
    shared_->done.clear();
  }
  try {
    std::thread(run, shared_).detach();
  } catch (const std::system_error& fault) {
    const std::lock_guard lock(shared_->mutex);
    shared_->under_way = false;
    shared_->reading = {std::nullopt, fault.what()};
  }
}

MountReading MountReader::wait(std::chrono::steady_clock::time_point deadline, int interrupt) {
  for (;;) {
    {
      const std::lock_guard lock(shared_->mutex);
      if (!shared_->under_way) return shared_->reading;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    std::array<pollfd, 2> ready{pollfd{shared_->done.fd(), POLLIN, 0}, pollfd{interrupt, POLLIN, 0}};
    const int count =
        ::poll(ready.data(), ready.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (count == 0 || ready[1].revents != 0 || (count < 0 && errno != EINTR))
      return {std::nullopt, "no answer"};
  }
}

}  // namespace nfsrdma::cli
