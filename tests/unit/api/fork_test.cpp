// Programs that fork(2) while they have a Client: the child refuses every call, and whatever it destroys, its parent's
// session, locks and files stay as they are.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "support/at_limit.h"
#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {
using namespace testing;

/// What a child finds wrong, first of all. It must neither check nor return: doctest is its parent's.
class Findings {
 public:
  void expect(bool so, int number) {
    if (!so && first_ == 0) first_ = number;
  }
  template <class T>
  void expect_refused(const Result<T>& result, int number) {
    expect(!result && result.error().errno_value() == ENOTCONN, number);
  }
  [[nodiscard]] int first() const { return first_; }

 private:
  int first_ = 0;
};

/// Ends a child that hangs.
constexpr unsigned kLongest = 20;

pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(kLongest);
  ::_exit(body());
}

/// The exit status, or 1000 and the signal.
int end_of(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int in_child(const std::function<int()>& body) {
  return end_of(start_child(body));
}

/// A client that holds a lock on an open file.
struct Locking : Mounted {
  explicit Locking(const std::string& options = "") {
    server.add_file("/a", pattern(1000));
    connect(options);
    file = open("/a");
    REQUIRE(ok(file->lock({7, true, {0, 10}})));
    locks = server.locks("/a");
    CHECK_FALSE(locks.empty());
    connections = server.connections();
    server.clear_calls();
  }
  /// After a child has ended.
  void check_untouched() {
    CHECK(server.calls().empty());
    CHECK(server.clients() == 1);
    CHECK(server.open_connections() == connections);
    CHECK(server.locks("/a") == locks);
    const auto seen = read_all(*file);
    CHECK((seen == pattern(1000)));
    CHECK(server.connections() == connections);
  }
  std::unique_ptr<File> file;
  std::string locks;
  unsigned connections = 0;
};

/// Every kind of call, and that each is refused at once.
void try_everything(Client& client, File& file, Findings& found) {
  std::string data(100, '?');
  const Stopwatch watch;
  found.expect_refused(client.ping(), 1);
  found.expect_refused(client.stat("/a"), 2);
  found.expect_refused(client.open("/a", OpenMode::read), 3);
  found.expect_refused(client.list("/", [](const DirectoryEntry&) { return true; }), 4);
  found.expect_refused(client.rename("/a", "/b"), 5);
  found.expect_refused(client.remove_file("/a"), 6);
  found.expect_refused(client.open_directory("/"), 7);
  const std::array paths = {std::string("/a"), std::string("/b")};
  for (const auto& one : client.stat_many(paths)) found.expect_refused(one, 8);
  const std::array items = {ReadItem{"/a", room(data)}};
  for (const auto& one : client.read_many(items)) found.expect_refused(one, 9);
  found.expect_refused(file.read(room(data), 0), 10);
  found.expect_refused(file.write(bytes(data), 0), 11);
  found.expect_refused(file.sync(), 12);
  found.expect_refused(file.attributes(), 13);
  found.expect_refused(file.lock({8, false, {20, 10}}, 5s), 14);
  found.expect_refused(file.unlock(7), 15);
  found.expect_refused(file.test_lock({8, false, {0, 10}}), 16);
  found.expect_refused(file.copy_from(file, 0, 500, 10), 17);
  found.expect_refused(client.disconnect(), 18);
  found.expect_refused(file.close(), 19);
  found.expect(client.info().server.empty(), 20);
  found.expect(client.descriptor() == -1, 21);
  found.expect(!client.wait(10s), 22);
  int told = 0;
  file.start_read(room(data), 0, [&](Result<std::size_t> count) {
    found.expect_refused(count, 23);
    ++told;
  });
  client.start_stat("/a", [&](Result<Attributes> facts) {
    found.expect_refused(facts, 24);
    ++told;
  });
  found.expect(told == 0, 25);
  found.expect(client.wait(10s), 26);
  found.expect(told == 2, 27);
  file.start_sync([&](const Status& synced) {
    found.expect_refused(synced, 28);
    ++told;
  });
  (void)client.service();
  found.expect(told == 3, 29);
  found.expect(watch.elapsed() < 5s, 30);
}

}  // namespace

TEST_SUITE("fork") {
  TEST_CASE("F26 the child of a fork leaves the parent's session, locks and files alone") {
    for (const char* options : {"", "nconnect=2,threads=2", "vers=4.0"}) {
      CAPTURE(options);
      Locking scene(options);
      const int found = in_child([&] {
        Findings findings;
        try_everything(*scene.client, *scene.file, findings);
        const Stopwatch watch;
        scene.file->start_read({}, 0, [&](auto) { findings.expect(false, 40); });
        scene.file.reset();
        (void)scene.client->wait(10ms);
        scene.client.reset();
        findings.expect(watch.elapsed() < 5s, 42);
        return findings.first();
      });
      CHECK(found == 0);
      scene.check_untouched();
    }
  }

  TEST_CASE("F26 a fork while another thread is inside a call leaves the child able to end") {
    Mounted scene;
    scene.server.add_file("/a", pattern(1000));
    scene.connect();
    auto file = scene.open("/a");
    scene.server.hold(nfs4::OP_READ);
    std::string data(10, '?');
    std::thread reader([&] { CHECK(file->read(room(data), 0).value_or(0) == 10); });
    CHECK(eventually([&] { return scene.server.held() == 1; }));
    std::atomic<bool> ends = false;
    std::thread busy([&] {
      while (!ends) (void)scene.client->info();
    });
    for (int i = 0; i < 20; ++i) {
      const int found = in_child([&] {
        Findings findings;
        findings.expect_refused(file->sync(), 1);
        file.reset();
        scene.client.reset();
        return findings.first();
      });
      CHECK(found == 0);
    }
    ends = true;
    busy.join();
    scene.server.release();
    reader.join();
    CHECK(data == pattern(1000).substr(0, 10));
    CHECK(ok(file->sync()));
  }

  TEST_CASE("F26 the child of a fork in a callback goes on without the parent's loop") {
    Locking scene;
    std::array<std::string, 3> data;
    pid_t child = -1;
    int told = 0;
    for (std::string& one : data) {
      one.assign(10, '?');
      scene.file->start_read(room(one), 0, [&](Result<std::size_t>) {
        if (++told == 1) child = ::fork();
      });
    }
    // Until all are told in the parent; in the child the first wait that meets the fork ends.
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (told < 3 && child != 0 && std::chrono::steady_clock::now() < end) (void)scene.client->wait(1s);
    if (child == 0) {
      ::alarm(kLongest);
      Findings findings;
      findings.expect(told == 1, 1);
      findings.expect_refused(scene.client->ping(), 2);
      scene.file.reset();
      scene.client.reset();
      ::_exit(findings.first());
    }
    REQUIRE(child > 0);
    CHECK(end_of(child) == 0);
    CHECK(told == 3);
    for (const std::string& one : data) CHECK(one == pattern(1000).substr(0, 10));
    scene.server.clear_calls();
    scene.check_untouched();
  }

  TEST_CASE("F26 the child of a fork holds no connection of its parent's") {
    Locking scene;
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    const pid_t child = start_child([&] {
      ::close(pipe[1]);
      char byte = 0;
      return ::read(pipe[0], &byte, 1) == 0 ? 0 : 1;
    });
    ::close(pipe[0]);
    scene.file.reset();
    scene.client.reset();
    CHECK(eventually([&] { return scene.server.open_connections() == 0; }));
    CHECK(scene.server.sessions() == 0);
    ::close(pipe[1]);
    CHECK(end_of(child) == 0);
  }

  TEST_CASE("F26 the child of a fork may connect a client of its own" * doctest::skip(kSanitized)) {
    Locking scene;
    const Target target = scene.server.target();
    const int found = in_child([&] {
      Findings findings;
      auto own = Client::connect(target);
      findings.expect(own.has_value(), 1);
      if (!own) return findings.first();
      const auto facts = (*own)->stat("/a");
      findings.expect(facts && facts->size == 1000, 2);
      findings.expect_refused(scene.client->stat("/a"), 3);
      scene.client.reset();
      findings.expect((*own)->disconnect().has_value(), 4);
      return findings.first();
    });
    CHECK(found == 0);
    CHECK(scene.server.sessions() == 1);
    CHECK(scene.server.locks("/a") == scene.locks);
    CHECK((Locking::read_all(*scene.file) == pattern(1000)));
  }
}

}  // namespace nfsrdma
