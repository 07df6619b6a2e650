// Who waits for a mount, who locks through it, and by which name it is known.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>

#include "connect/server.h"
#include "fuse/client_id.h"
#include "fuse/endings.h"
#include "fuse/lock_owners.h"
#include "support/mounted.h"
#include "support/scratch.h"

namespace nfsrdma::fuse {
namespace {

using namespace testing;

std::string status_text(std::uint64_t own, std::uint64_t shared, std::uint64_t blocked, std::uint64_t ignored,
                        std::uint64_t caught, int tracer = 0, const char* state = "S (sleeping)") {
  const auto hex = [](std::uint64_t value) {
    char out[20];
    std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value));
    return std::string(out);
  };
  return "Name:\tSigPnd: x\nState:\t" + std::string(state) + "\nTracerPid:\t" + std::to_string(tracer) +
         "\nSigQ:\t1/3\nSigPnd:\t" + hex(own) + "\nShdPnd:\t" + hex(shared) + "\nSigBlk:\t" + hex(blocked) +
         "\nSigIgn:\t" + hex(ignored) + "\nSigCgt:\t" + hex(caught) + "\n";
}
constexpr std::uint64_t bit(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

/// A file on the test server, and a descriptor of it.
struct OneFile : MountedEngine {
  void open() {
    server.add_file("/f", "text");
    mount();
    handle = get(files->open(who, lookup("f").inode, O_RDWR)).handle;
  }
  void close() {
    CHECK(ok(client->run(files->close(handle))));
    handle.reset();
  }
  std::shared_ptr<fs::OpenHandle> handle;
};

}  // namespace

TEST_CASE("F7 which signals end a thread that waits") {
  CHECK_FALSE(has_fatal_signal(status_text(0, 0, 0, 0, 0)));
  CHECK(has_fatal_signal(status_text(bit(SIGKILL), 0, 0, 0, 0)));
  CHECK(has_fatal_signal(status_text(0, bit(SIGKILL), ~0ULL, 0, 0, 77)));
  CHECK(has_fatal_signal(status_text(0, bit(SIGQUIT), 0, 0, 0)));                   // dumps core
  CHECK(has_fatal_signal(status_text(0, bit(40), 0, 0, 0)));                        // a realtime signal
  CHECK_FALSE(has_fatal_signal(status_text(0, bit(SIGTERM), 0, 0, bit(SIGTERM))));  // has a handler
  CHECK_FALSE(has_fatal_signal(status_text(0, bit(SIGTERM), bit(SIGTERM), 0, 0)));
  CHECK_FALSE(has_fatal_signal(status_text(0, bit(SIGTERM), 0, bit(SIGTERM), 0)));
  CHECK_FALSE(has_fatal_signal(status_text(bit(SIGTERM), 0, 0, 0, 0, 77)));  // a debugger's
  for (const int harmless : {SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH}) {
    CHECK_FALSE(has_fatal_signal(status_text(0, bit(harmless), 0, 0, 0)));
  }
  CHECK(has_fatal_signal(status_text(0, 0, 0, 0, 0, 0, "Z (zombie)")));
  CHECK_FALSE(has_fatal_signal(""));
  CHECK_FALSE(has_fatal_signal("SigPnd"));
}

TEST_CASE("F7 a thread on its way out because of a signal is one that was killed") {
  const auto stat = [](unsigned flags, int code) {
    std::string out = "12 (a )b 4) S";
    for (int i = 4; i <= 52; ++i)
      out += " " + std::to_string(i == 9 ? flags : i == 52 ? static_cast<unsigned>(code) : 1U);
    return out + "\n";
  };
  CHECK(dies_of_signal(stat(0x400004, SIGKILL)));
  CHECK(dies_of_signal(stat(0x4, 0x80 | SIGSEGV)));
  CHECK_FALSE(dies_of_signal(stat(0x400000, SIGKILL)));
  CHECK_FALSE(dies_of_signal(stat(0x4, 1 << 8)));  // exit(1)
  CHECK_FALSE(dies_of_signal("12 (x) S 1 2 3"));
  CHECK_FALSE(dies_of_signal(""));
  CHECK(fate_of(::getpid()) == Fate::goes_on);
  CHECK(fate_of(0) == Fate::unknown);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(fate_of(child) == Fate::ends);
  CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("F9 a process's locks go at its close of any descriptor, a description's at the last of its own") {
  LockOwners owners;
  constexpr LockOwners::Inode kFile = 5, kOther = 6;
  constexpr LockOwners::Owner kProcess = 100, kDescription = 200;
  owners.locks(kFile, 1, kProcess, 11);
  owners.locks(kFile, 2, kProcess, 12);
  owners.locks(kFile, 1, kDescription, 13);
  owners.locks(kOther, 3, kProcess, 14);
  CHECK(owners.process(kFile, kProcess) == 12);
  CHECK(owners.process(kFile, kDescription) == 13);
  CHECK(owners.process(kFile, 300) == 0);
  // Through a third descriptor that it never locked through.
  CHECK(owners.closes(kFile, kProcess) == std::vector<LockOwners::File>{1, 2});
  CHECK(owners.closes(kFile, kProcess).empty());
  // It locks again elsewhere: when the first open file goes at last (it was mapped), that stays.
  owners.locks(kFile, 2, kProcess, 12);
  CHECK(owners.releases(kFile, 1) == std::vector<LockOwners::Owner>{kDescription});
  CHECK(owners.process(kFile, kProcess) == 12);
  CHECK(owners.releases(kFile, 2) == std::vector<LockOwners::Owner>{kProcess});
  CHECK(owners.releases(kOther, 4).empty());
  CHECK(owners.releases(kOther, 3) == std::vector<LockOwners::Owner>{kProcess});
  CHECK(owners.empty());
}

TEST_CASE(
    "F9 release_locks lets all of an owner's locks go while the file stays open, and forgets the owner") {
  OneFile m;
  m.open();
  CHECK(ok(m.client->run(m.files->lock(m.handle, {1, true, {0, 10}}, nullptr))));
  CHECK(ok(m.client->run(m.files->lock(m.handle, {2, true, {20, 10}}, nullptr))));
  CHECK(ok(m.client->run(m.files->release_locks(m.handle, 1))));
  CHECK(m.server.locks("/f") == "20-30w");
  CHECK(m.server.lock_states() == 1);
  m.close();
}

TEST_CASE("F7 F_SETLKW can be given up while it waits for what was written before") {
  OneFile m;
  m.open();
  m.server.hold(nfs4::OP_WRITE);
  const std::string text = "written";
  CHECK(ok(m.client->run(m.files->write(m.handle, {}, bytes(text), 0))));
  auto wait = std::make_shared<locking::LockWait>(m.client->loop);
  auto task = m.files->lock(m.handle, {1, true, {0, 10}}, wait);
  m.client->start(task);
  CHECK(m.client->turn_until([&] { return m.server.held() == 1; }));
  CHECK_FALSE(task.done());
  wait->cancel();
  CHECK(m.client->turn_until([&] { return task.done(); }));
  CHECK(errno_of(task.await_resume()) == EINTR);
  CHECK(m.server.count(nfs4::OP_LOCK) == 0);
  m.server.release();
  m.close();
  CHECK(m.server.content("/f") == "written");
}

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
        loop, server.target(), {address}, [](const std::string&) {}, std::nullopt,
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

}  // namespace nfsrdma::fuse
