// nfsrdma-fuse as a process on a real kernel, with the test server behind it: what only the two together
// show. Signals, locks at close(2), the end of a mount, remounting.
//
// Needs /dev/fuse and root; without them every case says that it is skipped. These wait for real time, where
// that something does *not* happen is what is to be seen.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "fuse/mountinfo.h"
#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
namespace files = std::filesystem;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A child that runs `work`, and the status with which it ends.
class Child {
 public:
  explicit Child(const std::function<int()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    for (int number = 1; number < SIGSYS; ++number) std::signal(number, SIG_DFL);  // doctest has handlers
    ::_exit(work());
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  /// What wait(2) gives; none: it has not ended by then.
  std::optional<int> ended(std::chrono::milliseconds most) {
    int status = 0;
    if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, most)) return std::nullopt;
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

/// A server, and a daemon that has it mounted.
struct Mounting {
  NfsServer server;
  const std::string place = [] {
    std::string name = files::temp_directory_path() / "nfsrdma-mount-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    return name;
  }();
  const std::string log = place + ".log";
  std::optional<Child> daemon;

  ~Mounting() {
    server.release();
    ::umount2(place.c_str(), MNT_DETACH);
    if (daemon) (void)daemon->ended(15s);
    files::remove(place);
    files::remove(log);
  }
  [[nodiscard]] std::vector<std::string> words(const std::string& name, const std::string& options) const {
    return {name,
            "127.0.0.1:/",
            place,
            "--log",
            log,
            "-o",
            "fabric=iwarp,port=" + std::to_string(server.port()) + (options.empty() ? "" : "," + options)};
  }
  static int run(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    ::execv(std::getenv("NFSRDMA_FUSE"), pointers.data());
    return 127;
  }
  [[nodiscard]] bool stands() const {
    const auto mount = fuse::topmost_mount(content_of("/proc/self/mountinfo"), place);
    return mount && mount->type == "fuse.nfsrdma";
  }
  void mount(const std::string& options = "") {
    auto all = words("nfsrdma-fuse", options);
    all.push_back("-f");
    daemon.emplace([&] { return run(all); });
    REQUIRE(eventually([&] { return stands(); }, 10s));
  }
  /// As mount(8) would, and whether it worked.
  [[nodiscard]] int helper(const std::string& options) const {
    Child child([&] { return run(words("mount.nfsrdma", options)); });
    return child.ended(20s).value_or(-1);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return place + "/" + name; }
  [[nodiscard]] int open(const std::string& name) const { return ::open(path(name).c_str(), O_RDWR); }
};

void do_nothing(int) {}
void handle(int number) {
  struct sigaction action{};
  action.sa_handler = do_nothing;  // without SA_RESTART
  ::sigaction(number, &action, nullptr);
}

struct flock whole_file(short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}
/// `command`: F_SETLK or F_OFD_SETLK.
bool lock_whole(int fd, int command) {
  auto lock = whole_file(F_WRLCK);
  return ::fcntl(fd, command, &lock) == 0;
}

}  // namespace

TEST_CASE("F7 a signal with a handler does not interrupt open(2) on a hard mount, a fatal one ends it") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  m.server.hold(nfs4::OP_OPEN);
  const auto open_it = [&] {
    handle(SIGUSR1);
    return m.open("f") >= 0 ? 0 : errno;
  };
  {
    Child child(open_it);
    REQUIRE(eventually([&] { return m.server.held() == 1; }));
    child.signal(SIGUSR1);
    CHECK_FALSE(child.ended(1600ms));
    m.server.release();
    CHECK(child.ended(3s) == 0);
  }
  m.server.hold(nfs4::OP_OPEN);
  for (const int fatal : {SIGKILL, SIGTERM, SIGQUIT}) {
    Child child(open_it);
    REQUIRE(eventually([&] { return m.server.held() == 1; }));
    child.signal(SIGUSR1);
    CHECK_FALSE(child.ended(300ms));
    child.signal(fatal);
    const auto status = child.ended(1s);
    REQUIRE(status);
    CHECK(WTERMSIG(*status) == fatal);
    m.server.release();
    m.server.hold(nfs4::OP_OPEN);
    CHECK(eventually([&] { return m.server.held() == 0; }));
  }
  m.server.release();
  CHECK(eventually([&] { return m.server.open_states() == 0; }));  // what nobody heard of was closed
}

TEST_CASE("F7 a killed writer waits for its data for less than a second, one that ends waits") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  const auto write_it = [&](bool stays) {
    const int fd = m.open("f");
    const std::string data(10000, 'x');
    if (::write(fd, data.data(), data.size()) != 10000) return 1;
    if (stays) ::pause();
    return 0;
  };
  m.server.hold(nfs4::OP_WRITE);
  {
    Child child([&] { return write_it(true); });
    REQUIRE(eventually([&] { return m.server.held() == 1; }));
    child.signal(SIGKILL);
    CHECK_FALSE(child.ended(300ms));
    CHECK(child.ended(1s));
  }
  m.server.release();
  CHECK(eventually([&] { return m.server.content("/f") == std::string(10000, 'x'); }));
  m.server.hold(nfs4::OP_WRITE);
  Child child([&] { return write_it(false); });
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  CHECK_FALSE(child.ended(1500ms));
  m.server.release();
  CHECK(child.ended(3s) == 0);
}

TEST_CASE("F9 locks of an open file description go with it, though the file is open elsewhere") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  const int elsewhere = m.open("f");
  const int locked = m.open("f");
  REQUIRE(locked >= 0);
  REQUIRE(lock_whole(locked, F_OFD_SETLK));
  CHECK(m.server.locks("/f") == "0-w");
  const int duplicate = ::dup(locked);
  ::close(locked);
  CHECK(m.server.locks("/f") == "0-w");
  ::close(duplicate);
  CHECK(eventually([&] { return m.server.locks("/f").empty(); }));
  // A process's go at its close of any descriptor.
  const int again = m.open("f");
  REQUIRE(lock_whole(elsewhere, F_SETLK));
  CHECK(m.server.locks("/f") == "0-w");
  ::close(again);
  CHECK(m.server.locks("/f").empty());
  ::close(elsewhere);
}

TEST_CASE("F9 F_GETLK names the process of this machine that holds the lock") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  Child child([&] {
    const int fd = m.open("f");
    if (!lock_whole(fd, F_SETLK)) return 1;
    ::pause();
    return 0;
  });
  REQUIRE(eventually([&] { return m.server.locks("/f") == "0-w"; }));
  const int fd = m.open("f");
  auto lock = whole_file(F_WRLCK);
  REQUIRE(::fcntl(fd, F_GETLK, &lock) == 0);
  CHECK(lock.l_type == F_WRLCK);
  CHECK(lock.l_pid == child.pid());
  child.signal(SIGKILL);
  CHECK(child.ended(3s));
  CHECK(eventually([&] { return m.server.locks("/f").empty(); }));
  m.server.lock("/f", 0, 10);
  lock = whole_file(F_WRLCK);
  REQUIRE(::fcntl(fd, F_GETLK, &lock) == 0);
  CHECK(lock.l_type == F_WRLCK);
  CHECK(lock.l_pid == 0);
  ::close(fd);
}

TEST_CASE("mount: names of one directory are looked up beside each other") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.server.add_file("/g", "text");
  m.mount();
  m.server.hold(nfs4::OP_LOOKUP);
  const auto look = [&](const char* name) { return ::access(m.path(name).c_str(), F_OK) == 0 ? 0 : 1; };
  Child first([&] { return look("f"); });
  Child second([&] { return look("g"); });
  CHECK(eventually([&] { return m.server.held() == 2; }));
  m.server.release();
  CHECK(first.ended(3s) == 0);
  CHECK(second.ended(3s) == 0);
}

TEST_CASE("S17 locks of a mount that was killed are gone as soon as it is mounted again") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  const int fd = m.open("f");
  REQUIRE(lock_whole(fd, F_SETLK));
  CHECK(m.server.locks("/f") == "0-w");
  m.daemon->signal(SIGKILL);
  REQUIRE(m.daemon->ended(5s));
  ::close(fd);
  CHECK(m.server.locks("/f") == "0-w");
  REQUIRE(::umount2(m.place.c_str(), MNT_DETACH) == 0);
  m.mount();
  CHECK(m.server.locks("/f").empty());
  CHECK(m.server.clients() == 1);
}

TEST_CASE("F17 SIGTERM brings what the kernel has gathered to the server") {
  for (const char* options : {"writeback_cache", ""}) {
    Mounting m;
    m.server.add_file("/f", "text");
    m.server.add_file("/g", std::string(20000, ' '));
    m.mount(options);
    const int fd = m.open("f");
    const std::string data = pattern(3U << 20);
    REQUIRE(::write(fd, data.data(), data.size()) == static_cast<ssize_t>(data.size()));
    // Shared mappings gather without a write-back cache, too.
    const int mapped = m.open("g");
    void* memory = ::mmap(nullptr, 20000, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
    REQUIRE(memory != MAP_FAILED);
    std::memset(memory, 'm', 20000);
    m.daemon->signal(SIGTERM);
    CHECK(m.daemon->ended(8s) == 0);
    CHECK(m.server.stable_content("/f") == data);
    CHECK(m.server.stable_content("/g") == std::string(20000, 'm'));
    CHECK(m.server.open_states() == 0);
    CHECK(m.server.clients() == 0);
    ::munmap(memory, 20000);
    ::close(mapped);
    ::close(fd);
  }
}

TEST_CASE("F17 umount brings everything to the server") {
  Mounting m;
  m.mount("writeback_cache");
  const std::string data = pattern(3U << 20);
  std::ofstream(m.path("f")) << data;
  REQUIRE(::umount(m.place.c_str()) == 0);
  CHECK(m.daemon->ended(5s) == 0);
  CHECK(m.server.stable_content("/f") == data);
  CHECK(m.server.clients() == 0);
}

TEST_CASE(
    "S18 where the server is gone the same signal twice ends it at once, and the log has what is lost") {
  Mounting m;
  m.server.add_file("/lost-file", "text");
  m.mount();
  const int fd = m.open("lost-file");
  const std::string data(1U << 20, 'x');
  m.server.hold(nfs4::OP_WRITE, false);
  REQUIRE(::write(fd, data.data(), data.size()) == static_cast<ssize_t>(data.size()));
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  m.server.go_away();
  m.daemon->signal(SIGTERM);
  CHECK_FALSE(m.daemon->ended(1s));
  m.daemon->signal(SIGTERM);
  CHECK(m.daemon->ended(3s) == 0);
  CHECK(content_of(m.log).find("lost-file: not all that was written") != std::string::npos);
  CHECK_FALSE(m.stands());
  ::close(fd);
}

TEST_CASE("S18 where the server is gone one signal ends it in bounded time") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount("writeback_cache");
  const int fd = m.open("f");
  m.server.go_away();
  Child reader([&] { return ::open(m.path("other").c_str(), O_RDONLY); });
  const std::string data(1U << 20, 'x');
  (void)!::write(fd, data.data(), data.size());
  m.daemon->signal(SIGTERM);
  CHECK(m.daemon->ended(30s) == 0);
  CHECK(reader.ended(3s));
  CHECK_FALSE(m.stands());
  ::close(fd);
}

TEST_CASE("F18 remount,ro and back; what the daemon has is not changed") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount("allow_other,rsize=64K");
  CHECK(m.helper("remount,ro,rsize=64K,hard") == 0);
  CHECK(m.open("f") == -1);
  CHECK(errno == EROFS);
  CHECK(m.helper("remount,soft") != 0);
  CHECK(m.helper("remount,rw,noexec") == 0);
  const int fd = m.open("f");
  CHECK(fd >= 0);
  ::close(fd);
  CHECK(fuse::topmost_mount(content_of("/proc/self/mountinfo"), m.place)->options.find("noexec") !=
        std::string::npos);
}

TEST_CASE("F18 bg goes on in the background when the server cannot be reached, retry=0 does not") {
  Mounting m;
  m.server.go_away();
  CHECK(WEXITSTATUS(m.helper("retry=0,connect_timeout=300ms")) == 32);
  CHECK(m.helper("bg,retry=1,connect_timeout=300ms") == 0);
  CHECK_FALSE(m.stands());
  m.server.come_back();
  CHECK(eventually([&] { return m.stands(); }, 15s));
  CHECK(::umount(m.place.c_str()) == 0);
  CHECK(eventually([&] { return m.server.clients() == 0; }));
}

}  // namespace nfsrdma

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0 || std::getenv("NFSRDMA_FUSE") == nullptr) {
    std::cerr << "SKIPPED: this needs root, /dev/fuse, and NFSRDMA_FUSE with the path of nfsrdma-fuse\n";
    return kSkipped;
  }
  doctest::Context context(argc, argv);
  return context.run();
}
