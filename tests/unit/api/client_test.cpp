// The public API end to end, against the test server: files and directories, asynchronous calls,
// interruption, deadlines, endings.
#include <cerrno>
#include <ctime>
#include <future>
#include <thread>
#include <utility>

#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"
#include "support/sleep_watch.h"
#include "support/virtual_mounted.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

std::chrono::milliseconds cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::milliseconds(time.tv_sec * 1000 + time.tv_nsec / 1000000);
}

/// Waits until the callbacks counted by `done` are `wanted`.
bool wait_for(Client& client, const int& done, int wanted, std::chrono::milliseconds most = 30s) {
  const Stopwatch watch;
  while (done < wanted && watch.elapsed() < most) client.wait(50ms);
  return done == wanted;
}

constexpr auto kForEver = std::chrono::milliseconds::max();

}  // namespace

TEST_CASE("client: reads, writes and describes a file") {
  Mounted m;
  m.server.add_file("/dir/a", "hello");
  Client& client = m.connect();
  CHECK(client.ping());

  auto file = m.open("/dir/a");
  CHECK(Mounted::read_all(*file) == "hello");
  CHECK(*file->write(bytes("HELLO, you"), 0) == 10);
  CHECK(m.server.content("/dir/a") == "HELLO, you");
  CHECK(m.server.stable_content("/dir/a") == "hello");
  CHECK(ok(file->sync()));
  CHECK(m.server.stable_content("/dir/a") == "HELLO, you");
  const auto attributes = file->attributes();
  REQUIRE(ok(attributes));
  CHECK(attributes->type == FileType::regular);
  CHECK(attributes->size == 10);
  CHECK(attributes->mode == 0644);
  CHECK(attributes->uid == 0U);
  SetAttributes changes;
  changes.size = 3;
  changes.mode = 0600;
  CHECK(ok(file->set_attributes(changes)));
  CHECK(Mounted::read_all(*file) == "HEL");
  CHECK(ok(file->close()));
  CHECK(m.server.open_states() == 0);

  const auto stat = client.stat("/dir/a");
  REQUIRE(ok(stat));
  CHECK(stat->mode == 0600);
  CHECK(stat->filesystem_major == 7);
  const auto space = client.space("/");
  REQUIRE(ok(space));
  CHECK(space->total == 1'000'000);
  CHECK(space->files_available == 800);
}

TEST_CASE("client: files larger than rsize and wsize go in pieces") {
  Mounted m;
  const std::string data = pattern(300'001);
  m.server.add_file("/a", data);
  Client& client = m.connect("rsize=64K,wsize=32K");
  CHECK(client.info().rsize == 65536);
  auto file = m.open("/a");
  CHECK(Mounted::read_all(*file) == data);
  CHECK(m.server.count(OP_READ) >= 5);
  CHECK(m.server.count(OP_READ) <= 5 + 7);  // as many as are in flight beside the one that finds the end
  const std::string other = pattern(150'003, 9);
  CHECK(*file->write(bytes(other), 7) == other.size());
  CHECK(m.server.count(OP_WRITE) == 5);
  CHECK(m.server.content("/a") == data.substr(0, 7) + other + data.substr(7 + other.size()));
  CHECK(*file->read({}, 0) == 0);
}

TEST_CASE("client: thresholds of 1024 bytes, without private data") {
  Mounted m;
  m.server.set_announce(false);
  m.server.add_file("/a", pattern(5000));
  Client& client = m.connect();
  CHECK(client.info().reply_threshold == 1024);
  CHECK_FALSE(client.info().private_data);
  auto file = m.open("/a");
  CHECK(Mounted::read_all(*file) == pattern(5000));
  CHECK(*file->write(bytes(pattern(2000, 5)), 0) == 2000);
  CHECK(m.server.content("/a")->substr(0, 2000) == pattern(2000, 5));
}

TEST_CASE("client: names are made, changed and removed") {
  Mounted m;
  Client& client = m.connect();
  CHECK(ok(client.make_directory("/d", 0750)));
  CHECK(client.stat("/d")->type == FileType::directory);
  CHECK(client.stat("/d")->mode == 0750);
  CHECK(errno_of(client.make_directory("/d", 0750)) == EEXIST);
  OpenFlags flags;
  flags.create = true;
  flags.mode = 0640;
  CHECK(ok(m.open("/d/f", OpenMode::write, flags)->close()));
  CHECK(client.stat("/d/f")->mode == 0640);
  CHECK(ok(client.rename("/d/f", "/g")));
  CHECK(errno_of(client.stat("/d/f")) == ENOENT);
  CHECK(ok(client.link("/g", "/d/h")));
  CHECK(client.stat("/g")->links == 2);
  CHECK(ok(client.symlink("d/h", "/s")));
  CHECK(*client.read_link("/s") == "d/h");
  CHECK(client.stat("/s", false)->type == FileType::symlink);
  CHECK(client.stat("/s")->type == FileType::regular);
  CHECK(errno_of(client.remove_file("/d")) == EISDIR);
  CHECK(errno_of(client.remove_directory("/g")) == ENOTDIR);
  CHECK(errno_of(client.remove_directory("/d")) == ENOTEMPTY);
  CHECK(ok(client.remove_file("/d/h")));
  CHECK(ok(client.remove_directory("/d")));
  CHECK(errno_of(client.stat("/d")) == ENOENT);
  SetAttributes changes;
  changes.mode = 0400;
  changes.modified = Time{55, 66};
  CHECK(ok(client.set_attributes("/g", changes)));
  CHECK(client.stat("/g")->modified == Time{55, 66});
  CHECK(*client.access("/g", 7) == 4);
  CHECK(*client.access("/", 7) == 7);
}

TEST_CASE("F8 client: a directory whose cookies go in circles is not listed for ever") {
  Mounted m;
  for (int i = 0; i < 20; ++i) m.server.add_file("/dir/" + std::to_string(i), "");
  m.server.set_circular_listings(true);
  std::size_t count = 0;
  const auto ended = m.connect().list("/dir", [&](const DirectoryEntry&) { return ++count < 1000; });
  REQUIRE_FALSE(ended);
  CHECK(ended.error().errno_value() == ELOOP);
  CHECK(ended.error().peer() == "/dir");
  CHECK(count <= 60);
}

TEST_CASE("client: a symbolic link with a long text") {
  Mounted m;
  Client& client = m.connect();
  const std::string text = "/" + pattern(4000);
  CHECK(ok(client.symlink(text, "/s")));
  CHECK(*client.read_link("/s") == text);
}

TEST_CASE("client: info tells what was agreed") {
  Mounted m;
  m.server.set_slots(9);
  m.server.set_credits(12);
  m.server.set_lease(33);
  Client& client = m.connect();
  const Info info = client.info();
  CHECK(info.fabric == "iwarp");
  CHECK(info.slots == 9);
  CHECK(info.credits_granted == 12);
  CHECK(info.lease_seconds == 33);
  CHECK(info.minor_version == 2);
  CHECK(info.implementation_name == "in memory");
  CHECK(info.implementation_domain == "example.org");
  CHECK(info.server_owner == "test server");
  CHECK(info.session_id.size() == 32);
  CHECK(info.private_data);
  CHECK(info.reply_threshold == 4096);
}

TEST_CASE("client: errors name the operation, the file and the next step") {
  Mounted m;
  Client& client = m.connect();
  const auto missing = client.stat("/no/such");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().kind() == ErrorKind::server);
  CHECK(missing.error().errno_value() == ENOENT);
  CHECK(missing.error().status() == NFS4ERR_NOENT);
  CHECK(missing.error().peer() == "/no/such");
  CHECK(missing.error().text().starts_with("/no/such: "));
  CHECK_FALSE(missing.error().operation().empty());
  m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
  m.server.add_file("/a", "");
  const auto refused = client.open("/a", OpenMode::read);
  CHECK(errno_of(refused) == EACCES);
  CHECK(errno_of(client.open("/", OpenMode::read)) == EISDIR);
  CHECK(errno_of(client.list("/a", [](const DirectoryEntry&) { return true; })) == ENOTDIR);
}

TEST_CASE("client: connecting to nobody fails at once, with the address in the error") {
  NfsServer server;
  const Target target = server.target();
  server.go_away();
  const Stopwatch watch;
  const auto client = Client::connect(target);
  REQUIRE_FALSE(client);
  CHECK(client.error().errno_value() == ECONNREFUSED);
  CHECK(client.error().kind() == ErrorKind::connection);
  CHECK(watch.elapsed() < 2s);
}

// ---- asynchronous calls ----

TEST_CASE("client: many asynchronous reads and writes at once") {
  Mounted m;
  m.server.add_file("/a", pattern(100'000));
  Client& client = m.connect();
  auto file = m.open("/a");
  constexpr int kCount = 200;
  std::vector<std::string> data(kCount, std::string(500, '?'));
  int done = 0;
  for (int i = 0; i < kCount; ++i) {
    auto& place = data[static_cast<std::size_t>(i)];
    file->start_read(room(place), static_cast<std::uint64_t>(i) * 500, [&](Result<std::size_t> count) {
      CHECK(*count == 500);
      ++done;
    });
  }
  CHECK(done == 0);  // never from inside start_read
  REQUIRE(wait_for(client, done, kCount));
  std::string all;
  for (const std::string& one : data) all += one;
  CHECK(all == pattern(100'000));

  done = 0;
  for (int i = 0; i < kCount; ++i) {
    file->start_write(bytes(data[static_cast<std::size_t>(kCount - 1 - i)]),
                      static_cast<std::uint64_t>(i) * 500, [&](Result<std::size_t> count) {
                        CHECK(*count == 500);
                        ++done;
                      });
  }
  REQUIRE(wait_for(client, done, kCount));
  CHECK(m.server.content("/a")->substr(0, 500) == data.back());
  CHECK(ok(file->close()));
  CHECK(m.server.stable_content("/a") == m.server.content("/a"));
}

TEST_CASE(
    "client: an asynchronous transfer larger than rsize and wsize goes in pieces, like a blocking one") {
  Mounted m;
  m.server.add_file("/a", "x");
  Client& client = m.connect("rsize=4096,wsize=4096,read_plus=yes");
  auto file = m.open("/a");
  const auto data = std::make_shared<std::string>(pattern(20'001));
  int done = 0;
  const auto expect = [&](const Result<std::size_t>& count) {
    CHECK((count && *count == data->size()));
    ++done;
  };
  SUBCASE("the library copies") {
    file->start_write(bytes(*data), 0, expect);
  }
  SUBCASE("the program keeps the bytes") {
    file->start_write(bytes(*data), 0, expect, data);
  }
  CHECK(done == 0);
  REQUIRE(wait_for(client, done, 1));
  CHECK(m.server.count(OP_WRITE) == 5);
  m.server.restart();  // loses it
  CHECK(ok(file->sync()));
  CHECK(m.server.stable_content("/a") == *data);
  CHECK(data.use_count() == 1);

  std::string read(30'000, '?');
  file->start_read(room(read), 0, expect);
  REQUIRE(wait_for(client, done, 2));
  CHECK(read.substr(0, data->size()) == *data);
  CHECK(read.substr(data->size()) == std::string(30'000 - data->size(), '?'));

  REQUIRE(ok(file->deallocate(8'192, 8'192)));
  File::Stretch found;
  const auto look = [&](std::size_t size, std::uint64_t offset) {
    const int before = done;
    file->start_read_with_holes(room(read).first(size), offset, [&](const Result<File::Stretch>& stretch) {
      REQUIRE(stretch);
      found = *stretch;
      ++done;
    });
    REQUIRE(wait_for(client, done, before + 1));
  };
  look(30'000, 0);
  CHECK(found.count == data->size());
  CHECK(found.has_holes);
  CHECK(found.hole_ends == 0);  // the last byte is data
  CHECK((read.substr(8'192, 8'192) == std::string(8'192, '\0')));
  look(12'000, 0);
  CHECK(found.count == 12'000);
  CHECK(found.hole_ends >= 12'000);
  look(8'192, 0);
  CHECK_FALSE(found.has_holes);
  look(8'192, data->size());
  CHECK(found.count == 0);
}

TEST_CASE("client: a callback may start asynchronous calls and make blocking ones") {
  Mounted m;
  m.server.add_file("/a", "0123456789");
  Client& client = m.connect();
  auto file = m.open("/a");
  std::string first(5, '?'), second(5, '?');
  int done = 0;
  file->start_read(room(first), 0, [&](Result<std::size_t> count) {
    CHECK(*count == 5);
    CHECK(ok(client.ping()));
    CHECK(ok(client.stat("/a")));
    CHECK(ok(file->sync()));
    CHECK(ok(client.open("/a", OpenMode::read)));
    CHECK_FALSE(client.wait(10ms));
    file->start_read(room(second), 5, [&](Result<std::size_t> more) {
      CHECK(*more == 5);
      ++done;
    });
    ++done;
  });
  REQUIRE(wait_for(client, done, 2));
  CHECK(first + second == "0123456789");
  CHECK(client.ping());
}

TEST_CASE("client: a callback may disconnect; calls after that are refused") {
  Mounted m;
  m.server.add_file("/a", "0123456789");
  Client& client = m.connect();
  auto file = m.open("/a");
  std::string data(5, '?');
  int done = 0;
  file->start_read(room(data), 0, [&](Result<std::size_t>) {
    CHECK(ok(client.disconnect()));
    ++done;
  });
  REQUIRE(wait_for(client, done, 1));
  CHECK_FALSE(client.ping());
  CHECK(m.server.clients() == 0);
}

TEST_CASE("client: callbacks run on a thread that is inside a call, not on one of the library's") {
  Mounted m;
  m.server.add_file("/a", "0123456789");
  Client& client = m.connect();
  auto file = m.open("/a");
  std::string data(5, '?');
  int done = 0;
  std::thread::id where;
  file->start_read(room(data), 0, [&](Result<std::size_t>) {
    where = std::this_thread::get_id();
    ++done;
  });
  // The library's own thread has taken the answer when it has answered the Call that the server sends behind that.
  CHECK(eventually([&] { return m.server.succeeded(OP_READ) == 1; }));
  CHECK(m.server.null_callback() == NFS4_OK);
  CHECK(ok(client.ping()));  // nor in a blocking call
  CHECK(done == 0);
  REQUIRE(wait_for(client, done, 1));
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE("client: wait() returns for a descriptor of the caller's, a callback, and the time") {
  Mounted m;
  m.server.add_file("/a", "0123456789");
  Client& client = m.connect();
  auto file = m.open("/a");
  const Interrupt mine;
  const std::vector<int> also{mine.fd()};
  const Stopwatch watch;
  CHECK_FALSE(client.wait(50ms, also));
  CHECK(watch.elapsed() >= 49ms);
  CHECK_FALSE(client.wait(0ms, also));
  const SleepWatch me;
  std::thread other([&] {
    CHECK(eventually([&] { return me.is_asleep(); }));
    mine.set();
  });
  CHECK(client.wait(5s, also));
  CHECK(client.wait(5s, also));  // still readable
  other.join();
  mine.clear();
  int done = 0;
  std::string data(5, '?');
  file->start_read(room(data), 0, [&](Result<std::size_t>) { ++done; });
  CHECK(client.wait(5s, also));
  CHECK(done == 1);
  CHECK(watch.elapsed() < 3s);
}

TEST_CASE("client: wait() without time to wait has done what was to be done") {
  Mounted m;
  m.server.add_file("/a", "0123456789");
  Client& client = m.connect();
  auto file = m.open("/a");
  const Interrupt mine;
  const std::vector<int> also{mine.fd()};
  for (const bool polls : {false, true}) {
    int done = 0;
    std::string data(5, '?');
    file->start_read(room(data), 0, [&](Result<std::size_t>) { ++done; });
    const Stopwatch watch;
    while (done == 0 && watch.elapsed() < 3s) (void)client.wait(0ms, polls ? also : std::vector<int>());
    CHECK(done == 1);
  }
}

TEST_CASE("client: destroying a file with reads under way takes the buffers back, and no callback follows") {
  Mounted m;
  m.server.add_file("/a", pattern(8000));
  Client& client = m.connect("timeo=500ms");
  auto file = m.open("/a");
  m.server.hold(OP_READ);
  std::string data(8000, '?');
  int done = 0;
  file->start_read(room(data), 0, [&](Result<std::size_t>) { ++done; });
  REQUIRE(comes(client, [&] { return m.server.held() == 1; }));
  const Stopwatch watch;
  file.reset();
  CHECK(watch.elapsed() < 3s);
  const int at_end = done;
  m.server.release();
  CHECK(client.ping());  // answered behind the READ
  CHECK(done == at_end);
  CHECK(data == std::string(8000, '?'));
}

TEST_CASE("client: a file destroyed while the server keeps silent for long leaves nothing behind") {
  Mounted m;
  m.server.add_file("/a", pattern(8000));
  Client& client = m.connect("timeo=4s");
  auto file = m.open("/a");
  m.server.hold(OP_READ);
  int done = 0;
  {
    const auto data = std::make_unique<std::string>(8000, '?');
    file->start_read(room(*data), 0, [&done](Result<std::size_t>) { ++done; });
    REQUIRE(comes(client, [&] { return m.server.held() == 1; }));
    file.reset();
  }
  const int at_end = done;
  m.server.release();
  CHECK(client.ping());  // answered behind the READ
  CHECK(done == at_end);
}

TEST_CASE("client: a call whose answer is lost is sent again well before timeo") {
  Mounted m;
  m.server.add_file("/a", pattern(8000));
  Client& client = m.connect("timeo=4s");
  auto file = m.open("/a");
  m.server.hold(OP_READ);
  std::thread other([&] {
    eventually([&] { return m.server.connections() == 2; }, 4s);
    m.server.release();
  });
  std::string data(8000, '?');
  CHECK(ok(file->read(room(data), 0)));
  CHECK(data == pattern(8000));
  other.join();
  CHECK(m.server.connections() == 2);
  CHECK(client.info().reconnects == 1);
}

TEST_CASE("client: one that was given up does not keep the only credit for long") {
  Mounted m;
  m.server.add_file("/a", pattern(8000));
  m.server.set_credits(1);
  Client& client = m.connect("timeo=1s");
  auto file = m.open("/a");
  m.server.hold(OP_READ);
  std::string data(8000, '?');
  CHECK(errno_of(file->read(room(data), 0)) == ETIMEDOUT);
  CHECK(ok(client.ping()));
  m.server.release();
  CHECK(ok(file->read(room(data), 0)));
  CHECK(data == pattern(8000));
}

// ---- interruption ----

TEST_CASE("client: T28 an interrupted read ends within a second, and a late answer changes nothing") {
  Mounted m;
  m.server.add_file("/a", pattern(50'000));
  const Interrupt interrupt;
  Client& client = m.connect("", interrupt.fd());
  auto file = m.open("/a");
  m.server.hold(OP_READ);
  std::string data(50'000, '?');
  std::thread other([&] {
    eventually([&] { return m.server.held() == 1; });
    interrupt.set();
  });
  const Stopwatch watch;
  const auto result = file->read(room(data), 0);
  CHECK(watch.elapsed() < 1s);
  other.join();
  REQUIRE_FALSE(result);
  CHECK(result.error().kind() == ErrorKind::cancelled);
  CHECK(result.error().errno_value() == EINTR);
  CHECK(data == std::string(50'000, '?'));
  const unsigned before = m.server.connections();
  m.server.release();  // writes into memory that it was once offered
  interrupt.clear();
  CHECK(client.ping());
  CHECK(data == std::string(50'000, '?'));
  CHECK(Mounted::read_all(*file) == pattern(50'000));
  CHECK(m.server.connections() <= before + 1);
}

TEST_CASE("client: while the interrupt is there every call ends at once, afterwards all is well") {
  Mounted m;
  m.server.add_file("/a", "text");
  const Interrupt interrupt;
  Client& client = m.connect("", interrupt.fd());
  auto file = m.open("/a");
  m.server.hold(OP_SEQUENCE);
  interrupt.set();
  const Stopwatch watch;
  CHECK(errno_of(client.ping()) == EINTR);
  CHECK(errno_of(client.stat("/a")) == EINTR);
  CHECK(errno_of(file->write(bytes("more"), 0)) == EINTR);
  CHECK(client.wait(5s));
  CHECK(watch.elapsed() < 2s);
  m.server.release();
  interrupt.clear();
  CHECK(ok(client.ping()));
  CHECK(ok(client.stat("/a")));
}

TEST_CASE("client: an interrupted write ends, and its buffer may go") {
  Mounted m;
  m.server.add_file("/a", "");
  const Interrupt interrupt;
  (void)m.connect("", interrupt.fd());
  auto file = m.open("/a");
  m.server.hold(OP_WRITE);
  std::thread other([&] {
    eventually([&] { return m.server.held() == 1; });
    interrupt.set();
  });
  {
    const auto data = std::make_unique<std::string>(pattern(100'000));
    CHECK(errno_of(file->write(bytes(*data), 0)) == EINTR);
  }
  other.join();
  interrupt.clear();
  m.server.release();
  CHECK(ok(file->write(bytes("again"), 0)));
  CHECK(ok(file->close()));
}

TEST_CASE("client: sync() works again after an interrupted one") {
  Mounted m;
  m.server.add_file("/a", "");
  const Interrupt interrupt;
  (void)m.connect("timeo=2s", interrupt.fd());
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("data"), 0)));
  m.server.hold(OP_COMMIT, false);
  std::thread other([&] {
    eventually([&] { return m.server.held() == 1; });
    interrupt.set();
  });
  CHECK(errno_of(file->sync()) == EINTR);
  other.join();
  m.server.restart();  // loses the data, and the COMMIT that was held
  m.server.release();
  interrupt.clear();
  CHECK(ok(file->sync()));
  CHECK(m.server.stable_content("/a") == "data");
  CHECK(ok(file->close()));
}

TEST_CASE("client: a rewrite that was interrupted is made up for by the next sync()") {
  Mounted m;
  m.server.add_file("/a", "");
  const Interrupt interrupt;
  (void)m.connect("timeo=2s", interrupt.fd());
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("first"), 0)));
  CHECK(ok(file->write(bytes("second"), 100)));
  m.server.restart();
  m.server.hold(OP_WRITE, false);
  std::thread other([&] {
    eventually([&] { return m.server.held() == 1; });
    interrupt.set();
  });
  CHECK(errno_of(file->sync()) == EINTR);
  other.join();
  m.server.drop_connections();  // with what it held
  m.server.release();
  interrupt.clear();
  CHECK(ok(file->sync()));
  const std::string expected = "first" + std::string(95, '\0') + "second";
  CHECK(m.server.stable_content("/a") == expected);
}

TEST_CASE("client: connect() itself can be interrupted") {
  NfsServer server;
  const Interrupt interrupt;
  server.hold(OP_ILLEGAL);
  std::thread other([&] {
    eventually([&] { return server.held() == 1; });
    interrupt.set();
  });
  const Stopwatch watch;
  const auto client = Client::connect(server.target(), nullptr, interrupt.fd());
  CHECK(errno_of(client) == EINTR);
  CHECK(watch.elapsed() < 1500ms);
  other.join();
}

TEST_CASE("client: the end of a client cleans up although the interrupt is there") {
  NfsServer server;
  const Interrupt interrupt;
  {
    auto client = Client::connect(server.target(), nullptr, interrupt.fd());
    REQUIRE(ok(client));
    interrupt.set();
  }
  CHECK(server.sessions() == 0);
  CHECK(server.clients() == 0);
}

TEST_CASE("client: an interrupted copy may be given up while its data is being committed") {
  Mounted m;
  m.server.add_file("/a", "");
  const Interrupt interrupt;
  (void)m.connect("timeo=2s", interrupt.fd());
  auto file = m.open("/a");
  const std::string piece(1U << 20, 'x');
  m.server.hold(OP_COMMIT);
  for (std::uint64_t i = 0; i < 34; ++i) REQUIRE(ok(file->write(bytes(piece), i << 20)));
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  interrupt.set();
  file.reset();
  interrupt.clear();
  m.server.release();
  CHECK(ok(m.client->ping()));
  CHECK(ok(m.client->ping()));
}

// ---- deadlines ----

TEST_CASE("client: a server that stops answering leads to ETIMEDOUT when the time is over") {
  Mounted m;
  m.server.add_file("/a", "text");
  Client& client = m.connect("timeo=300ms");
  auto file = m.open("/a");
  m.server.hold(OP_ILLEGAL);
  const Stopwatch watch;
  const auto result = client.ping();
  CHECK(watch.elapsed() >= 290ms);
  CHECK(watch.elapsed() < 1500ms);
  REQUIRE_FALSE(result);
  CHECK(result.error().errno_value() == ETIMEDOUT);
  CHECK(result.error().kind() == ErrorKind::timeout);
  std::string data(4, '?');
  CHECK(errno_of(file->read(room(data), 0)) == ETIMEDOUT);
  CHECK(watch.elapsed() < 2500ms);
  m.server.release();
  CHECK(ok(client.ping()));
  CHECK(ok(client.ping()));
}

TEST_CASE("client: an asynchronous call on a silent server hears ETIMEDOUT") {
  Mounted m;
  m.server.add_file("/a", "text");
  Client& client = m.connect("timeo=300ms");
  auto file = m.open("/a");
  m.server.hold(OP_READ);
  std::string data(4, '?');
  int done = 0, error = 0;
  file->start_read(room(data), 0, [&](Result<std::size_t> result) {
    error = errno_of(result);
    ++done;
  });
  REQUIRE(wait_for(client, done, 1));
  CHECK(error == ETIMEDOUT);
  m.server.release();
  CHECK(data == "????");
}

TEST_CASE("client: a server that is gone and comes back is found again, and the observer hears of it") {
  VirtualMounted m;
  m.server.add_file("/a", "text");
  Client& client = m.connect();
  auto file = m.open("/a");
  m.server.go_away();
  m.after(100ms, [&] { m.server.come_back(); });
  CHECK(Mounted::read_all(*file) == "text");
  CHECK(m.notices.has("connection"));
  CHECK(client.info().reconnects >= 1);
}

TEST_CASE("api: for ever is a time like others, to wait, for a lock, and for answers") {
  NfsServer server;
  server.add_file("/file", "text");
  Target target = server.target();
  REQUIRE(
      ok(target.options.set_all("timeo=86400s,connect_timeout=86400s")));  // the longest times that there are
  auto client = Client::connect(target);
  REQUIRE(ok(client));
  auto opened = (*client)->open("/file", OpenMode::read_write);
  REQUIRE(ok(opened));
  File& file = **opened;

  const Interrupt mine;
  const std::vector<int> also{mine.fd()};
  const SleepWatch me;
  std::thread setter([&] {
    CHECK(eventually([&] { return me.is_asleep(); }));
    mine.set();
  });
  CHECK((*client)->wait(kForEver, also));
  setter.join();
  CHECK_FALSE((*client)->wait(std::chrono::milliseconds::min()));

  CHECK(ok(file.lock({1, true, {0, 10}})));
  server.clear_calls();
  std::thread unlocker([&] {
    CHECK(eventually([&] { return server.count(OP_LOCK) != 0; }));
    CHECK(ok(file.unlock(1)));
  });
  CHECK(ok(file.lock({2, true, {0, 1}}, kForEver)));
  unlocker.join();
  CHECK(errno_of(file.lock({3, true, {0, 1}}, std::chrono::milliseconds::min())) == EAGAIN);
  CHECK(Mounted::read_all(file, 10) == "text");
  CHECK(ok(file.close()));
  opened->reset();
  client->reset();
  CHECK(server.problems() == "");
}

// ---- endings ----

TEST_CASE("client: disconnect() ends session and client id; later calls fail at once") {
  Mounted m;
  Client& client = m.connect();
  CHECK(m.server.sessions() == 1);
  CHECK(ok(client.disconnect()));
  CHECK(m.server.sessions() == 0);
  CHECK(m.server.clients() == 0);
  CHECK(m.server.count(OP_DESTROY_SESSION) == 1);
  CHECK(m.server.count(OP_DESTROY_CLIENTID) == 1);
  CHECK(ok(client.disconnect()));
  const Stopwatch watch;
  CHECK_FALSE(client.stat("/"));
  CHECK_FALSE(client.ping());
  CHECK_FALSE(client.wait(1ms));
  (void)client.info();
  CHECK(watch.elapsed() < 1s);
}

TEST_CASE("client: disconnect() closes the files that are open, and makes their data stable") {
  Mounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("data"), 0)));
  CHECK(ok(client.disconnect()));
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.clients() == 0);
  CHECK(m.server.stable_content("/a") == "data");
  CHECK_FALSE(file->write(bytes("more"), 0));
  file.reset();
}

TEST_CASE("client: disconnect() while the server is gone returns in bounded time") {
  Mounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect("timeo=1s");
  auto file = m.open("/a");
  m.server.go_away();
  const Stopwatch watch;
  CHECK_FALSE(client.disconnect());
  CHECK(watch.elapsed() < 4s);
  file.reset();
  m.client.reset();
  CHECK(watch.elapsed() < 5s);
}

TEST_CASE("client: the destructor with calls under way") {
  Mounted m;
  m.server.add_file("/a", pattern(8000));
  (void)m.connect("timeo=3s");
  auto file = m.open("/a");
  m.server.hold(OP_READ);
  std::string data(8000, '?');
  file->start_read(room(data), 0, [](Result<std::size_t>) {});
  m.client->wait(1ms);
  const Stopwatch watch;
  file.reset();
  m.client.reset();
  CHECK(watch.elapsed() < 5s);
  m.server.release();
  CHECK(data == std::string(8000, '?'));
}

TEST_CASE("client: disconnect() after a restart of the server is no failure") {
  Mounted m;
  Client& client = m.connect();
  m.server.restart();
  CHECK(ok(client.disconnect()));
}

TEST_CASE("client: an idle client with a short lease does not burn the processor") {
  std::promise<void> renews;
  Mounted m;
  m.server.set_lease(1);
  (void)m.connect();
  // It is idle until it renews its lease, a third of a second later. The wait for that takes no time of the processor.
  m.server.on_server([&](Responder& responder) {
    responder.on_call = [&renews, first = true](const SeenCall&) mutable {
      if (std::exchange(first, false)) renews.set_value();
    };
  });
  const auto before = cpu_time();
  CHECK(renews.get_future().wait_for(30s) == std::future_status::ready);
  CHECK(cpu_time() - before < 20ms);
}

}  // namespace nfsrdma
