#include "fuse/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "fuse/trace_control.h"

namespace nfsrdma::fuse {
namespace {

constexpr std::string_view kBegin = "# HELP nfsrdma_";  // of what metrics_text() returns

Error refusal(int code, const std::string& path, const std::string& why) {
  return {ErrorKind::local, code, "metrics", path, why};
}

Error failure(int code, const std::string& path, const std::string& next_step) {
  return refusal(code, path, std::string(std::strerror(code)) + "; " + next_step);
}

/// Returns true if the file has metrics of a mount, or nothing.
bool is_metrics(int fd) {
  std::array<char, kBegin.size()> begin{};
  const ssize_t count = ::pread(fd, begin.data(), begin.size(), 0);
  return count == 0 ||
         (count > 0 && std::string_view(begin.data(), static_cast<std::size_t>(count)) == kBegin);
}

/// Returns an Error if something has the name that must not be replaced.
Status check_replaceable(int directory, const std::string& name, const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const async::Descriptor file(::openat(directory, name.c_str(), kFlags));
  if (!file.is_valid() && errno == ENOENT) return {};
  struct stat facts{};
  const bool is_ours =
      file.is_valid() && ::fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode) && is_metrics(file.get());
  if (is_ours) return {};
  return refusal(EEXIST, path,
                 "exists and has no metrics of a mount, so it is not replaced; name another file");
}

/// Makes the file `name`, which only this function makes, in place of one that a killed mount has left. Returns
/// 0 or an errno.
int make_file(int directory, const std::string& name, std::string_view text, struct stat& made) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  constexpr mode_t kReadable = 0644;  // less the umask: node_exporter is another user
  (void)::unlinkat(directory, name.c_str(), 0);
  const async::Descriptor file(::openat(directory, name.c_str(), kFlags, kReadable));
  if (!file.is_valid()) return errno;
  const int code = async::write_all(file.get(), text);
  return code != 0 || ::fstat(file.get(), &made) == 0 ? code : errno;
}

}  // namespace

std::string metrics_name(std::string_view mountpoint) {
  std::string out = "nfsrdma";
  for (const char c : mountpoint) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/') {
      out += '-';
    } else if (std::isalnum(byte) != 0 || c == '_' || c == '.') {
      out += c;
    } else {
      std::array<char, 5> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", static_cast<unsigned>(byte));
      out += escape.data();
    }
  }
  return out + ".prom";
}

Result<MetricsFile::Place> MetricsFile::find_place() const {
  if (leads_to_nfsrdma(path_))
    return refusal(EXDEV, path_, "metrics cannot be on a mount of nfsrdma; name a file elsewhere");
  std::error_code ignored;
  std::filesystem::path whole(path_);
  if (std::filesystem::is_directory(whole, ignored)) whole /= metrics_name(mountpoint_);
  Place out{{}, whole.filename().string(), whole.string()};
  const std::string above = whole.parent_path().string();
  out.directory = async::Descriptor(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!out.directory.is_valid()) return failure(errno, above, "create this directory, or name another one");
  return out;
}

Status MetricsFile::write(std::string_view text) {
  const Result<Place> place = find_place();
  if (!place) return place.error();
  const int directory = place->directory.get();
  const std::string fresh = "." + place->name + ".new";  // no name that node_exporter reads
  if (Status free = check_replaceable(directory, place->name, place->path); !free) return free;
  struct stat made{};
  int code = make_file(directory, fresh, text, made);
  if (code == 0 && ::renameat(directory, fresh.c_str(), directory, place->name.c_str()) != 0) code = errno;
  if (code == 0) {
    written_ = made;
    return {};
  }
  (void)::unlinkat(directory, fresh.c_str(), 0);
  return failure(code, place->path, "check the permissions of its directory, and the space there");
}

void MetricsFile::remove() {
  const auto written = std::exchange(written_, std::nullopt);
  if (!written) return;
  const Result<Place> place = find_place();
  struct stat now{};
  if (!place || ::fstatat(place->directory.get(), place->name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0)
    return;
  if (now.st_dev != written->st_dev || now.st_ino != written->st_ino) return;  // of another mount
  (void)::unlinkat(place->directory.get(), place->name.c_str(), 0);
}

}  // namespace nfsrdma::fuse
