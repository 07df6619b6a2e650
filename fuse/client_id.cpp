#include "fuse/client_id.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "connect/server.h"

namespace nfsrdma::fuse {
namespace {

constexpr unsigned kMostAlike = 1000;

/// FNV-1a: it only has to tell a few mounts apart, and not to show the machine-id as it is.
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

/// A socket that is bound to the name; -1 if somebody has it.
int bind_to(const std::string& name) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The first octet is zero: an abstract name, which no file stands for (unix(7)).
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

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
  // To a server a client is another one with another principal (RFC 8881 2.4.3).
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

ClientName::ClientName(const ClientIdentity& identity) {
  for (unsigned number = 0; number < kMostAlike && socket_ < 0; ++number) {
    text_ = client_name(identity, number);
    socket_ = bind_to(text_);
  }
  if (socket_ < 0) text_.clear();
}

ClientName::~ClientName() {
  if (socket_ >= 0) ::close(socket_);
}

}  // namespace nfsrdma::fuse
