#include "aux/lock_records.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace nfsrdma::aux {
namespace {

// The file format. The first line has the magic word and oh. Each further line is one of:
//   + svid uid gid groups caller_name handle        groups: numbers separated by commas, or -
//   - svid handle
constexpr std::string_view kMagic = "nfsrdma-locks-1";
constexpr std::size_t kLongest = 1U << 20;  // longer files are written anew
constexpr std::size_t kMostHandle = 64;
/// Suffix of a file's name while it is written.
constexpr std::string_view kUnfinished = ".new";
constexpr off_t kMostRead = 64 << 20;

std::string hex(const std::vector<std::byte>& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte one : bytes) {
    out += kDigits[std::to_integer<unsigned>(one >> 4)];
    out += kDigits[std::to_integer<unsigned>(one & std::byte{15})];
  }
  return out.empty() ? "-" : out;
}

std::optional<std::vector<std::byte>> bytes_of(std::string_view text) {
  std::vector<std::byte> out;
  if (text == "-") return out;
  if (text.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned value = 0;
    const char* const end = text.data() + i + 2;
    const auto parsed = std::from_chars(text.data() + i, end, value, 16);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
    out.push_back(static_cast<std::byte>(value));
  }
  return out;
}

/// Replaces blanks and control characters. Host names have none, and in any other name the change does no
/// harm.
std::string one_word(const std::string& text) {
  std::string out = text.empty() ? "-" : text;
  std::ranges::replace_if(out, [](unsigned char c) { return c <= ' '; }, '_');
  return out;
}

std::string line_of(const LockOwner& owner, const LockAsker& asker) {
  std::string groups;
  for (const std::uint32_t group : asker.identity.groups)
    groups += (groups.empty() ? "" : ",") + std::to_string(group);
  return "+ " + std::to_string(owner.svid) + " " + std::to_string(asker.identity.uid) + " " +
         std::to_string(asker.identity.gid) + " " + (groups.empty() ? "-" : groups) + " " +
         one_word(asker.caller_name) + " " + hex(owner.file) + "\n";
}

std::optional<std::string> read_all(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > kMostRead)
    return std::nullopt;
  std::string out(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t count = ::pread(fd, out.data() + have, out.size() - have, static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    have += static_cast<std::size_t>(count);
  }
  out.resize(have);
  return out;
}

void read_line(std::string_view line, LockOwners& owners) {
  std::istringstream in{std::string(line)};
  std::string sign, groups, name, handle;
  LockOwner owner;
  LockAsker asker;
  in >> sign >> owner.svid;
  if (sign == "+") in >> asker.identity.uid >> asker.identity.gid >> groups >> name;
  in >> handle;
  const auto file = bytes_of(handle);
  if (in.fail() || !file || file->size() > kMostHandle) return;
  owner.file = *file;
  if (sign == "-") owners.erase(owner);
  if (sign != "+") return;
  std::istringstream list(groups == "-" ? std::string() : groups);
  for (std::string group; std::getline(list, group, ',');) {
    std::uint32_t number = 0;
    (void)std::from_chars(group.data(), group.data() + group.size(), number);
    asker.identity.groups.push_back(number);
  }
  asker.caller_name = name;
  owners.insert_or_assign(owner, asker);
}

}  // namespace

bool read_lock_records(const std::string& text, netobj& handle, LockOwners& owners) {
  std::string_view rest = text;
  bool first = true;
  // A last line without a newline may have been cut off, and is not read.
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (!std::exchange(first, false)) {
      read_line(line, owners);
      continue;
    }
    if (!line.starts_with(kMagic) || line.size() < kMagic.size() + 2) return false;
    const auto own = bytes_of(line.substr(kMagic.size() + 1));
    if (!own) return false;
    handle.value = *own;
  }
  return !first;
}

// ---- files ----

void RecordFile::remove() {
  if (valid()) (void)::unlink(path_.c_str());
}

LockRecords::LockRecords(std::string directory, std::string server, netobj own)
    : directory_(std::move(directory)), server_(std::move(server)), own_(std::move(own)) {}

LockRecords::~LockRecords() {
  if (held_.empty()) file_.remove();
}

/// Writes a new file with what is held. It replaces the old file only when it is complete.
void LockRecords::begin_file() {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  (void)::chmod(directory_.c_str(), 0700);
  const std::string path = directory_ + "/" + server_ + "-" + hex(own_.value);
  const std::string fresh = path + std::string(kUnfinished);
  RecordFile file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600), path);
  std::string text = std::string(kMagic) + " " + hex(own_.value) + "\n";
  for (const auto& [owner, asker] : held_) text += line_of(owner, asker);
  failed_ = !file.valid() || ::flock(file.fd(), LOCK_EX | LOCK_NB) != 0 ||
            async::write_all(file.fd(), text) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0;
  written_ = text.size();
  if (!failed_) {
    file_ = std::move(file);
    return;
  }
  if (file.valid()) (void)::unlink(fresh.c_str());
}

void LockRecords::write(const std::string& text) {
  if (directory_.empty() || failed_) return;
  if (!file_.valid() || written_ > kLongest) {
    begin_file();
    return;
  }
  // After a failure the content of the file is unknown.
  failed_ = async::write_all(file_.fd(), text) != 0;
  written_ += text.size();
}

void LockRecords::add(const LockOwner& owner, const LockAsker& asker) {
  const auto [at, is_new] = held_.emplace(owner, asker);
  if (!is_new && at->second.caller_name == asker.caller_name) return;
  at->second = asker;
  write(line_of(owner, asker));
}

void LockRecords::remove(const LockOwner& owner) {
  if (held_.erase(owner) == 0) return;
  write("- " + std::to_string(owner.svid) + " " + hex(owner.file) + "\n");
}

bool LockRecords::has(std::int32_t svid) const {
  const auto first = held_.lower_bound(LockOwner{svid, {}});
  return first != held_.end() && first->first.svid == svid;
}

std::vector<LeftLocks> left_locks(const std::string& directory, const std::vector<std::string>& servers) {
  std::vector<LeftLocks> out;
  std::error_code error;
  using Entries = std::filesystem::directory_iterator;
  for (Entries at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    // A file that is still being written holds nothing useful yet, and its process could not lock it while it
    // is examined here.
    if (name.ends_with(kUnfinished)) continue;
    const bool wanted = std::ranges::any_of(
        servers, [&name](const std::string& server) { return name.starts_with(server + "-"); });
    if (!wanted) continue;
    const std::string path = at->path().string();
    RecordFile file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), path);
    // If the file is locked, its process lives.
    if (!file.valid() || ::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) continue;
    // The file may have been removed by another process meanwhile, and a living process may have made one of
    // the same name.
    struct stat here{}, there{};
    const bool same = ::fstat(file.fd(), &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
                      here.st_ino == there.st_ino && here.st_dev == there.st_dev;
    const auto text = same ? read_all(file.fd()) : std::nullopt;
    netobj handle;
    LockOwners owners;
    if (text && read_lock_records(*text, handle, owners))
      out.emplace_back(std::move(file), std::move(handle), std::move(owners));
  }
  return out;
}

}  // namespace nfsrdma::aux
