#include "fuse/client_id.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "connect/server.h"

namespace nfsrdma::fuse {
namespace {

constexpr unsigned kMostAlike = 1000;

/// FNV-1a is enough, because the hash only distinguishes a few mounts and keeps the machine-id from being
/// readable.
std::uint64_t hash(std::string_view text, std::uint64_t value) {
  for (const char c : text) {
    value ^= static_cast<unsigned char>(c);
    value *= 0x100000001b3ULL;
  }
  return value;
}

std::string hex(std::uint64_t value) {
  std::string out(16, '0');
  for (auto digit = out.rbegin(); digit != out.rend(); ++digit, value >>= 4U) {
    *digit = "0123456789abcdef"[value & 15U];
  }
  return out;
}

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string network_namespace() {
  struct stat found{};
  return ::stat("/proc/self/ns/net", &found) == 0 ? std::to_string(found.st_ino) : "";
}

void close_one(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

bool is_own_directory(const struct stat& facts) {
  return S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Returns -1 if there is no directory that belongs to this user alone. A symbolic link, which another user
/// may have put there, is not followed.
int open_own_directory(const std::string& path) {
  (void)::mkdir(path.c_str(), 0700);
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat facts{};
  if (fd >= 0 && (::fstat(fd, &facts) != 0 || !is_own_directory(facts))) close_one(fd);
  return fd;
}

enum class Claimed : unsigned char { ours, taken, unknown };

/// Sets `fd` to the locked file if the result is Claimed::ours.
Claimed lock_file(int directory, const std::string& name, int& fd) {
  constexpr int kTries = 10;
  if (directory < 0) return Claimed::unknown;
  for (int i = 0; i < kTries; ++i) {
    fd = ::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat opened{}, named{};
    if (fd < 0 || ::fstat(fd, &opened) != 0 || !S_ISREG(opened.st_mode)) break;
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const bool taken = errno == EWOULDBLOCK;
      close_one(fd);
      return taken ? Claimed::taken : Claimed::unknown;
    }
    // The process that held the lock before may have removed the file just now.
    if (::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
      return Claimed::ours;
    close_one(fd);
  }
  close_one(fd);
  return Claimed::unknown;
}

/// Returns true if a process of this user listens at the address.
bool is_held_by_us(const sockaddr_un& address, socklen_t size) {
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  close_one(fd);
  return known && peer.uid == ::geteuid();
}

/// Sets `fd` to a socket that is bound to the name if the result is Claimed::ours.
Claimed bind_to(const std::string& name, int& fd) {
  fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Claimed::unknown;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A first octet of zero makes this an abstract name, which stands for no file (unix(7)).
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 && ::listen(fd, 1) == 0)
    return Claimed::ours;
  close_one(fd);
  return is_held_by_us(address, size) ? Claimed::taken : Claimed::unknown;
}

}  // namespace

std::string claims_directory() {
  if (::geteuid() == 0) return "/run/nfsrdma";
  const std::string user = std::to_string(::geteuid());
  const char* const told = std::getenv("XDG_RUNTIME_DIR");
  for (const std::string& base : {std::string(told != nullptr ? told : ""), "/run/user/" + user}) {
    struct stat facts{};
    if (base.starts_with('/') && ::stat(base.c_str(), &facts) == 0 && is_own_directory(facts))
      return base + "/nfsrdma";
  }
  return "/tmp/nfsrdma-" + user;
}

std::string lock_records_directory() {
  if (::geteuid() == 0) return "/var/lib/nfsrdma/locks";
  const auto directory = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::string(value != nullptr && *value == '/' ? value : "");
  };
  const std::string state = directory("XDG_STATE_HOME"), home = directory("HOME");
  if (!state.empty()) return state + "/nfsrdma/locks";
  return home.empty() ? std::string() : home + "/.local/state/nfsrdma/locks";
}

ClientIdentity identity_of(const MountOptions& options) {
  ClientIdentity out;
  out.host = connect::Surroundings::system().host;
  out.machine = options.client_id;
  if (out.machine.empty()) {
    out.machine = first_line("/etc/machine-id") + "\n" + out.host + "\n" + network_namespace();
  }
  const security::Identity own = connect::own_identity(options.target.options);
  out.user = std::to_string(own.uid) + " " + std::to_string(own.gid);
  for (const std::uint32_t group : own.groups) out.user += " " + std::to_string(group);
  // To a server, the same name with another principal is another client (RFC 8881 2.4.3).
  const std::vector<Security>& security = options.target.options.security;
  if (security != std::vector{Security::sys}) {
    for (const Security one : security) out.user += " " + std::string(security_name(one));
  }
  out.source = options.source + "\n" + std::to_string(options.target.options.port);
  out.mountpoint = options.mountpoint;
  return out;
}

std::string client_name(const ClientIdentity& identity, unsigned number) {
  std::string all;
  for (const std::string& part : {identity.machine, identity.user, identity.source, identity.mountpoint}) {
    all += std::to_string(part.size()) + ":" + part;
  }
  constexpr std::uint64_t kBasis = 0xcbf29ce484222325ULL;
  std::string out = "nfsrdma " + hex(hash(all, kBasis)) + hex(hash("2" + all, kBasis));
  if (number != 0) out += "." + std::to_string(number);
  return out + " " + identity.host;
}

ClientName::ClientName(const ClientIdentity& identity, const std::string& directory)
    : directory_(open_own_directory(directory)) {
  for (unsigned number = 0; number < kMostAlike && text_.empty(); ++number) {
    std::string text = client_name(identity, number);
    if (claim(text)) text_ = std::move(text);
  }
}

bool ClientName::claim(const std::string& text) {
  // Mounts in two network namespaces are two clients, even if they share the directory.
  file_name_ = network_namespace() + " " + text;
  std::ranges::replace(file_name_, '/', '_');
  const Claimed file = lock_file(directory_, file_name_, file_);
  if (file == Claimed::taken) return false;
  const Claimed socket = bind_to(text, socket_);
  if (socket == Claimed::ours) return true;
  if (socket == Claimed::unknown && file == Claimed::ours)
    return true;  // the socket is another user's, or none can be created
  if (file == Claimed::ours) (void)::unlinkat(directory_, file_name_.c_str(), 0);
  close_one(file_);
  return false;
}

ClientName::~ClientName() {
  // The file is removed before it is unlocked, because after that it could be another mount's.
  if (file_ >= 0) (void)::unlinkat(directory_, file_name_.c_str(), 0);
  close_one(file_);
  close_one(socket_);
  close_one(directory_);
}

}  // namespace nfsrdma::fuse
