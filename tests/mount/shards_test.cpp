// A mount with shards (fuse/mount_shards.h) on a real kernel: that its parallel READs use them, and that what programs read is
// right whatever becomes of them. Needs what mount_test.cpp needs.
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "mount/mounting.h"
#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;

constexpr std::size_t kBlock = 4096, kLarge = 256U << 10, kFile = 4U << 20;
constexpr unsigned kReaders = 40;

/// Memory for O_DIRECT.
struct Block {
  explicit Block(std::size_t size)
      : data(static_cast<char*>(std::aligned_alloc(kBlock, size)), &std::free), length(size) {}
  std::unique_ptr<char, decltype(&std::free)> data;
  std::size_t length;
};

struct ShardedMount : Mounting {
  std::string content = pattern(kFile);
  int fd = -1;

  void begin(const std::string& options = "shards=2") {
    server.add_file("/f", content);
    mount(options);
    fd = ::open(path("f").c_str(), O_RDONLY | O_DIRECT);
    REQUIRE(fd >= 0);
  }
  ~ShardedMount() {
    server.release();
    finish();
  }
  ShardedMount() = default;
  ShardedMount(const ShardedMount&) = delete;
  ShardedMount& operator=(const ShardedMount&) = delete;
  void finish() {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }

  enum class Got : std::uint8_t { right, wrong, failed };
  /// What a read of the block with this number brings.
  [[nodiscard]] Got get(std::size_t number, Block& into) const {
    const std::size_t offset = number * into.length % kFile;
    const ssize_t got = ::pread(fd, into.data.get(), into.length, static_cast<off_t>(offset));
    if (got < 0) return Got::failed;
    const bool right = got == static_cast<ssize_t>(into.length) &&
                       content.compare(offset, into.length, into.data.get(), into.length) == 0;
    return right ? Got::right : Got::wrong;
  }
  /// Has so many threads read beside each other, each so many blocks. Returns how many of these were wrong.
  int read_beside(unsigned threads = kReaders, unsigned blocks = 20, std::size_t size = kBlock) const {
    std::atomic<int> wrong = 0;
    std::vector<std::thread> all;
    all.reserve(threads);
    for (unsigned i = 0; i < threads; ++i) {
      all.emplace_back([this, &wrong, i, blocks, size] {
        Block into(size);
        // Not one after the other: such reads would not be plain ones.
        for (unsigned k = 0; k < blocks; ++k) wrong += get(i * 37 + k * 11, into) == Got::right ? 0 : 1;
      });
    }
    for (std::thread& one : all) one.join();
    return wrong;
  }
  [[nodiscard]] std::string working() const { return statistic("shards state", "working"); }
  [[nodiscard]] unsigned long made() const {
    return std::strtoul(statistic("shards reads", "requests").c_str(), nullptr, 10);
  }
  /// Reads until both shards work, and have read.
  [[nodiscard]] bool come_to_work() const {
    return eventually([&] {
      return read_beside() == 0 && working() == "2" && statistic("connection 2", "up") == "1" &&
             statistic("connection 3", "up") == "1";
    });
  }
  /// Ends the mount, and returns what is not as it should be then: nothing, if all is well.
  [[nodiscard]] std::string left_behind() {
    finish();
    if (::umount(place.c_str()) != 0) return "not unmounted: " + std::generic_category().message(errno);
    const std::optional<int> status = daemon->ended(15s);
    if (!status) return "still running after 15 seconds";
    if (*status != 0) return "ended with " + std::to_string(*status);
    if (server.sessions() != 0) return std::to_string(server.sessions()) + " sessions";
    if (server.clients() != 0) return std::to_string(server.clients()) + " clients";
    return server.problems();
  }
};

/// Threads that read all the time, until they are told to stop.
class Readers {
 public:
  explicit Readers(const ShardedMount& m, std::size_t size = kBlock) {
    for (unsigned i = 0; i < kReaders; ++i) {
      all_.emplace_back([this, &m, i, size] {
        Block into(size);
        for (unsigned k = 0; !stop_; ++k) {
          const ShardedMount::Got got = m.get(i * 37 + k * 11, into);
          if (got == ShardedMount::Got::wrong) ++wrong_;
          if (got == ShardedMount::Got::failed) ++failed_;
          ++count_;
        }
      });
    }
  }
  ~Readers() { (void)wrong(); }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;
  [[nodiscard]] unsigned count() const { return count_; }
  [[nodiscard]] bool go_on(unsigned more = 500) const {
    const unsigned now = count_;
    return eventually([&] { return count_ >= now + more; });
  }
  [[nodiscard]] bool fail() const {
    return eventually([&] { return failed_ != 0; });
  }
  /// Ends them, and returns how many of their reads were wrong, or have failed as well.
  [[nodiscard]] unsigned wrong(bool may_fail = false) {
    stop_ = true;
    for (std::thread& one : all_) one.join();
    all_.clear();
    return wrong_ + (may_fail ? 0 : failed_.load());
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<unsigned> count_ = 0, wrong_ = 0, failed_ = 0;
  std::vector<std::thread> all_;
};

/// What a program reads that goes through the file from its beginning to its end, through the kernel's cache. Nothing of it
/// may be in that cache before, unless `cached`.
std::string read_through(const std::string& path, bool cached = false) {
  const int file = ::open(path.c_str(), O_RDONLY);
  REQUIRE(file >= 0);
  if (!cached) ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  std::string out, piece(1U << 20, ' ');
  for (ssize_t got = 0; (got = ::read(file, piece.data(), piece.size())) > 0;)
    out.append(piece, 0, static_cast<std::size_t>(got));
  ::close(file);
  return out;
}

}  // namespace

TEST_CASE("mount shards: parallel READs are made in sessions of their own, and none is left at the end") {
  ShardedMount m;
  m.begin();
  CHECK(m.working() == "0");
  CHECK(m.server.sessions() == 1);
  REQUIRE(m.come_to_work());
  CHECK(m.server.sessions() == 3);
  CHECK(m.server.open_connections() == 3);
  const unsigned long before = m.made();
  CHECK(m.read_beside(kReaders, 50) == 0);
  CHECK(m.made() > before + 300);
  // Large answers, and the end of the file.
  CHECK(m.read_beside(8, 20, kLarge) == 0);
  Block into(kBlock);
  CHECK(::pread(m.fd, into.data.get(), kBlock, kFile) == 0);
  CHECK(std::stoul(m.statistic("shards reads", "answers")) > before + 300);
  const std::string metrics = content_of(m.path(".nfsrdma-stats.prom"));
  CHECK(metrics.find("nfsrdma_shards_working{mountpoint=\"" + m.place + "\"} 2\n") != std::string::npos);
  CHECK(m.statistic("connection 3", "up") == "1");
  CHECK(m.left_behind() == "");
}

TEST_CASE(
    "mount shards: a program that reads one block after the other, or none that has shards, needs none") {
  ShardedMount m;
  m.begin();
  CHECK(m.read_beside(1, 200) == 0);
  CHECK(m.read_beside(1, 50, kLarge) == 0);
  CHECK(m.made() == 0);
  CHECK(m.server.sessions() == 1);
  CHECK(m.left_behind() == "");
  ShardedMount none;
  none.begin("");
  CHECK(none.read_beside() == 0);
  CHECK(none.working() == "-");
  CHECK(none.server.sessions() == 1);
  CHECK(none.left_behind() == "");
}

TEST_CASE("mount shards: with NFSv4.0 the mount has none, and says so") {
  ShardedMount m;
  m.begin("shards=2,vers=4.0");
  CHECK(m.read_beside() == 0);
  CHECK(m.working() == "-");
  CHECK(content_of(m.log).find("shards need NFSv4.1 or 4.2") != std::string::npos);
  m.finish();
  CHECK(::umount(m.place.c_str()) == 0);
  CHECK(m.daemon->ended(15s) == 0);
}

TEST_CASE("mount shards: a read shows what this client wrote before it, and what another wrote") {
  ShardedMount m;
  m.begin();
  REQUIRE(m.come_to_work());
  m.server.add_file("/w", std::string(64 * kBlock, 'a'));
  const int other = ::open(m.path("w").c_str(), O_RDWR | O_DIRECT);
  REQUIRE(other >= 0);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::array<std::atomic<char>, 64> written{};
  for (auto& one : written) one = 'a';
  const auto is_wrong = [](const Block& block, char least) {
    // Blocks are written whole, and their letters rise.
    const char first = block.data.get()[0];
    return first < least ||
           std::string(block.length, first).compare(0, block.length, block.data.get(), block.length) != 0;
  };
  Readers noise(m);
  std::vector<std::thread> readers;
  readers.reserve(8);
  for (unsigned i = 0; i < 8; ++i) {
    readers.emplace_back([&, i] {
      Block into(kBlock);
      for (unsigned k = 0; !stop; ++k) {
        const unsigned block = (i * 7 + k * 13) % 64;
        const char least = written[block];
        const ssize_t got = ::pread(other, into.data.get(), kBlock, static_cast<off_t>(block * kBlock));
        if (got != static_cast<ssize_t>(kBlock) || is_wrong(into, least)) ++wrong;
      }
    });
  }
  Block from(kBlock);
  for (char letter = 'b'; letter <= 'm'; ++letter) {
    std::fill_n(from.data.get(), kBlock, letter);
    for (unsigned block = 0; block < 64; ++block) {
      if (::pwrite(other, from.data.get(), kBlock, static_cast<off_t>(block * kBlock)) !=
          static_cast<ssize_t>(kBlock))
        ++wrong;
      written[block] = letter;
    }
  }
  stop = true;
  for (std::thread& one : readers) one.join();
  CHECK(wrong == 0);
  // A cut, and what comes behind it again, while others read.
  for (int i = 0; i < 50; ++i) {
    Block into(kBlock);
    REQUIRE(::ftruncate(other, 10 * kBlock) == 0);
    CHECK(::pread(other, into.data.get(), kBlock, 20 * kBlock) == 0);
    std::fill_n(from.data.get(), kBlock, static_cast<char>('A' + i % 26));
    REQUIRE(::pwrite(other, from.data.get(), kBlock, 20 * kBlock) == static_cast<ssize_t>(kBlock));
    CHECK(::pread(other, into.data.get(), kBlock, 20 * kBlock) == static_cast<ssize_t>(kBlock));
    CHECK_FALSE(is_wrong(into, static_cast<char>('A' + i % 26)));
    CHECK(::pread(other, into.data.get(), kBlock, 15 * kBlock) == static_cast<ssize_t>(kBlock));
    CHECK_FALSE(is_wrong(into, '\0'));
    CHECK(into.data.get()[0] == '\0');
  }
  CHECK(noise.wrong() == 0);
  ::close(other);
  // Another client writes.
  m.content = pattern(kFile, 2);
  m.server.add_file("/f", m.content);
  CHECK(m.read_beside() == 0);
  CHECK(m.left_behind() == "");
}

TEST_CASE("mount shards: reads are right though connections end, of one shard or of all") {
  ShardedMount m;
  m.begin();
  REQUIRE(m.come_to_work());
  {
    Readers readers(m);
    for (int i = 0; i < 5; ++i) {
      REQUIRE(readers.go_on());
      m.server.drop_connection(m.server.connections() - 1);
      REQUIRE(readers.go_on());
      m.server.drop_connections();
    }
    CHECK(readers.go_on());
    CHECK(readers.wrong() == 0);
  }
  REQUIRE(m.come_to_work());
  // A loss while nobody reads is noticed at once.
  m.server.drop_connections();
  CHECK(eventually([&] { return m.working() == "0"; }));
  REQUIRE(m.come_to_work());
  CHECK(m.left_behind() == "");
}

TEST_CASE("mount shards: reads are right though the server restarts, or forgets its sessions") {
  ShardedMount m;
  m.begin();
  REQUIRE(m.come_to_work());
  {
    Readers readers(m, kLarge);
    REQUIRE(readers.go_on(100));
    m.server.restart();
    REQUIRE(readers.go_on(200));
    m.server.forget_sessions();
    REQUIRE(readers.go_on(200));
    m.server.restart();
    m.server.forget_sessions();
    CHECK(readers.go_on(200));
    CHECK(readers.wrong() == 0);
  }
  REQUIRE(m.come_to_work());
  CHECK(m.left_behind() == "");
}

TEST_CASE("mount shards: READs that get no answer there are made by the mount's own session") {
  ShardedMount m;
  m.begin("shards=2,timeo=20");
  REQUIRE(m.come_to_work());
  m.server.hold(nfs4::OP_READ);
  std::atomic<int> wrong = -1;
  std::thread reader([&] { wrong = m.read_beside(kReaders, 1); });
  CHECK(eventually([&] { return m.statistic("shards reads", "made_again") != "0" && m.working() == "0"; }));
  CHECK(wrong == -1);
  m.server.release();
  reader.join();
  CHECK(wrong == 0);
  REQUIRE(m.come_to_work());
  CHECK(m.left_behind() == "");
}

TEST_CASE(
    "mount shards: a program that is killed while its READs are in shards ends, and its file is closed") {
  ShardedMount m;
  m.begin();
  REQUIRE(m.come_to_work());
  // The kernel waits for READs of O_DIRECT without being interrupted.
  m.finish();
  m.fd = ::open(m.path("f").c_str(), O_RDONLY);
  REQUIRE(m.fd >= 0);
  ::posix_fadvise(m.fd, 0, 0, POSIX_FADV_RANDOM);
  m.server.hold(nfs4::OP_READ);
  Child child([&] { return m.read_beside(kReaders, 1); });
  REQUIRE(eventually([&] { return m.server.held() >= kReaders; }));
  child.signal(SIGKILL);
  CHECK(child.ended(3s));
  m.server.release();
  CHECK(m.read_beside() == 0);
  CHECK(m.left_behind() == "");
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("mount shards: a mount that is detached serves READs in shards to their end") {
  ShardedMount m;
  m.begin();
  REQUIRE(m.come_to_work());
  m.server.hold(nfs4::OP_READ);
  std::atomic<int> wrong = -1;
  std::thread reader([&] { wrong = m.read_beside(kReaders, 1); });
  REQUIRE(eventually([&] { return m.server.held() >= 3; }));
  CHECK(::umount2(m.place.c_str(), MNT_DETACH) == 0);
  m.server.release();
  reader.join();
  CHECK(wrong == 0);
  CHECK(m.read_beside() == 0);
  m.finish();
  CHECK(m.daemon->ended(15s) == 0);
  CHECK(m.server.sessions() == 0);
  CHECK(m.server.clients() == 0);
}

TEST_CASE("S18 mount shards: a signal ends a mount with READs in shards in bounded time") {
  for (const bool answers : {false, true}) {
    CAPTURE(answers);
    ShardedMount m;
    m.begin();
    REQUIRE(m.come_to_work());
    m.server.hold(nfs4::OP_READ);
    Child child([&] { return m.read_beside(kReaders, 1) != 0 ? 1 : 0; });
    REQUIRE(eventually([&] { return m.server.held() >= 3; }));
    m.finish();
    m.daemon->signal(SIGTERM);
    if (answers) {
      std::this_thread::sleep_for(20ms);
      m.server.release();
    }
    CHECK(m.daemon->ended(30s) == 0);
    CHECK(child.ended(3s));
    CHECK_FALSE(m.stands());
  }
}

TEST_CASE("mount shards: a signal ends a mount while programs read all the time") {
  for (const std::size_t size : {kBlock, kLarge}) {
    ShardedMount m;
    m.begin();
    REQUIRE(m.come_to_work());
    const unsigned long before = m.made();
    Readers readers(m, size);
    REQUIRE(eventually([&] { return m.made() > before + 200; }));
    m.daemon->signal(SIGTERM);
    CHECK(m.daemon->ended(30s) == 0);
    CHECK(readers.fail());
    CHECK(readers.wrong(true) == 0);
    CHECK(eventually([&] { return m.server.sessions() == 0 && m.server.clients() == 0; }));
  }
}

TEST_CASE("mount shards: a program that reads a file from its beginning to its end is served by them") {
  ShardedMount m;
  m.begin();
  const std::string content = pattern((24U << 20) + 777);
  m.server.add_file("/s", content);
  REQUIRE(m.come_to_work());
  const unsigned long reads = m.made();
  const unsigned long answers = std::stoul(m.statistic("shards reads", "answers"));
  CHECK(read_through(m.path("s")) == content);
  CHECK(m.made() >= reads + 12);
  CHECK(std::stoul(m.statistic("shards reads", "answers")) >= answers + 12);
  SUBCASE("its connections end meanwhile") {
    std::atomic<bool> stop = false;
    std::thread ends([&] {
      while (!stop) {
        m.server.drop_connections();
        std::this_thread::sleep_for(30ms);
      }
    });
    for (int i = 0; i < 5; ++i) CHECK(read_through(m.path("s")) == content);
    stop = true;
    ends.join();
  }
  SUBCASE("the server answers no READ for some time") {
    m.server.hold(nfs4::OP_READ);
    std::string got;
    std::thread reader([&] { got = read_through(m.path("s")); });
    CHECK(eventually([&] { return m.server.held() >= 2; }));
    m.server.release();
    reader.join();
    CHECK(got == content);
  }
  SUBCASE("the mount ends meanwhile") {
    m.server.hold(nfs4::OP_READ);
    Child reader([&] { return read_through(m.path("s")).empty() ? 0 : 1; });
    CHECK(eventually([&] { return m.server.held() >= 2; }));
    m.finish();
    m.daemon->signal(SIGTERM);
    CHECK(m.daemon->ended(30s) == 0);
    CHECK(reader.ended(3s));
    return;
  }
  CHECK(m.left_behind() == "");
}

TEST_CASE("mount shards: pages that they fill are no older than what was written and opened before") {
  ShardedMount m;
  m.begin();
  constexpr std::size_t kLength = 3U << 20;
  m.server.add_file("/s", std::string(kLength, 'a'));
  REQUIRE(m.come_to_work());
  Readers noise(m, kLarge);
  std::atomic<bool> stop = false;
  // Another program goes through the file all the time, so that answers are under way when its pages are dropped.
  std::thread other([&] {
    while (!stop) (void)read_through(m.path("s"), true);
  });
  const int file = ::open(m.path("s").c_str(), O_RDWR);
  REQUIRE(file >= 0);
  for (int i = 1; i <= 40; ++i) {
    const std::string fresh(kLength, static_cast<char>('a' + i % 26));
    if (i % 2 == 0) {
      m.server.add_file("/s", fresh);  // another client
    } else {
      REQUIRE(::pwrite(file, fresh.data(), fresh.size(), 0) == static_cast<ssize_t>(fresh.size()));
      REQUIRE(::fsync(file) == 0);
    }
    const std::string got = read_through(m.path("s"), true);
    CAPTURE(i);
    CHECK(got.size() == kLength);
    CHECK(std::ranges::count(got, fresh[0]) == static_cast<long>(kLength));
  }
  stop = true;
  other.join();
  ::close(file);
  CHECK(noise.wrong() == 0);
  CHECK(m.left_behind() == "");
}

TEST_CASE("mount shards: while a trace is written all READs are in it, and so none is in a shard") {
  ShardedMount m;
  m.begin();
  REQUIRE(m.come_to_work());
  const std::string trace = m.place + ".trace";
  const auto command = [&](const std::string& text) {
    std::ofstream(m.path(".nfsrdma-trace")) << text << std::flush;
  };
  command("on " + trace + "\n");
  const unsigned long before = m.made();
  CHECK(m.read_beside() == 0);
  CHECK(m.made() == before);
  command("off\n");
  std::filesystem::remove(trace);
  REQUIRE(m.come_to_work());
  CHECK(m.made() > before);
  CHECK(m.left_behind() == "");
}

}  // namespace nfsrdma
