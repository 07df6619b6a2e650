// WRITEs of a mount with shards (fuse/mount_shards.h) on a real kernel: that shards make them, and that what fsync(2) has said to
// be there is there, whatever becomes of connections, sessions and the server. Needs what mount_test.cpp needs.
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "mount/mounting.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;

constexpr std::size_t kPiece = 1U << 20, kWritten = 12 * kPiece;

struct WritingMount : Mounting {
  WritingMount() { server.add_file("/f", ""); }
  /// Writes all of it, one piece after the other. Returns whether that, and fsync(2), have worked.
  [[nodiscard]] bool write(const std::string& text) const {
    const int file = ::open(path("f").c_str(), O_WRONLY);
    if (file < 0) return false;
    bool good = true;
    for (std::size_t at = 0; at < text.size(); at += kPiece) {
      const std::size_t size = std::min(kPiece, text.size() - at);
      good = good &&
             ::pwrite(file, text.data() + at, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
    }
    good = ::fsync(file) == 0 && good;
    return ::close(file) == 0 && good;
  }
  /// What the server has of the file.
  [[nodiscard]] std::string read() const {
    const int file = ::open(path("f").c_str(), O_RDONLY | O_DIRECT);
    if (file < 0) return {};
    std::string out;
    const std::unique_ptr<char, decltype(&std::free)> piece(
        static_cast<char*>(std::aligned_alloc(4096, kPiece)), &std::free);
    for (ssize_t got = 0; (got = ::read(file, piece.get(), kPiece)) > 0;)
      out.append(piece.get(), static_cast<std::size_t>(got));
    ::close(file);
    return out;
  }
  [[nodiscard]] unsigned long number(const std::string& key) const {
    return std::strtoul(statistic("shards writes", key).c_str(), nullptr, 10);
  }
  /// Writes until both shards work.
  [[nodiscard]] bool come_to_work() const {
    return eventually([&] {
      return write(pattern(kWritten)) && statistic("shards state", "working") == "2" &&
             number("requests") != 0;
    });
  }
  /// Ends the mount. Returns whether all has ended as it should.
  [[nodiscard]] bool leave() {
    if (::umount(place.c_str()) != 0 || daemon->ended(15s) != 0) return false;
    return server.sessions() == 0 && server.clients() == 0 && server.problems().empty();
  }
};

}  // namespace

TEST_CASE("mount shards: large WRITEs are made in sessions of their own, and none is left at the end") {
  WritingMount m;
  m.mount("shards=2");
  REQUIRE(m.come_to_work());
  const unsigned long before = m.number("requests");
  const std::string text = pattern(kWritten + 777, 2);
  REQUIRE(m.write(text));
  CHECK(m.number("requests") >= before + 10);
  CHECK(m.number("bytes") >= 10 * kPiece);
  CHECK(m.read() == text);
  const std::string metrics = content_of(m.path(".nfsrdma-stats.prom"));
  CHECK(metrics.find("nfsrdma_shard_writes_total{") != std::string::npos);
  CHECK(m.leave());
}

TEST_CASE("mount shards: what was written is there though connections end, or the server restarts") {
  WritingMount m;
  m.mount("shards=2");
  REQUIRE(m.come_to_work());
  std::chrono::milliseconds pause = 30ms;
  std::function<void()> strike = [&] { m.server.drop_connections(); };
  SUBCASE("connections end") {}
  SUBCASE("the server restarts") {
    strike = [&] { m.server.restart(); };
    pause = 100ms;
  }
  SUBCASE("it forgets sessions") {
    strike = [&] { m.server.forget_sessions(); };
    pause = 100ms;
  }
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::string text;
  std::thread writer([&] {
    for (unsigned i = 0; !stop; ++i) {
      text = pattern(kWritten, i);
      wrong += m.write(text) ? 0 : 1;
    }
  });
  for (int i = 0; i < 8; ++i) {
    strike();
    std::this_thread::sleep_for(pause);
  }
  stop = true;
  writer.join();
  CHECK(wrong == 0);
  CHECK(m.read() == text);
  CHECK(m.leave());
}

TEST_CASE(
    "mount shards: WRITEs that get no answer there are made by the mount's own session, and only once") {
  WritingMount m;
  m.mount("shards=2,timeo=20");
  REQUIRE(m.come_to_work());
  const std::string first = pattern(kWritten, 3), second = pattern(kWritten, 4);
  m.server.hold(nfs4::OP_WRITE, false);
  std::atomic<int> written = -1;
  std::thread writer([&] { written = m.write(first) ? 1 : 0; });
  REQUIRE(eventually([&] { return m.server.held() >= 2; }));
  const std::size_t late = m.server.held();
  m.server.hold(nfs4::OP_NVERIFY, false);  // which nobody sends
  writer.join();
  CHECK(written == 1);
  CHECK(m.read() == first);
  REQUIRE(m.write(second));
  // What was sent first comes to the server now.
  for (std::size_t i = 0; i < late; ++i) m.server.release_first();
  CHECK(m.read() == second);
  REQUIRE(m.come_to_work());
  CHECK(m.leave());
}

TEST_CASE("mount shards: a full disk is told by fsync(2), and a signal ends a mount whose WRITEs hang") {
  WritingMount m;
  m.mount("shards=2");
  REQUIRE(m.come_to_work());
  SUBCASE("a full disk") {
    m.server.answer(nfs4::OP_WRITE, nfs4::NFS4ERR_NOSPC, 1, 4);
    CHECK_FALSE(m.write(pattern(kWritten, 5)));
    REQUIRE(m.write(pattern(kWritten, 6)));
    CHECK(m.read() == pattern(kWritten, 6));
    CHECK(m.leave());
  }
  SUBCASE("a signal") {
    m.server.hold(nfs4::OP_WRITE);
    Child child([&] { return m.write(pattern(kWritten, 5)) ? 1 : 0; });
    REQUIRE(eventually([&] { return m.server.held() >= 2; }));
    m.daemon->signal(SIGTERM);
    CHECK(m.daemon->ended(30s) == 0);
    CHECK(child.ended(5s) == 0);
  }
}

}  // namespace nfsrdma
