// Calls that are only started, opens, syncs, closes and questions after attributes, end to end: told once, or, when what
// they are on goes, never. Reads and writes: client_test.cpp.
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "support/nfs_fixture.h"
#include "support/virtual_mounted.h"

namespace nfsrdma::starts {
namespace {

using namespace testing;
using namespace nfs4;

/// What callbacks were told: how often, and the last errno. What they hold shows whether they are still there.
struct Heard {
  int times = 0, code = -1;
  std::shared_ptr<int> held = std::make_shared<int>();
  /// `then` is done with what it was told.
  template <class Then>
  auto hear(Then then) {
    return [this, kept = held, then](const auto& result) {
      ++times;
      code = errno_of(result);
      then(result);
    };
  }
  auto hear() {
    return hear([](const auto&) {});
  }
  /// Once, that it went well.
  [[nodiscard]] bool well() const { return times == 1 && code == 0; }
  [[nodiscard]] bool is_forgotten() const { return held.use_count() == 1; }
};

constexpr OpenFlags kCreate{.create = true, .mode = 0640};

}  // namespace

TEST_CASE("starts: a file made, written, asked, synced and closed, each begun by the callback before") {
  for (const char* version : {"vers=4.2", "vers=4.1", "vers=4.0"}) {
    CAPTURE(version);
    Mounted m;
    m.server.add_directory("/d");
    Client& client = m.connect(version);
    std::unique_ptr<File> file;
    const std::string text = "0123456789";
    std::vector<std::string> steps;
    std::uint64_t size = 0;
    client.start_open(
        "/d/new", OpenMode::read_write,
        [&](Result<std::unique_ptr<File>> opened) {
          if (!ok(opened)) return;
          file = std::move(*opened);
          steps.emplace_back("open");
          file->start_write(bytes(text), 0, [&](Result<std::size_t> count) {
            if (count.value_or(0) == text.size()) steps.emplace_back("write");
            file->start_sync([&](const Status& synced) {
              if (ok(synced) && m.server.stable_content("/d/new") == text) steps.emplace_back("sync");
              file->start_attributes([&](const Result<Attributes>& told) {
                if (ok(told)) size = told->size;
                file->start_close([&](const Status& closed) {
                  if (ok(closed)) steps.emplace_back("close");
                  file.reset();
                });
              });
            });
          });
        },
        kCreate);
    CHECK(steps.empty());
    REQUIRE(comes(client, [&] { return steps.size() == 4; }));
    CHECK(steps == std::vector<std::string>{"open", "write", "sync", "close"});
    CHECK(size == text.size());
    CHECK(m.server.open_states() == 0);
    Heard stat;
    client.start_stat("/d/new", stat.hear([&](const Result<Attributes>& told) {
      CHECK((ok(told) && told->size == text.size() && told->mode == 0640 && told->uid == 0U));
    }));
    REQUIRE(comes(client, [&] { return stat.well(); }));
    CHECK(ok(client.ping()));
  }
}

TEST_CASE("starts: the memory of a call that has ended serves the next one") {
  api_detail::Room room;
  void* const first = room.take(100);
  room.give_back(first, 100);
  void* const second = room.take(200);
  CHECK(second == first);
  void* const third = room.take(100);  // while the second is under way
  CHECK(third != second);
  room.give_back(second, 200);
  room.give_back(third, 100);
  CHECK(room.take(1) == third);
  room.give_back(third, 1);
  void* const large = room.take(10'000);  // not from the block that is kept
  CHECK(large != third);
  std::memset(large, 1, 10'000);
  room.give_back(large, 10'000);
  CHECK(room.take(256) == third);
  room.give_back(third, 256);
}

TEST_CASE("starts: a write that is to be on the disk is there when it is told") {
  Mounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect();
  auto file = m.open("/a");
  const std::string text = pattern(5000);
  Heard wrote;
  file->start_write(bytes(text), 0, wrote.hear(), nullptr, Stability::on_disk);
  REQUIRE(comes(client, [&] { return wrote.well(); }));
  CHECK(m.server.stable_content("/a") == text);
  CHECK(m.server.count(OP_COMMIT) == 0);
}

TEST_CASE("starts: what fails is told, later and once") {
  Mounted m;
  m.server.add_file("/a", "text");
  m.server.add_symlink("/link", "a");
  Client& client = m.connect();
  Heard missing, no_directory, stat, link;
  client.start_open("/none", OpenMode::read, missing.hear());
  client.start_open("/a/b", OpenMode::read, no_directory.hear());
  client.start_stat("/none", stat.hear());
  const auto is_link = [](const Result<Attributes>& told) {
    CHECK((ok(told) && told->type == FileType::symlink));
  };
  client.start_stat("/link", link.hear(is_link), false);
  CHECK(missing.times + no_directory.times + stat.times + link.times == 0);
  REQUIRE(comes(client, [&] {
    return missing.times != 0 && no_directory.times != 0 && stat.times != 0 && link.times != 0;
  }));
  CHECK(missing.code == ENOENT);
  CHECK(no_directory.code == ENOTDIR);
  CHECK(stat.code == ENOENT);
  CHECK(link.well());

  auto file = m.open("/a");
  REQUIRE(ok(file->write(bytes("news"), 0)));
  m.server.answer(OP_COMMIT, NFS4ERR_NOSPC);
  Heard sync, again;
  file->start_sync(sync.hear());
  REQUIRE(comes(client, [&] { return sync.times != 0; }));
  CHECK(sync.code == ENOSPC);
  file->start_sync(again.hear());
  REQUIRE(comes(client, [&] { return again.times != 0; }));
  CHECK(again.well());
  CHECK(m.server.stable_content("/a") == "news");

  // The first who waits for the close hears what became of the data; the file is closed all the same.
  REQUIRE(ok(file->write(bytes("lost"), 0)));
  m.server.answer(OP_COMMIT, NFS4ERR_NOSPC, 2);
  Heard close, late;
  file->start_close(close.hear());
  file->start_sync(late.hear());
  CHECK(late.times == 0);
  REQUIRE(comes(client, [&] { return close.times != 0 && late.times != 0; }));
  CHECK(close.code == ENOSPC);
  CHECK(late.code == EBADF);
  CHECK(ok(file->close()));
  CHECK(errno_of(file->attributes()) == EBADF);
  CHECK(m.server.open_states() == 0);
  CHECK(missing.is_forgotten());
  for (const Heard* one : {&missing, &no_directory, &stat, &link, &sync, &again, &close, &late})
    CHECK(one->times == 1);
}

TEST_CASE("starts: room and holes, several under way beside each other") {
  Mounted m;
  m.server.add_file("/a", pattern(10'000));
  m.server.add_file("/b", "text");
  Client& client = m.connect();
  auto file = m.open("/a");
  auto read_only = m.open("/b", OpenMode::read);
  m.server.hold(OP_DEALLOCATE);
  Heard longer, holes[2], refused, full;
  file->start_deallocate(1000, 2000, holes[0].hear());
  file->start_deallocate(5000, 1000, holes[1].hear());
  read_only->start_deallocate(0, 1, refused.hear());
  file->start_allocate(0, 12'000, longer.hear());
  CHECK(longer.times + refused.times == 0);
  REQUIRE(comes(client, [&] { return m.server.held() == 2 && longer.times != 0 && refused.times != 0; }));
  CHECK(longer.well());
  CHECK(refused.code == EBADF);
  CHECK(holes[0].times + holes[1].times == 0);
  m.server.release();
  REQUIRE(comes(client, [&] { return holes[0].times != 0 && holes[1].times != 0; }));
  CHECK((holes[0].well() && holes[1].well()));
  std::string expected = pattern(10'000);
  expected.replace(1000, 2000, 2000, '\0').replace(5000, 1000, 1000, '\0').resize(12'000);
  CHECK(m.server.stable_content("/a") == expected);

  m.server.answer(OP_ALLOCATE, NFS4ERR_NOSPC);
  file->start_allocate(0, 20'000, full.hear());
  REQUIRE(comes(client, [&] { return full.times != 0; }));
  CHECK(full.code == ENOSPC);
}

TEST_CASE("starts: a callback may destroy the file, and leave one that was opened") {
  Mounted m;
  m.server.add_file("/a", pattern(1000));
  Client& client = m.connect();
  Heard opened;
  client.start_open("/a", OpenMode::read, opened.hear());
  REQUIRE(comes(client, [&] { return opened.well(); }));
  CHECK(comes(client, [&] { return m.server.open_states() == 0; }));

  // In the callback of a sync, while a read is under way. Its data is made stable, and it is closed, beside.
  auto file = m.open("/a");
  m.server.hold(OP_READ);
  Heard read, sync;
  std::string data(100, '?');
  file->start_read(room(data), 0, read.hear());
  file->start_sync(sync.hear([&](const auto&) { file.reset(); }));
  REQUIRE(comes(client, [&] { return sync.times != 0; }));
  CHECK(sync.well());
  m.server.release();
  CHECK(comes(client, [&] { return m.server.open_states() == 0; }));
  CHECK(read.is_forgotten());
  CHECK(read.times == 0);
  CHECK(data == std::string(100, '?'));

  file = m.open("/a");
  REQUIRE(ok(file->write(bytes("news"), 0)));
  Heard stat;
  client.start_stat("/a", stat.hear([&](const auto&) { file.reset(); }));
  REQUIRE(comes(client, [&] { return stat.well(); }));
  // Whoever disconnects waits for what is done beside.
  CHECK(ok(client.disconnect()));
  CHECK(m.server.stable_content("/a")->substr(0, 4) == "news");
  CHECK(m.server.count(OP_CLOSE) == 3);
  CHECK(m.server.clients() == 0);
}

TEST_CASE("starts: a file destroyed while a sync is under way: nobody is told, and its data is stable") {
  Mounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect();
  auto file = m.open("/a");
  REQUIRE(ok(file->write(bytes("text"), 0)));
  m.server.hold(OP_COMMIT);
  Heard sync;
  file->start_sync(sync.hear());
  REQUIRE(comes(client, [&] { return m.server.held() == 1; }));
  std::thread other([&] {
    CHECK(eventually([&] { return m.server.count(OP_COMMIT) == 2; }));
    m.server.release();
  });
  file.reset();
  other.join();
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.stable_content("/a") == "text");
  client.service();
  CHECK(sync.is_forgotten());
  CHECK(ok(client.ping()));  // answered behind the COMMIT
  CHECK(sync.times == 0);
}

TEST_CASE("starts: a file destroyed while it is being closed is closed once, and nobody is told") {
  VirtualMounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect();
  for (const bool in_callback : {false, true}) {
    CAPTURE(in_callback);
    m.server.clear_calls();
    auto file = m.open("/a");
    m.server.hold(OP_CLOSE, false);
    Heard close, stat;
    file->start_close(close.hear());
    REQUIRE(m.eventually([&] { return m.server.held() == 1; }));
    if (in_callback) {
      client.start_stat("/a", stat.hear([&](const auto&) { file.reset(); }));
      REQUIRE(m.eventually([&] { return stat.well(); }));
    } else {
      file.reset();  // does not wait for a close that was started
      CHECK(m.server.open_states() == 1);
    }
    m.server.release();
    CHECK(m.eventually([&] { return m.server.open_states() == 0 && close.is_forgotten(); }));
    CHECK(close.times == 0);
    CHECK(m.server.count(OP_CLOSE) == 1);
  }
  CHECK(ok(client.disconnect()));
}

TEST_CASE("starts: the client destroyed while an open is under way: nobody is told, and nothing is left") {
  for (const char* version : {"vers=4.2", "vers=4.0"}) {
    for (const bool executed : {false, true}) {
      CAPTURE(version);
      CAPTURE(executed);
      Mounted m;
      m.server.add_file("/a", "text");
      Client& client = m.connect(version);
      Heard open, stat;
      m.server.hold(OP_OPEN, executed);
      client.start_open("/a", OpenMode::read, open.hear());
      REQUIRE(comes(client, [&] { return m.server.held() == 1; }));
      client.start_stat("/a", stat.hear());
      const Stopwatch watch;
      m.client.reset();
      CHECK(watch.elapsed() < 5s);
      CHECK(open.times + stat.times == 0);
      CHECK(open.is_forgotten());
      CHECK(stat.is_forgotten());
      m.server.release();
    }
  }
  // Its answer has come, and nobody has been told yet.
  Mounted m;
  m.server.add_file("/a", "text");
  Client& client = m.connect();
  Heard open;
  client.start_open("/a", OpenMode::read, open.hear());
  CHECK(eventually([&] { return m.server.succeeded(OP_OPEN) == 1; }));
  // The client's own thread has taken the answer when it has answered the Call that the server sends behind that.
  CHECK(m.server.null_callback() == NFS4_OK);
  m.client.reset();
  CHECK(open.times == 0);
  CHECK(open.is_forgotten());
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.clients() == 0);
}

TEST_CASE("starts: a directory destroyed while an open in it is under way, which goes on") {
  Mounted m;
  m.server.add_file("/d/a", "text");
  Client& client = m.connect();
  auto directory = client.open_directory("/d");
  REQUIRE(ok(directory));
  std::unique_ptr<File> file;
  Heard stat;
  (*directory)->start_open("a", OpenMode::read, [&](Result<std::unique_ptr<File>> opened) {
    if (ok(opened)) file = std::move(*opened);
  });
  (*directory)->start_stat("a", stat.hear());
  directory->reset();
  REQUIRE(comes(client, [&] { return file && stat.times != 0; }));
  CHECK(stat.well());
  CHECK(Mounted::read_all(*file) == "text");
}

TEST_CASE("starts: a close while reads and a write are under way") {
  for (const char* version : {"vers=4.2", "vers=4.0"}) {
    CAPTURE(version);
    Mounted m;
    m.server.add_file("/a", pattern(4000));
    Client& client = m.connect(version);
    auto file = m.open("/a");
    m.server.hold(OP_READ);
    std::vector<std::string> data(4, std::string(1000, '?'));
    std::vector<Heard> reads(4);
    Heard write, close, late;
    for (std::size_t i = 0; i < 4; ++i) file->start_read(room(data[i]), i * 1000, reads[i].hear());
    const std::string news = "news";
    file->start_write(bytes(news), 4000, write.hear());
    file->start_close(close.hear());
    file->start_read(room(data[0]), 0, late.hear());
    REQUIRE(comes(client, [&] { return late.times != 0 && m.server.held() == 4; }));
    CHECK(late.code == EBADF);
    m.server.release();
    REQUIRE(comes(client, [&] { return close.times != 0; }));
    CHECK(close.well());
    CHECK(comes(client, [&] { return std::ranges::all_of(reads, &Heard::well); }));
    CHECK(write.well());
    for (std::size_t i = 0; i < 4; ++i) CHECK(data[i] == pattern(4000).substr(i * 1000, 1000));
    CHECK(m.server.content("/a") == pattern(4000) + news);
    CHECK(m.server.open_states() == 0);
  }
}

TEST_CASE("starts: several syncs at once, and closes") {
  Mounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect();
  auto file = m.open("/a");
  REQUIRE(ok(file->write(bytes(pattern(3000)), 0)));
  std::vector<Heard> syncs(5), closes(3);
  for (Heard& one : syncs) file->start_sync(one.hear());
  CHECK(ok(file->sync()));
  REQUIRE(comes(client, [&] { return std::ranges::all_of(syncs, &Heard::well); }));
  CHECK(m.server.stable_content("/a") == pattern(3000));
  for (Heard& one : closes) file->start_close(one.hear());
  CHECK(ok(file->close()));
  REQUIRE(comes(client, [&] { return std::ranges::all_of(closes, &Heard::well); }));
  CHECK(m.server.count(OP_CLOSE) == 1);
}

TEST_CASE("starts: after disconnect(), and while it runs") {
  VirtualMounted m;
  m.server.add_file("/a", "text");
  Client& client = m.connect();
  auto file = m.open("/a");
  auto closing = m.open("/a");
  REQUIRE(ok(closing->write(bytes("news"), 0)));
  m.server.hold(OP_READ);
  std::string data(4, '?');
  Heard read, close;
  file->start_read(room(data), 0, read.hear());
  closing->start_close(close.hear());
  REQUIRE(m.eventually([&] { return m.server.held() == 1; }));
  m.after(50ms, [&] { m.server.release(); });
  CHECK(ok(client.disconnect()));
  CHECK(m.server.stable_content("/a") == "news");
  CHECK(m.server.clients() == 0);
  REQUIRE(m.eventually([&] { return read.times != 0 && close.times != 0; }));
  CHECK(close.well());

  Heard open, stat, sync, attributes, closed;
  client.start_open("/a", OpenMode::read, open.hear());
  client.start_stat("/a", stat.hear());
  file->start_sync(sync.hear());
  file->start_attributes(attributes.hear());
  file->start_close(closed.hear());
  REQUIRE(m.eventually([&] {
    return open.times != 0 && stat.times != 0 && sync.times != 0 && attributes.times != 0 &&
           closed.times != 0;
  }));
  for (const Heard* one : {&open, &stat, &sync, &attributes}) CHECK((one->times == 1 && one->code != 0));
  CHECK(closed.well());
}

TEST_CASE("starts: disconnect() ends an open that the server does not answer") {
  Mounted m;
  m.server.add_file("/a", "text");
  Client& client = m.connect();
  m.server.hold(OP_OPEN);
  Heard open;
  client.start_open("/a", OpenMode::read, open.hear());
  REQUIRE(comes(client, [&] { return m.server.held() == 1; }));
  const Stopwatch watch;
  (void)client.disconnect();
  REQUIRE(comes(client, [&] { return open.times != 0; }));
  CHECK(watch.elapsed() < 5s);
  CHECK((open.times == 1 && open.code != 0));
  m.server.release();
}

TEST_CASE("starts: a connection that is lost in the middle is recovered, and the server restarts") {
  for (const auto drop : {&NfsServer::drop_before, &NfsServer::drop_after}) {
    Mounted m;
    m.server.add_file("/a", "");
    Client& client = m.connect();
    // Pauses between connections grow.
    const auto heard = [&](const std::function<bool()>& so) { return comes(client, so, 20s); };
    std::unique_ptr<File> file;
    (m.server.*drop)(OP_OPEN);
    client.start_open("/a", OpenMode::read_write, [&](Result<std::unique_ptr<File>> opened) {
      if (ok(opened)) file = std::move(*opened);
    });
    REQUIRE(heard([&] { return file != nullptr; }));
    REQUIRE(ok(file->write(bytes("text"), 0)));
    Heard sync, attributes, stat, close;
    (m.server.*drop)(OP_COMMIT);
    file->start_sync(sync.hear());
    REQUIRE(heard([&] { return sync.times != 0; }));
    CHECK(sync.well());
    (m.server.*drop)(OP_GETATTR);
    file->start_attributes(attributes.hear());
    client.start_stat("/a", stat.hear());
    REQUIRE(heard([&] { return attributes.times != 0 && stat.times != 0; }));
    CHECK(attributes.well());
    CHECK(stat.well());
    REQUIRE(ok(file->write(bytes("TEXT"), 0)));
    m.server.restart();
    (m.server.*drop)(OP_CLOSE);
    file->start_close(close.hear());
    REQUIRE(heard([&] { return close.times != 0; }));
    CHECK(close.well());
    CHECK(m.server.stable_content("/a") == "TEXT");
    CHECK(m.server.open_states() == 0);
    CHECK(client.info().reconnects >= 4);
  }
}

TEST_CASE("starts: a server that keeps silent leads to ETIMEDOUT") {
  Mounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect("timeo=300ms");
  auto file = m.open("/a");
  REQUIRE(ok(file->write(bytes("text"), 0)));
  m.server.hold(OP_ILLEGAL);
  Heard open, sync, stat;
  const Stopwatch watch;
  client.start_open("/a", OpenMode::read, open.hear());
  client.start_stat("/a", stat.hear());
  file->start_sync(sync.hear());
  REQUIRE(comes(client, [&] { return open.times != 0 && stat.times != 0 && sync.times != 0; }));
  CHECK(watch.elapsed() >= 290ms);
  for (const Heard* one : {&open, &stat, &sync}) CHECK(one->code == ETIMEDOUT);
  m.server.release();
}

TEST_CASE("starts: an interrupt ends a close that blocks, not the closing, and nothing that was started") {
  Mounted m;
  m.server.add_file("/a", "");
  const Interrupt interrupt;
  Client& client = m.connect("", interrupt.fd());
  auto file = m.open("/a");
  m.server.hold(OP_CLOSE, false);
  Heard stat;
  client.start_stat("/a", stat.hear());
  interrupt.set();
  CHECK(errno_of(file->close()) == EINTR);
  interrupt.clear();
  REQUIRE(comes(client, [&] { return stat.times != 0 && m.server.held() == 1; }));
  CHECK(stat.well());
  m.server.release();
  CHECK(ok(file->close()));
  CHECK(m.server.count(OP_CLOSE) == 1);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("starts: a call that cannot be started wakes the thread that waits, which runs its callback") {
  Mounted m;
  Client& client = m.connect();
  using namespace std::string_view_literals;
  Heard refused;
  std::atomic<bool> posted{false};
  std::thread starter([&] { client.start_remove_file("/a\0b"sv, refused.hear()); });
  while (refused.times == 0) CHECK(client.wait(10s));
  starter.join();
  CHECK(refused.times == 1);
  CHECK(refused.code == EINVAL);
  std::thread poster([&] { client.post([&] { posted = true; }); });
  while (!posted) CHECK(client.wait(10s));
  poster.join();
  auto queue = Queue::create(client);
  REQUIRE(queue);
  CHECK(ok((*queue)->post(5)));
  std::array<Completion, 2> done;
  CHECK((*queue)->reap(done) == 1);
  CHECK(done[0].tag() == 5);
  CHECK(ok(done[0].result()));
}

TEST_CASE("starts: a file is read into parts and written from parts") {
  Mounted m;
  const std::string text = pattern(100'000);
  m.server.add_file("/a", text);
  m.server.add_file("/b", "");
  Client& client = m.connect();
  auto from = client.open("/a", OpenMode::read);
  auto to = client.open("/b", OpenMode::write);
  REQUIRE(ok(from));
  REQUIRE(ok(to));
  std::string first(10, '?'), second(70'000, '?'), third(50'000, '?');
  const std::array<std::span<std::byte>, 3> into{room(first), room(second), room(third)};
  CHECK((*from)->read_parts(into, 0).value_or(0) == text.size());
  CHECK((first + second + third).substr(0, text.size()) == text);
  const std::array<std::span<const std::byte>, 2> parts{bytes(first), bytes(second)};
  CHECK((*to)->write_parts(parts, 0, Stability::on_disk).value_or(0) == 70'010);
  CHECK(m.server.content("/b") == text.substr(0, 70'010));
  Heard read, written;
  first.assign(10, '?');
  (*from)->start_read_parts(
      into, 5, read.hear([&](const auto& count) { CHECK(count.value_or(0) == text.size() - 5); }));
  (*to)->start_write_parts(parts, 70'010, written.hear());
  while (read.times + written.times < 2) (void)client.wait(10s);
  CHECK(first == text.substr(5, 10));
  CHECK(written.well());
  CHECK(ok((*to)->sync()));
  CHECK(m.server.content("/b").value_or("").size() == 140'020);
}

TEST_SUITE("threads") {
  TEST_CASE("starts: a program that polls opens, reads, syncs and closes while other threads block") {
    Mounted m;
    m.server.set_lease(1);
    m.server.add_file("/a", pattern(1000));
    Client& client = m.connect();
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) {
        auto file = client.open("/a", OpenMode::read_write);
        CHECK((ok(file) && ok((*file)->sync())));
      }
    });
    pollfd mine{client.descriptor(), POLLIN, 0};
    const Stopwatch watch;
    std::atomic<int> rounds{0};
    std::unique_ptr<File> file;
    std::string data(1000, '?');
    std::function<void()> begin = [&] {
      client.start_open("/a", OpenMode::read_write, [&](Result<std::unique_ptr<File>> opened) {
        if (!ok(opened)) return;
        file = std::move(*opened);
        file->start_read(room(data), 0, [&](Result<std::size_t> count) {
          CHECK(count.value_or(0) == 1000);
          file->start_sync([&](const Status& synced) {
            CHECK(ok(synced));
            file->start_close([&](const Status& closed) {
              CHECK(ok(closed));
              file.reset();
              if (++rounds < 50) begin();
            });
          });
        });
      });
    };
    begin();
    while (rounds < 50 && watch.elapsed() < 20s) {
      client.service();
      if (rounds < 50) ::poll(&mine, 1, 1000);
    }
    stop = true;
    other.join();
    CHECK(rounds == 50);
    CHECK(ok(client.disconnect()));
    CHECK(m.server.open_states() == 0);
  }
}

}  // namespace nfsrdma::starts
