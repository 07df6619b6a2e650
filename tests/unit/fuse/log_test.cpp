// The formats of the log, and what a service manager is told.
#include "fuse/log.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "async/descriptor.h"
#include "fuse/service_manager.h"

namespace nfsrdma {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

TEST_CASE("log: a message is one object of JSON in one line, whatever is in it") {
  const system_clock::time_point time{milliseconds(1'700'000'000'007)};
  CHECK(fuse::json_line("server: a \"b\" \\ c", time) ==
        R"({"time":"2023-11-14T22:13:20.007Z","program":"nfsrdma-fuse","message":"server: a \"b\" \\ c"})");
  const std::string line = fuse::json_line("two\nlines \x1b \xff", time);
  for (const char c : line) CHECK((c >= ' ' && c <= '~'));
  CHECK(line.ends_with(R"("message":"two\\nlines \\x1b \\xff"})"));
}

/// Binds a socket to the address, has a message sent there, and returns what arrived.
std::string told_to(const std::string& name, const std::string& assignments) {
  const async::Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name.front() == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  fuse::tell_service_manager(assignments);
  ::unsetenv("NOTIFY_SOCKET");
  std::array<char, 200> data{};
  const ssize_t got = ::recv(socket.get(), data.data(), data.size(), 0);
  return got < 0 ? "" : std::string(data.data(), static_cast<std::size_t>(got));
}

TEST_CASE("service manager: the socket that the environment names is told, and nobody without it") {
  const std::string expected = "READY=1\nMAINPID=" + std::to_string(::getpid());
  std::array<char, 32> directory{"/tmp/nfsrdma-notify-XXXXXX"};
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  const std::string path = std::string(directory.data()) + "/socket";
  CHECK(told_to(path, "READY=1") == expected);
  CHECK(told_to("@nfsrdma-notify-" + std::to_string(::getpid()), "READY=1") == expected);
  fuse::tell_service_manager("READY=1");  // no variable
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  ::unlink(path.c_str());
  fuse::tell_service_manager("READY=1");  // nobody listens
  ::setenv("NOTIFY_SOCKET", std::string(200, 'x').c_str(), 1);
  fuse::tell_service_manager("READY=1");  // no name of a socket
  ::unsetenv("NOTIFY_SOCKET");
  ::rmdir(directory.data());
}

}  // namespace
}  // namespace nfsrdma
