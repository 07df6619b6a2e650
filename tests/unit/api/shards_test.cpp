// Blocking reads of several threads in sessions of their own (api/shards.h, nfs4/session/shard.h): that they are used,
// and that a read is right whatever becomes of them.
#include <atomic>
#include <barrier>
#include <set>

#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {
using namespace testing;
using namespace nfs4;

/// The sessions in which READs came.
std::set<sessionid4> sessions_of_reads(const NfsServer& server) {
  std::set<sessionid4> out;
  for (const SeenCall& call : server.calls()) {
    if (call.has(OP_READ)) out.insert(call.sequence.sa_sessionid);
  }
  return out;
}

struct Sharded : Mounted {
  static constexpr std::size_t kSize = 100'000;
  std::string content = pattern(kSize);
  std::unique_ptr<File> file;

  Client& begin(const std::string& options) {
    server.add_file("/f", content);
    Client& out = connect(options);
    file = open("/f");
    server.clear_calls();
    return out;
  }
  /// The same, until so many shards work.
  Client& begin(unsigned shards, const std::string& options = "") {
    Client& out = begin("shards=" + std::to_string(shards) + options);
    REQUIRE(come_to_work(shards));
    // With the first answers come the credits for more than one call, and the first session has one after that of each shard.
    REQUIRE(read_on_threads(shards, 2) == 0);
    server.clear_calls();
    return out;
  }
  ~Sharded() { file.reset(); }
  Sharded() = default;
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  /// Whether a read brings what the file has.
  [[nodiscard]] bool reads(std::uint64_t offset = 1000, std::size_t size = 5000) const {
    std::string data(size, '?');
    const auto count = file->read(room(data), offset);
    if (!count) MESSAGE(count.error().text());
    return count && data.substr(0, *count) == content.substr(offset, size);
  }
  /// Reads on so many threads, which all live until each has read. Returns how many of the reads were wrong.
  int read_on_threads(unsigned count, unsigned rounds = 20) {
    std::atomic<int> wrong = 0;
    std::barrier all(count);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([this, &wrong, &all, i, rounds] {
        for (unsigned round = 0; round < rounds; ++round) wrong += reads(i * 7000 + round * 100) ? 0 : 1;
        all.arrive_and_wait();
      });
    }
    for (std::thread& one : threads) one.join();
    return wrong;
  }
  /// Reads until so many shards work. One that has failed is made again after a pause.
  [[nodiscard]] bool come_to_work(unsigned shards) {
    return eventually(
        [this, shards] { return read_on_threads(shards, 1) == 0 && client->info().shards == shards; });
  }
};

}  // namespace

TEST_SUITE("threads") {
  TEST_CASE("shards: each thread reads in a session of its own, and none is left at the end") {
    Sharded s;
    Client& client = s.begin("shards=2");
    const std::string first = client.info().session_id;
    // They are made when they are used first.
    CHECK(client.info().shards == 0);
    CHECK(s.server.sessions() == 1);
    REQUIRE(s.come_to_work(2));
    CHECK(s.server.sessions() == 3);
    // The first session has to have an answer after that of each shard.
    REQUIRE(s.read_on_threads(2, 2) == 0);
    s.server.clear_calls();
    CHECK(s.read_on_threads(2) == 0);
    CHECK(sessions_of_reads(s.server).size() == 2);
    CHECK(s.server.succeeded(OP_READ) == 40);
    // As many connections as sessions, and the READs of the first session would have been seen above.
    CHECK(s.server.open_connections() == 3);
    CHECK(client.info().session_id == first);
    s.server.clear_calls();
    CHECK(s.read_on_threads(4, 5) == 0);
    CHECK(s.server.count(OP_READ) == 20);
    // The end of the file, and what lies behind it.
    CHECK(s.reads(Sharded::kSize - 10, 100));
    CHECK(s.reads(Sharded::kSize, 100));
    s.file.reset();
    REQUIRE(ok(client.disconnect()));
    CHECK(s.server.sessions() == 0);
    CHECK(s.server.clients() == 0);
  }

  TEST_CASE("shards: without the option nothing of it is there") {
    Sharded s;
    Client& client = s.begin("");
    CHECK(s.read_on_threads(2) == 0);
    CHECK(client.info().shards == 0);
    CHECK(sessions_of_reads(s.server).size() == 1);
    CHECK(s.server.sessions() == 1);
  }

  TEST_CASE("shards: a READ that the server refuses there is made by the first session") {
    for (const nfsstat4 status : {NFS4ERR_DELAY, NFS4ERR_BAD_STATEID, NFS4ERR_SERVERFAULT}) {
      CAPTURE(status);
      Sharded s;
      Client& client = s.begin(1);
      s.server.answer(OP_READ, status);
      CHECK(s.reads());
      CHECK(sessions_of_reads(s.server).size() == 2);
      // The refusal says nothing of the session, which goes on.
      CHECK(client.info().shards == 1);
      s.server.clear_calls();
      CHECK(s.reads());
      CHECK(s.server.count(OP_READ) == 1);
    }
    Sharded s;
    s.begin(1);
    s.server.set_short_reads(1000);
    CHECK(s.reads());
    CHECK(sessions_of_reads(s.server).size() == 2);
  }

  TEST_CASE("shards: a refusal that is final is the caller's, as without shards") {
    Sharded s;
    s.begin(1);
    s.server.answer(OP_READ, NFS4ERR_IO, 2);
    std::string data(100, '?');
    const auto count = s.file->read(room(data), 0);
    REQUIRE(!count);
    CHECK(count.error().errno_value() == EIO);
    CHECK(count.error().peer() == "/f");
    CHECK(s.reads());
  }

  TEST_CASE("shards: one that the server has forgotten is made again") {
    Sharded s;
    Client& client = s.begin(2);
    SUBCASE("its session") {
      s.server.forget_sessions();
    }
    SUBCASE("with everything else, by a restart") {
      s.server.restart();
    }
    CHECK(s.read_on_threads(2, 3) == 0);
    CHECK(client.info().shards == 0);
    CHECK(s.come_to_work(2));
    CHECK(s.server.sessions() == 3);
    s.file.reset();
    REQUIRE(ok(client.disconnect()));
    CHECK(s.server.sessions() == 0);
    CHECK(s.server.clients() == 0);
  }

  TEST_CASE("shards: a connection that is lost between reads, or during one") {
    Sharded s;
    Client& client = s.begin(1);
    s.server.drop_connections();
    CHECK(s.reads());
    s.server.drop_before(OP_READ);
    CHECK(s.reads());
    s.server.drop_after(OP_READ);
    CHECK(s.reads());
    CHECK(s.come_to_work(1));
    CHECK(client.info().reconnects > 0);
    CHECK(s.server.sessions() == 2);
  }

  TEST_CASE("shards: a server that has no room for further sessions is read from all the same") {
    Sharded s;
    s.server.add_file("/f", s.content);
    s.server.answer(OP_CREATE_SESSION, NFS4ERR_NOSPC, 2, 1);
    Client& client = s.connect("shards=2");
    s.file = s.open("/f");
    CHECK(eventually([&] { return s.read_on_threads(2, 1) == 0 && s.notices.has("CREATE_SESSION"); }));
    CHECK(client.info().shards == 0);
    CHECK(s.come_to_work(2));
  }

  TEST_CASE("shards: a version without sessions has none, and says so") {
    Sharded s;
    Client& client = s.begin("vers=4.0,shards=2");
    CHECK(eventually([&] { return s.read_on_threads(2, 1) == 0 && s.notices.has("NFSv4.1"); }));
    CHECK(client.info().shards == 0);
  }

  TEST_CASE("shards: a file is not closed at the server before the READ in a shard has ended") {
    Sharded s;
    s.begin(1);
    s.server.hold(OP_READ);
    std::atomic<int> right = 0;
    std::thread reader([&] { right += s.reads() ? 1 : 0; });
    REQUIRE(eventually([&] { return s.server.held() == 1; }));
    std::thread closer([&] { right += s.file->close() ? 1 : 0; });
    std::this_thread::sleep_for(20ms);
    CHECK(s.server.count(OP_CLOSE) == 0);
    s.server.release();
    reader.join();
    closer.join();
    CHECK(right == 2);
    CHECK(s.server.count(OP_CLOSE) == 1);
  }

  TEST_CASE("shards: disconnect() ends the reads that are under way there") {
    Sharded s;
    Client& client = s.begin(2);
    s.server.hold(OP_READ);
    std::vector<std::thread> readers;
    std::atomic<int> failed = 0;
    for (int i = 0; i < 2; ++i) {
      readers.emplace_back([&] {
        std::string data(100, '?');
        const auto count = s.file->read(room(data), 0);
        failed += !count && count.error().errno_value() == ECANCELED ? 1 : 0;
      });
    }
    REQUIRE(eventually([&] { return s.server.held() == 2; }));
    const Stopwatch watch;
    std::thread releaser([&] {
      std::this_thread::sleep_for(50ms);
      s.server.release();
    });
    (void)client.disconnect();
    for (std::thread& one : readers) one.join();
    releaser.join();
    CHECK(failed == 2);
    CHECK(watch.elapsed() < 10s);
  }

  TEST_CASE("shards: a read can be cancelled, and has the time that it was given") {
    Sharded s;
    Client& client = s.begin(1);
    s.server.hold(OP_READ);
    std::string data(100, '?');
    Result<std::size_t> cancelled = std::size_t{0};
    std::thread reader([&] {
      CallOptions tagged;
      tagged.tag = 7;
      cancelled = s.file->read(room(data), 0, tagged);
    });
    REQUIRE(eventually([&] { return s.server.held() == 1; }));
    CHECK(client.cancel(8) == 0);
    CHECK(client.cancel(7) == 1);
    reader.join();
    CHECK(errno_of(cancelled) == ECANCELED);
    // The client asks, too, before the time is over.
    CallOptions options;
    options.timeout = 200ms;
    const Stopwatch watch;
    const auto late = s.file->read(room(data), 0, options);
    CHECK(errno_of(late) == ETIMEDOUT);
    CHECK(watch.elapsed() >= 200ms);
    CHECK(s.server.held() == 3);
    s.server.release();
    CHECK(s.reads());
  }

  TEST_CASE("shards: one whose slots are used up by reads that were given up is made again") {
    Sharded s;
    s.server.set_slots(1);
    Client& client = s.begin(1);
    s.server.hold(OP_READ);
    std::string data(100, '?');
    CallOptions options;
    options.timeout = 200ms;
    CHECK(errno_of(s.file->read(room(data), 0, options)) == ETIMEDOUT);
    CHECK(client.info().shards == 0);
    s.server.release();
    CHECK(s.come_to_work(1));
  }

  TEST_CASE("shards: nfsrdma_cancel() leaves a read alone that has no tag") {
    Sharded s;
    Client& client = s.begin(1);
    s.server.hold(OP_READ);
    std::string data(100, '?');
    std::int64_t count = 0;
    std::thread reader(
        [&] { count = nfsrdma_pread(s.file->handle(), data.data(), data.size(), 0, nullptr, nullptr); });
    REQUIRE(eventually([&] { return s.server.held() == 1; }));
    CHECK(client.cancel(0) == 0);
    s.server.release();
    reader.join();
    CHECK(count == 100);
  }

  TEST_CASE("shards: a signal ends a read") {
    Sharded s;
    const Interrupt interrupt;
    s.server.add_file("/f", s.content);
    s.connect("shards=1", interrupt.fd());
    s.file = s.open("/f");
    REQUIRE(s.come_to_work(1));
    s.server.hold(OP_READ);
    std::string data(100, '?');
    Result<std::size_t> interrupted = std::size_t{0};
    std::thread reader([&] { interrupted = s.file->read(room(data), 0); });
    REQUIRE(eventually([&] { return s.server.held() == 1; }));
    interrupt.set();
    reader.join();
    CHECK(errno_of(interrupted) == EINTR);
    interrupt.clear();
    s.server.release();
    CHECK(s.reads());
  }

  TEST_CASE("shards: a CREATE_SESSION that the server has not answered does not become the first session") {
    Sharded s;
    Client& client = s.begin("shards=1");
    REQUIRE(client.info().backchannel);
    s.server.hold(OP_CREATE_SESSION);
    CHECK(s.reads());
    REQUIRE(eventually([&] { return s.server.held() == 1; }));
    // The client gives it up after five seconds, and says so.
    REQUIRE(eventually([&] { return s.notices.has("shards"); }));
    s.server.release();
    s.server.forget_sessions();
    REQUIRE(ok(client.ping()));
    CHECK(client.info().backchannel);
    CHECK(s.come_to_work(1));
    CHECK(s.server.sessions() == 2);
  }

  TEST_CASE("shards: what this client has written is read, also where a restart has lost it") {
    Sharded s;
    s.begin(2);
    for (unsigned round = 0; round < 4; ++round) {
      const std::string text = pattern(3000, 50 + round);
      REQUIRE(ok(s.file->write(bytes(text), round * 3000)));
      s.content.replace(round * 3000, text.size(), text);
      if (round % 2 == 1) s.server.restart();
      CHECK(s.read_on_threads(2, 2) == 0);
      CHECK(s.reads(round * 3000, 3000));
    }
    CHECK(s.come_to_work(2));
    CHECK(s.reads(0, 12000));
  }

  TEST_CASE("shards: a server with few slots has the threads of a shard wait for each other") {
    Sharded s;
    s.server.set_slots(2);
    Client& client = s.begin(1);
    CHECK(s.read_on_threads(6) == 0);
    CHECK(s.server.count(OP_READ) == 120);
    CHECK(client.info().shards == 1);
  }

  TEST_CASE("shards: threads that write, read, restart the server and look on") {
    Sharded s;
    Client& client = s.begin(2);
    std::atomic<bool> over = false;
    std::thread trouble([&] {
      for (int round = 0; round < 6; ++round) {
        std::this_thread::sleep_for(30ms);
        if (round % 3 == 0) s.server.restart();
        if (round % 3 == 1) s.server.drop_connections();
        if (round % 3 == 2) s.server.forget_sessions();
        (void)client.info();
      }
      over = true;
    });
    int wrong = 0;
    while (!over) wrong += s.read_on_threads(4, 2);
    trouble.join();
    CHECK(wrong == 0);
    s.file.reset();
    REQUIRE(ok(client.disconnect()));
    CHECK(s.server.sessions() == 0);
  }
}

}  // namespace nfsrdma
