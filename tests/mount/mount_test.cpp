// nfsrdma-fuse as a process on a real kernel, with the test server behind it: what only the two together
// show. Signals, locks at close(2), the end of a mount, remounting.
//
// Needs /dev/fuse and root; without them every case says that it is skipped. These wait for real time, where
// that something does *not* happen is what is to be seen.
//
// row: F7 F9 F11 F13 F17 F18 F19 F23 F29 F30 S17 S18
#define DOCTEST_CONFIG_IMPLEMENT
#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "fs/directory_pages.h"
#include "fuse/mountinfo.h"
#include "mount/mounting.h"
#include "support/engine_fixture.h"
#include "support/nfs_responder.h"
#include "support/scratch.h"
#include "support/skipped.h"

namespace nfsrdma {
namespace {

using namespace testing;
namespace files = std::filesystem;

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

TEST_CASE("F9 a process's locks go at its close of a descriptor that it has opened as another user") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount("allow_other");
  const int mine = m.open("f");
  REQUIRE(lock_whole(mine, F_SETLK));
  CHECK(m.server.locks("/f") == "0-w");
  REQUIRE(::seteuid(1000) == 0);
  const int others = ::open(m.path("f").c_str(), O_RDONLY);
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(others >= 0);
  ::close(others);
  CHECK(m.server.locks("/f").empty());
  ::close(mine);
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
  // One that goes further than this machine's offsets goes to the end.
  m.server.unlock("/f");
  m.server.lock("/f", 5, (std::uint64_t{1} << 63U) + 100);
  lock = whole_file(F_WRLCK);
  REQUIRE(::fcntl(fd, F_GETLK, &lock) == 0);
  CHECK(lock.l_type == F_WRLCK);
  CHECK(lock.l_start == 5);
  CHECK(lock.l_len == 0);
  ::close(fd);
}

TEST_CASE("mount: a rename that may not replace, or that exchanges two names, is refused") {
  Mounting m;
  m.server.add_file("/a", "of a");
  m.server.add_file("/b", "of b");
  m.mount();
  const auto renamed = [&](const char* to, unsigned flags) {
    return ::renameat2(AT_FDCWD, m.path("a").c_str(), AT_FDCWD, m.path(to).c_str(), flags) == 0 ? 0 : errno;
  };
  CHECK(renamed("new", RENAME_NOREPLACE) == EINVAL);
  CHECK(renamed("b", RENAME_EXCHANGE) == EINVAL);
  CHECK(m.server.content("/a") == "of a");
  CHECK(m.server.content("/b") == "of b");
  CHECK(renamed("new", 0) == 0);
  CHECK(m.server.content("/new") == "of a");
}

TEST_CASE("mount: stat(2) of a name that is looked up each time uses the attributes that came with it") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount("allow_other");
  const auto asked = [&] {
    const std::string all = content_of(m.path(".nfsrdma-stats")), begin = "\nfuse GETATTR count=";
    const auto at = all.find(begin);
    return at == std::string::npos ? 0 : std::atoi(all.c_str() + at + begin.size());
  };
  constexpr int kTimes = 20;
  struct stat found{};
  const int before = asked();
  for (int i = 0; i < kTimes; ++i) CHECK(::stat(m.path("f").c_str(), &found) == 0);
  CHECK(asked() - before < kTimes / 2);
}

TEST_CASE("mount: names of one directory are looked up beside each other") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.server.add_file("/g", "text");
  m.mount();
  // Until INIT is answered the kernel looks names up one by one.
  struct stat root{};
  REQUIRE(::stat(m.place.c_str(), &root) == 0);
  m.server.hold(nfs4::OP_LOOKUP);
  const auto look = [&](const char* name) { return ::access(m.path(name).c_str(), F_OK) == 0 ? 0 : 1; };
  Child first([&] { return look("f"); });
  Child second([&] { return look("g"); });
  CHECK(eventually([&] { return m.server.held() == 2; }));
  m.server.release();
  CHECK(first.ended(3s) == 0);
  CHECK(second.ended(3s) == 0);
}

TEST_CASE(
    "mount: the statistics are there in three formats, in files that no listing has and nobody removes") {
  Mounting m;
  // A smaller file is read by the call that opens it.
  const std::string text(20'000, 't');
  m.server.add_file("/f", text);
  m.mount();
  CHECK(content_of(m.path("f")) == text);
  const auto begins = [&](const char* name, const char* text) {
    CAPTURE(name);
    CHECK(content_of(m.path(name)).starts_with(text));
    CHECK(::unlink(m.path(name).c_str()) == -1);
    CHECK(errno == EPERM);
  };
  begins(".nfsrdma-stats", "nfsrdma-fuse statistics 1\n");
  begins(".nfsrdma-stats.prom", "# HELP nfsrdma_mount_info ");
  begins(".nfsrdma-mountstats", "device ");
  CHECK(content_of(m.path(".nfsrdma-mountstats")).find("\n\tREAD: 1 1 0 ") != std::string::npos);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(m.place))
    names.insert(entry.path().filename());
  CHECK(names == std::set<std::string>{"f"});
}

TEST_CASE(
    "mount: metrics are written to a file at an interval, a failure is logged once, and the end removes it") {
  Mounting m;
  m.server.add_file("/f", "text");
  const Scratch place("mount-metrics");
  const std::string file = place.path() + "/m.prom",
                    reads = "_count{mountpoint=\"" + m.place + "\",operation=\"READ\"} ";
  m.mount("metrics_interval=1,metrics=" + file);
  CHECK(eventually([&] { return content_of(file).starts_with("# HELP nfsrdma_mount_info "); }));
  CHECK(content_of(m.path("f")) == "text");
  CHECK(eventually([&] { return content_of(file).find(reads + "1\n") != std::string::npos; }, 5s));
  // Something else takes the name: the mount says so once, leaves it, and goes on when it is gone.
  files::remove(file);
  std::ofstream(file) << "precious";
  const auto said = [&](const char* words) {
    const std::string log = content_of(m.log);
    const auto at = log.find(words);
    return at == std::string::npos ? 0 : log.find(words, at + 1) == std::string::npos ? 1 : 2;
  };
  CHECK(eventually([&] { return said("is not replaced") == 1; }, 5s));
  std::this_thread::sleep_for(2500ms);
  CHECK(said("is not replaced") == 1);
  CHECK(content_of(file) == "precious");
  files::remove(file);
  CHECK(eventually([&] { return said("metrics are written again") == 1; }, 5s));
  CHECK(files::exists(file));
  m.daemon->signal(SIGTERM);
  CHECK(m.daemon->ended(10s) == 0);
  CHECK_FALSE(files::exists(file));
}

TEST_CASE("mount: a trace is switched on and off while the mount is used, by words in a file of its root") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  const Scratch place("mount-trace");
  const std::string control = m.path(".nfsrdma-trace"), file = place.path() + "/t.pcapng";
  const auto tell = [&](const std::string& words) {
    const int fd = ::open(control.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    REQUIRE(fd >= 0);
    const ssize_t written = ::write(fd, words.data(), words.size());
    const int code = written < 0 ? errno : 0;
    ::close(fd);
    return code;
  };
  CHECK(content_of(control) == "off\n");
  CHECK(tell("on\n") == EINVAL);
  CHECK(tell("on " + m.path("t") + "\n") == EXDEV);  // the daemon does not wait for itself
  CHECK(tell("on " + file + "\n") == 0);
  CHECK(content_of(m.path("f")) == "text");
  CHECK(content_of(control).starts_with("on " + file + "\nwritten_bytes="));
  CHECK(tell("off") == 0);
  const auto size = files::file_size(file);
  CHECK(size > 500);
  struct stat facts{};
  REQUIRE(::stat(m.path("f").c_str(), &facts) == 0);
  CHECK(files::file_size(file) == size);
  CHECK(::truncate(control.c_str(), 0) == 0);
  CHECK(::chmod(control.c_str(), 0666) == -1);
  CHECK(::unlink(control.c_str()) == -1);
  CHECK(::open(m.path(".nfsrdma-stats").c_str(), O_WRONLY | O_CLOEXEC) == -1);
}

TEST_CASE(
    "mount: what is read ahead follows what is measured, the statistics say why, and no byte is an old one") {
  Mounting m;
  constexpr std::size_t kSize = 24U << 20;
  std::string text(kSize, '\0');
  for (std::size_t i = 0; i < kSize; ++i) text[i] = static_cast<char>('a' + i / 4096 % 26);
  m.server.add_file("/f", text);
  m.mount();
  CHECK(m.statistic("window read", "why") == "nothing_known");
  CHECK(m.statistic("window read", "window_bytes") == "2097152");
  const auto mount = fuse::mounted_at(m.place);
  REQUIRE(mount);
  const std::string setting = "/sys/class/bdi/" + mount->device + "/read_ahead_kb";
  const auto set_to = [&] { return std::to_string(std::stoul(content_of(setting)) << 10U); };
  CHECK(set_to() == std::to_string(2U << 20));
  CHECK(content_of(m.path("f")) == text);
  CHECK(m.statistic("window read", "bytes_per_second").size() > 6);
  CHECK(std::stoul(m.statistic("window read", "window_bytes")) >= 2U << 20);
  CHECK(m.statistic("window read", "why") != "nothing_known");
  CHECK(m.statistic("window read", "kernel_ahead_bytes") == set_to());
  // Somebody who reads 16 KiB at a time, past the kernel's own reading ahead.
  const int fd = ::open(m.path("f").c_str(), O_RDONLY);
  REQUIRE(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  REQUIRE(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0);
  std::string piece(16U << 10, '\0');
  off_t at = 0;
  for (; at < 1 << 20; at += static_cast<off_t>(piece.size())) {
    REQUIRE(::pread(fd, piece.data(), piece.size(), at) == static_cast<ssize_t>(piece.size()));
    CHECK(text.compare(static_cast<std::size_t>(at), piece.size(), piece) == 0);
  }
  CHECK(std::stoul(m.statistic("data ahead", "hits")) > 30);
  CHECK(std::stoul(m.statistic("window read", "ahead_bytes")) > 0);
  // What is written here is what is read behind it, though the old bytes have been read ahead.
  const int writer = m.open("f");
  const std::string written(64U << 10, 'Z');
  CHECK(::pwrite(writer, written.data(), written.size(), at) == static_cast<ssize_t>(written.size()));
  CHECK(::close(writer) == 0);
  REQUIRE(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  CHECK(::pread(fd, piece.data(), piece.size(), at) == static_cast<ssize_t>(piece.size()));
  CHECK(piece == written.substr(0, piece.size()));
  ::close(fd);
  CHECK(eventually([&] { return m.statistic("window read", "ahead_bytes") == "0"; }, 10s));
  CHECK(m.statistic("window write", "why") != "-");
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

TEST_CASE("F17 SIGTERM brings what the kernel has gathered also where the root may not be listed") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount("writeback_cache");
  const int fd = m.open("f");
  const std::string data = pattern(1U << 20);
  REQUIRE(::write(fd, data.data(), data.size()) == static_cast<ssize_t>(data.size()));
  m.server.answer(nfs4::OP_READDIR, nfs4::NFS4ERR_ACCESS, 1000);
  m.daemon->signal(SIGTERM);
  CHECK(m.daemon->ended(8s) == 0);
  CHECK(m.server.stable_content("/f") == data);
  CHECK(content_of(m.log).find("is lost") == std::string::npos);
  ::close(fd);
}

TEST_CASE(
    "F17 SIGTERM behind umount -l brings what the kernel has gathered, and leaves another mount there") {
  for (const char* options : {"writeback_cache", ""}) {
    CAPTURE(options);
    Mounting m;
    m.server.add_file("/f", "text");
    m.server.add_file("/g", std::string(200'000, ' '));
    m.mount(options);
    const int fd = m.open("f"), mapped = m.open("g");
    REQUIRE(::write(fd, "TEXT", 4) == 4);
    void* memory = ::mmap(nullptr, 200'000, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
    REQUIRE(memory != MAP_FAILED);
    std::memset(memory, 'm', 200'000);
    ::close(mapped);
    std::memset(memory, 'n', 100'000);  // behind close(2), which had them sent
    REQUIRE(::umount2(m.place.c_str(), MNT_DETACH) == 0);
    REQUIRE(::mount("none", m.place.c_str(), "tmpfs", 0, nullptr) == 0);
    std::ofstream(m.path("other")) << "stays";
    m.daemon->signal(SIGTERM);
    CHECK(m.daemon->ended(8s) == 0);
    CHECK(m.server.stable_content("/f") == "TEXT");
    CHECK((m.server.stable_content("/g") == std::string(100'000, 'n') + std::string(100'000, 'm')));
    CHECK(content_of(m.log).find("is lost") == std::string::npos);
    CHECK(content_of(m.path("other")) == "stays");
    CHECK(m.server.clients() == 0);
    ::munmap(memory, 200'000);
    ::close(fd);
  }
}

TEST_CASE("F17 SIGTERM ends it in order where it has no descriptor left") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  const int fd = m.open("f");
  REQUIRE(::write(fd, "TEXT", 4) == 4);
  constexpr rlimit kNone{3, 3};
  REQUIRE(::prlimit(m.daemon->pid(), RLIMIT_NOFILE, &kNone, nullptr) == 0);
  m.daemon->signal(SIGTERM);
  CHECK(m.daemon->ended(15s) == 0);
  CHECK_FALSE(m.stands());
  CHECK(m.server.stable_content("/f") == "TEXT");
  CHECK(m.server.clients() == 0);
  ::close(fd);
}

TEST_CASE("mount: a read that takes more READs than writev(2) takes pieces is answered") {
  Mounting m;
  const std::string text = pattern(1U << 20);
  m.server.add_file("/f", text);
  m.mount("rsize=1024");
  Child reader([&] {
    // Past the kernel's cache, from where a page begins, it is one request.
    void* memory = ::mmap(nullptr, text.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int fd = ::open(m.path("f").c_str(), O_RDONLY | O_DIRECT);
    if (memory == MAP_FAILED || fd < 0) return 1;
    if (::pread(fd, memory, text.size(), 0) != static_cast<ssize_t>(text.size())) return 2;
    return std::memcmp(memory, text.data(), text.size()) == 0 ? 0 : 3;
  });
  CHECK(reader.ended(10s) == 0);
}

TEST_CASE("mount: the path of an export is no option, whatever is in it") {
  Mounting m;
  m.server.add_file("/a,allow_other\\b/f", "text");
  auto words = m.words("nfsrdma-fuse", "");
  words[1] += "a,allow_other\\b";
  words.emplace_back("-f");
  m.daemon.emplace([&] { return Mounting::run(words); });
  REQUIRE(eventually([&] { return m.stands(); }, 10s));
  CHECK(content_of(m.path("f")) == "text");
  const std::string info = content_of("/proc/self/mountinfo");
  CHECK(info.find(" 127.0.0.1:/a,allow_other\\134b ") != std::string::npos);
  CHECK(fuse::topmost_mount(info, m.place)->super_options.find("allow_other") == std::string::npos);
}

TEST_CASE("F13 what was stored in a mapping is on the server when its lock goes, comes, or lseek(2) asks") {
  for (const char* options : {"writeback_cache", ""}) {
    Mounting m;
    m.server.add_file("/f", std::string(20000, ' '));
    m.mount(options);
    const int fd = m.open("f");
    void* memory = ::mmap(nullptr, 20000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(memory != MAP_FAILED);
    REQUIRE(lock_whole(fd, F_SETLK));
    std::memset(memory, 'a', 20000);
    auto unlock = whole_file(F_UNLCK);
    REQUIRE(::fcntl(fd, F_SETLK, &unlock) == 0);
    CHECK(m.server.stable_content("/f") == std::string(20000, 'a'));
    std::memset(memory, 'b', 20000);
    REQUIRE(lock_whole(fd, F_SETLK));
    CHECK(m.server.content("/f") == std::string(20000, 'b'));
    std::memset(memory, 'c', 20000);
    CHECK(::lseek(fd, 0, SEEK_DATA) == 0);
    CHECK(m.server.content("/f") == std::string(20000, 'c'));
    ::munmap(memory, 20000);
    ::close(fd);
  }
}

namespace {
/// Another client, with one file open.
struct Elsewhere {
  explicit Elsewhere(const Mounting& m) : client(std::move(*Client::connect(m.server.target()))) {
    file = std::move(*client->open("/f", OpenMode::read_write));
  }
  void write(const std::string& text, std::uint64_t offset) const {
    CHECK(file->write(std::as_bytes(std::span(text)), offset, Stability::on_disk));
  }
  std::unique_ptr<Client> client;
  std::unique_ptr<File> file;
};
}  // namespace

TEST_CASE(
    "F23 pages of a file that another client has changed are dropped by open(2), whatever its size and "
    "times") {
  Mounting m;
  m.server.add_file("/f", "old text");
  m.mount();
  CHECK(content_of(m.path("f")) == "old text");
  CHECK(content_of(m.path("f")) == "old text");
  const Elsewhere other(m);
  SetAttributes as_before;
  as_before.modified = other.file->attributes()->modified;
  // Twice, since pages also go where the kernel is told how far the file reaches, which it knows then.
  for (const std::string text : {"new text", "odd text"}) {
    other.write(text, 0);
    CHECK(other.file->set_attributes(as_before));
    CHECK(content_of(m.path("f")) == text);
  }
}

TEST_CASE(
    "F30 a mapping reaches as far as another client has made the file, behind a lock and behind open(2)") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  const Elsewhere other(m);
  const auto map = [&](int fd) {
    return static_cast<volatile char*>(::mmap(nullptr, 1U << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  };
  const int fd = m.open("f");
  volatile char* const mapped = map(fd);
  REQUIRE((mapped != MAP_FAILED));
  CHECK((mapped[0] == 't'));
  // In a child each: beyond the end is SIGBUS.
  const auto behind_a_lock = [&](std::size_t at, char expected) {
    Child child(
        [&] { return lock_whole(fd, F_SETLK) && mapped[at] == expected && mapped[at - 1] == 0 ? 0 : 1; });
    CHECK(child.ended(5s) == 0);
  };
  other.write("x", 50'000);
  behind_a_lock(50'000, 'x');
  other.write("y", 65'536);
  behind_a_lock(65'536, 'y');  // the first byte of a page
  ::munmap(const_cast<char*>(mapped), 1U << 20);
  ::close(fd);
  other.write("z", 100'000);
  Child child([&] { return map(m.open("f"))[100'000] == 'z' ? 0 : 1; });
  CHECK(child.ended(5s) == 0);
}

TEST_CASE("F23 behind an append to a file that another client has cut lseek(2) goes to its end") {
  Mounting m;
  m.server.add_file("/f", "");
  m.mount();
  const int appending = ::open(m.path("f").c_str(), O_RDWR | O_APPEND);
  const std::string before(20'100, 'a');
  const std::string behind(65'536, 'b');
  REQUIRE(::write(appending, before.data(), before.size()) == 20'100);
  REQUIRE(::fsync(appending) == 0);
  const Elsewhere other(m);
  SetAttributes cut;
  cut.size = 12'288;
  for (int i = 0; i < 5; ++i) {
    CAPTURE(i);
    REQUIRE(other.file->set_attributes(cut));
    const int fd = m.open("f");
    // The kernel takes the file for longer, and sends what it has for the last page there by itself.
    REQUIRE(::write(appending, behind.data(), behind.size()) == 65'536);
    CHECK(::lseek(fd, 0, SEEK_END) == 12'288 + 65'536);
    ::close(fd);
  }
  ::close(appending);
}

TEST_CASE("F11 truncate(2) of a file that may not be written is refused on a mount of one's own") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  REQUIRE(::chmod(m.path("f").c_str(), 0444) == 0);
  const int refused = ::truncate(m.path("f").c_str(), 0) == 0 ? 0 : errno;
  CHECK(refused == EACCES);
  CHECK(m.server.content("/f") == "text");
  REQUIRE(::chmod(m.path("f").c_str(), 0644) == 0);
  CHECK(::truncate(m.path("f").c_str(), 2) == 0);
  CHECK(m.server.content("/f") == "te");
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
    "F17 what ends it with a signal that asks for it, and what was only removed or cut, is on the server, "
    "too") {
  for (const int signal : {SIGINT, SIGHUP}) {
    Mounting m;
    m.server.add_file("/cut", pattern(100'000));
    m.server.add_file("/gone", "text");
    m.mount("writeback_cache");
    const int cut = ::open(m.path("cut").c_str(), O_RDWR);
    REQUIRE(::ftruncate(cut, 50'000) == 0);
    REQUIRE(::pwrite(cut, "end", 3, 60'000) == 3);
    const int gone = ::open(m.path("gone").c_str(), O_RDWR);
    REQUIRE(::unlink(m.path("gone").c_str()) == 0);
    REQUIRE(::write(gone, "x", 1) == 1);
    m.daemon->signal(signal);
    CHECK(m.daemon->ended(8s) == 0);
    CHECK(m.server.stable_content("/cut") ==
          pattern(100'000).substr(0, 50'000) + std::string(10'000, '\0') + "end");
    std::size_t left = 0;
    m.server.on_server([&](Responder& server) { left = server.state.names().size(); });
    CHECK(left == 1);  // what was cut
    CHECK(m.server.clients() == 0);
    ::close(cut);
    ::close(gone);
  }
}

namespace {

/// What name_to_handle_at(2) gives, for open_by_handle_at(2).
struct KernelHandle {
  explicit KernelHandle(const std::string& path) {
    handle().handle_bytes = MAX_HANDLE_SZ;
    int mount = 0;
    REQUIRE(::name_to_handle_at(AT_FDCWD, path.c_str(), &handle(), &mount, 0) == 0);
  }
  struct file_handle& handle() { return *reinterpret_cast<struct file_handle*>(bytes.data()); }
  /// A descriptor, or the errno below zero.
  int open(const std::string& place, int flags) {
    const int mount = ::open(place.c_str(), O_RDONLY | O_DIRECTORY);
    const int fd = ::open_by_handle_at(mount, &handle(), flags);
    const int code = errno;
    ::close(mount);
    return fd >= 0 ? fd : -code;
  }
  alignas(struct file_handle) std::array<char, sizeof(struct file_handle) + MAX_HANDLE_SZ> bytes{};
};

std::string read_all(int fd) {
  std::string out(1000, '\0');
  const auto count = ::pread(fd, out.data(), out.size(), 0);
  out.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return out;
}

}  // namespace

TEST_CASE(
    "F10 open(2) of a name that leads to another file by now opens that one, whatever else the file is "
    "called") {
  Mounting m;
  EngineClient other(m.server, "other");
  const nfs4::Caller who = user(0);
  const auto other_renames = [&](const std::string& from, const std::string& to) {
    CHECK(other.run(other.engine.rename(who, other.root, from, other.root, to, std::nullopt)));
  };
  m.server.add_file("/a", "old");
  std::string options;
  SUBCASE("as usual") {}
  SUBCASE("for several users") {
    options = "allow_other";
  }
  SUBCASE("NFSv4.0") {
    options = "vers=4.0";
  }
  m.mount(options);
  CHECK(content_of(m.path("a")) == "old");
  bool links = false;
  SUBCASE("of a file with one name") {}
  SUBCASE("of a file with two") {
    links = true;
  }
  if (links) CHECK(::link(m.path("a").c_str(), m.path("link").c_str()) == 0);
  other_renames("a", "b");
  m.server.add_file("/a", "new");
  CHECK(content_of(m.path("b")) == "old");
  CHECK(content_of(m.path("a")) == "new");
  CHECK(content_of(m.path("b")) == "old");
  if (links) CHECK(content_of(m.path("link")) == "old");
}

TEST_CASE("F10 names that lead elsewhere are dropped while programs change the directory") {
  constexpr int kRounds = 60;
  Mounting m;
  EngineClient other(m.server, "other");
  const nfs4::Caller who = user(0);
  m.server.add_file("/a0", "text");
  m.mount();
  const auto change = [&] {
    for (int i = 0;; ++i) {
      const std::string name = m.path("own" + std::to_string(::getpid()) + "." + std::to_string(i % 3));
      const int fd = ::open(name.c_str(), O_RDWR | O_CREAT, 0600);
      if (fd < 0 || ::write(fd, "x", 1) != 1 || ::close(fd) != 0) return 1;
      if (::rename(name.c_str(), (name + ".new").c_str()) != 0) return 2;
      if (::unlink((name + ".new").c_str()) != 0) return 3;
    }
  };
  Child first(change), second(change);
  for (int i = 0; i < kRounds; ++i) {
    const std::string from = "a" + std::to_string(i), to = "a" + std::to_string(i + 1);
    CHECK(content_of(m.path(from)) == "text");
    CHECK(other.run(other.engine.rename(who, other.root, from, other.root, to, std::nullopt)));
    CHECK(content_of(m.path(to)) == "text");
    CHECK(content_of(m.path(from)).empty());
  }
  CHECK_FALSE(first.ended(0ms));
  CHECK_FALSE(second.ended(0ms));
}

TEST_CASE("F19 a kernel handle opens its file, also when the kernel has forgotten it") {
  Mounting m;
  m.server.add_file("/a/b/f", "text");
  m.server.add_file("/other", "other");
  m.mount("allow_other");
  KernelHandle file(m.path("a/b/f")), directory(m.path("a/b")), root(m.place);
  const auto known = [&] {
    return content_of(m.path(".nfsrdma-stats")).find("state inodes=1 ") != std::string::npos;
  };
  for (const bool forgotten : {false, true}) {
    CAPTURE(forgotten);
    if (forgotten) {
      CHECK(m.helper("remount,rw") == 0);  // which has the kernel drop what is not in use
      CHECK(eventually(known));
    }
    int fd = file.open(m.place, O_RDWR);
    REQUIRE(fd >= 0);
    CHECK(read_all(fd) == (forgotten ? "TEXT" : "text"));
    CHECK(::pwrite(fd, "TEXT", 4, 0) == 4);
    CHECK(::close(fd) == 0);
    CHECK(m.server.content("/a/b/f") == "TEXT");
    fd = directory.open(m.place, O_RDONLY | O_DIRECTORY);
    REQUIRE(fd >= 0);
    CHECK(::faccessat(fd, "f", F_OK, 0) == 0);
    CHECK(::faccessat(fd, "../../other", F_OK, 0) == 0);
    CHECK(files::read_symlink("/proc/self/fd/" + std::to_string(fd)) == m.path("a/b"));
    ::close(fd);
    fd = root.open(m.place, O_RDONLY | O_DIRECTORY);
    REQUIRE(fd >= 0);
    CHECK(::faccessat(fd, "other", F_OK, 0) == 0);
    ::close(fd);
  }
  // Somebody else has removed it meanwhile.
  CHECK(m.helper("remount,rw") == 0);
  m.server.on_server([](Responder& server) { server.state.habits.forgets_unlinked = true; });
  REQUIRE(::unlink(m.path("a/b/f").c_str()) == 0);
  CHECK(file.open(m.place, O_RDONLY) == -ESTALE);
}

TEST_CASE("F19 a handle of an earlier mount leads to no file of this one") {
  Mounting m;
  for (int i = 0; i < 5; ++i) m.server.add_file("/" + std::to_string(i), std::to_string(i));
  m.mount();
  KernelHandle before(m.path("3"));
  REQUIRE(::umount(m.place.c_str()) == 0);
  CHECK(m.daemon->ended(5s) == 0);
  m.mount();
  // By now there is a file with each number that there was.
  for (const int i : {4, 3, 2, 1, 0}) CHECK(content_of(m.path(std::to_string(i))) == std::to_string(i));
  const int fd = before.open(m.place, O_RDONLY);
  CHECK(fd == -ESTALE);
  if (fd >= 0) ::close(fd);
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
  CHECK(content_of(m.log).find("lost-file: not all written data") != std::string::npos);
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

namespace {
/// Memory of a process, in bytes.
std::size_t resident(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::size_t all = 0, here = 0;
  file >> all >> here;
  return here * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}
}  // namespace

TEST_CASE("F29 directories that a program has open without reading them take no more than their bound") {
  Mounting m;
  for (int i = 0; i < 1000; ++i)
    m.server.add_file("/many/" + std::to_string(i) + std::string(100, 'n'), std::to_string(i));
  m.mount();
  std::vector<DIR*> open;
  const auto more = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      open.push_back(::opendir(m.path("many").c_str()));
      REQUIRE(open.back() != nullptr);
    }
  };
  more(50);
  const std::size_t before = resident(m.daemon->pid());
  more(500);
  CHECK(resident(m.daemon->pid()) < before + 2 * fs::DirectoryPages::kMostOfUser);
  // Those that have lost their names have them all the same.
  std::size_t names = 0;
  while (::readdir(open.front()) != nullptr) ++names;
  CHECK(names == 1002);
  for (DIR* one : open) ::closedir(one);
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

TEST_CASE("F18 as mount(8)'s helper it mounts with suid and dev, where nothing else is said") {
  Mounting m;
  const auto options_with = [&](const std::string& given) {
    REQUIRE(m.helper(given) == 0);
    const auto mount = fuse::mounted_at(m.place);
    REQUIRE(mount);
    CHECK(::umount(m.place.c_str()) == 0);
    REQUIRE(eventually([&] { return m.server.clients() == 0; }, 10s));
    return mount->options;
  };
  const std::string usual = options_with("");
  CHECK(usual.find("nosuid") == std::string::npos);
  CHECK(usual.find("nodev") == std::string::npos);
  const std::string closed = options_with("nodev,nosuid");
  CHECK(closed.find("nosuid") != std::string::npos);
  CHECK(closed.find("nodev") != std::string::npos);
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
  // Mounts of its own: another test that takes a copy of the machine's mounts would keep these alive.
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    std::cerr << "no mounts of its own: " << std::generic_category().message(errno) << "\n";
    return 1;
  }
  doctest::Context context(argc, argv);
  const int failed = context.run();
  if (!context.shouldExit()) nfsrdma::testing::print_skipped(std::cout);
  return failed;
}
