// The name by which the server knows a mount, and which no other mount can take.
#include "fuse/client_id.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include "connect/server.h"
#include "support/engine_fixture.h"
#include "support/scratch.h"

namespace nfsrdma::fuse {
namespace {

using namespace testing;

}  // namespace

TEST_CASE("S17 a mount has the same name again, and no two that live have one") {
  ClientIdentity me{"machine", "host", "root", "server:/export", "/mnt"};
  const std::string name = client_name(me, 0);
  CHECK(name == client_name(me, 0));
  CHECK(name.size() < 300);
  std::set<std::string> all{name, client_name(me, 1)};
  for (auto field : {&ClientIdentity::machine, &ClientIdentity::user, &ClientIdentity::source,
                     &ClientIdentity::mountpoint}) {
    ClientIdentity other = me;
    other.*field += "2";
    all.insert(client_name(other, 0));
  }
  ClientIdentity other = me;
  other.source += "/";
  other.mountpoint.erase(0, 1);  // the parts are told apart
  all.insert(client_name(other, 0));
  CHECK(all.size() == 7);

  me.mountpoint = "/unit-test/" + std::to_string(::getpid());
  auto first = std::make_unique<ClientName>(me);
  CHECK(first->text() == client_name(me, 0));
  {
    const ClientName second(me);
    CHECK(second.text() == client_name(me, 1));
  }
  first.reset();
  CHECK(ClientName(me).text() == client_name(me, 0));
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  const rlimit none{0, files.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const std::string without_socket = ClientName(me).text();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
  CHECK(without_socket.empty());

  MountOptions options;
  options.source = "h:/p";
  options.mountpoint = "/m";
  const std::string usual = client_name(identity_of(options), 0);
  CHECK(usual == client_name(identity_of(options), 0));
  options.client_id = "mine";
  CHECK(client_name(identity_of(options), 0) != usual);
}

TEST_CASE("S17 nobody else can take a mount's name, and two directories do not make two of one") {
  const Scratch scratch("claims");
  const std::string own = scratch.path() + "/own", other = scratch.path() + "/other";
  const ClientIdentity me{"machine", "host", "root", "server:/export",
                          "/unit-test/claims/" + std::to_string(::getpid())};
  const std::string name = client_name(me, 0);
  const auto files = [](const std::string& directory) {
    return std::distance(std::filesystem::directory_iterator(directory), {});
  };
  {
    const ClientName first(me, own);
    CHECK(first.text() == name);
    CHECK(files(own) == 1);
    CHECK(ClientName(me, own).text() == client_name(me, 1));
    CHECK(ClientName(me, other).text() == client_name(me, 1));  // by the socket
    CHECK(files(own) == 1);
    CHECK(files(other) == 0);
  }
  CHECK(files(own) == 0);

  // A socket that no process of this user's listens at is somebody else's.
  const int squatter = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string start = name.substr(0, sizeof address.sun_path - 1);
  start.copy(address.sun_path + 1, start.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + start.size());
  REQUIRE(::bind(squatter, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  {
    const ClientName first(me, own);
    CHECK(first.text() == name);
    CHECK(ClientName(me, own).text() == client_name(me, 1));
  }
  // Neither is a directory that others can write to, or a link to one.
  std::filesystem::create_directory(scratch.path() + "/open");
  REQUIRE(::chmod((scratch.path() + "/open").c_str(), 01777) == 0);
  std::filesystem::create_symlink("own", scratch.path() + "/link");
  for (const char* planted : {"/open", "/link", "/none/there"}) {
    CAPTURE(planted);
    CHECK(ClientName(me, scratch.path() + planted).text() == client_name(me, 1));
  }
  ::close(squatter);
  for (const char* planted : {"/open", "/link"}) {
    CAPTURE(planted);
    CHECK(ClientName(me, scratch.path() + planted).text() == name);
  }

  // The kernel ends the claim of a process that is killed.
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const ClientName held(me, own);
    (void)!::write(pipe[1], "x", 1);
    ::pause();
  }
  char byte = 0;
  REQUIRE(::read(pipe[0], &byte, 1) == 1);
  CHECK(ClientName(me, own).text() == client_name(me, 1));
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  ::close(pipe[0]);
  ::close(pipe[1]);
  CHECK(files(own) == 1);
  CHECK(ClientName(me, own).text() == name);
}

TEST_CASE("S17 a client that comes back after it was killed finds the locks of its former life gone") {
  NfsServer server;
  server.add_file("/f", "text");
  rpc::Address address;
  address.storage = loopback(server.port());
  address.length = sizeof(sockaddr_in);
  const auto life = [&](const std::string& owner, bool dies) {
    async::Loop loop;
    connect::Server client(
        loop, server.connect_target(), {address}, [](const std::string&) {}, std::nullopt,
        connect::Surroundings::system(owner));
    REQUIRE(ok(loop.run(client.connect(loop.now() + 5s))));
    const std::string before = server.locks("/f");
    if (dies) {
      auto made = loop.run(client.engine()->open_at(user(1), {}, "f", engine::Access::both, std::nullopt));
      REQUIRE(ok(made));
      CHECK(ok(loop.run(made->file->lock({1, true, {0, 10}}))));
      client.shut_down();
      loop.drop_tasks();
    } else {
      CHECK(ok(loop.run(client.close(loop.now() + 5s))));
    }
    client.shut_down();
    loop.drop_tasks();
    return before;
  };
  CHECK(life("nfsrdma test mount", true).empty());
  CHECK(server.locks("/f") == "0-10w");
  CHECK(life("somebody else", false) == "0-10w");
  CHECK(life("nfsrdma test mount", false).empty());
}

TEST_CASE("S17 who mounts by another principal, or for somebody else, is another client") {
  const auto name_with = [](const std::string& list) {
    MountOptions options;
    REQUIRE(ok(set_options(options, list)));
    options.source = "h:/p";
    options.mountpoint = "/m";
    return client_name(identity_of(options), 0);
  };
  const std::set<std::string> all{name_with("hard"), name_with("sec=krb5"), name_with("sec=krb5p"),
                                  name_with("uid=77,gid=88"), name_with("port=20050")};
  CHECK(all.size() == 5);
  CHECK(name_with("sec=sys") == name_with("sec=sys,soft"));
}

}  // namespace nfsrdma::fuse
