// Rings on the file layer and a test server: what is done, in what order, and what is left when things end.
#include "fuse/ring_service.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <random>

#include "support/mounted.h"
#include "support/ring_program.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

async::Task<void> nothing() {
  co_return;
}

/// A mount with one program and its ring.
struct Ringed : MountedEngine {
  ~Ringed() {
    if (client) client->loop.drop_tasks();
    service.reset();
  }
  void begin(const std::string& content = "some text", bool gathers = false) {
    server.add_file("/f", content);
    fs::CacheOptions options;
    options.kernel_gathers = gathers;
    mount(options);
    service.emplace(client->loop, *files, [this] { return apart; });
    id = add(memory);
    file = open("f", O_RDWR);
    number = *service->attach(id, file);
  }
  fuse::RingService::RingId add(const std::shared_ptr<std::byte>& shared) {
    return service->add(bounds, shared, [this] { ++wakes; }, [this] { ++broken; });
  }
  std::shared_ptr<fs::OpenHandle> open(const std::string& name, int flags) {
    return get(files->open(who, lookup(name).inode, flags)).handle;
  }
  /// Until the slot was told of.
  int done(unsigned slot) {
    REQUIRE(client->turn_until([&] { return program.take(slot); }));
    return program.result(slot);
  }
  int read(unsigned slot, std::uint64_t offset, std::uint32_t length) {
    program.read(slot, number, offset, length);
    client->loop.end_turn();
    return done(slot);
  }
  int write(unsigned slot, std::uint64_t offset, const std::string& text, std::uint32_t flags = 0) {
    program.write(slot, number, offset, text, flags);
    client->loop.end_turn();
    return done(slot);
  }

  bool apart = false;
  const fuse::RingBounds bounds{16, 16 * RingProgram::kPart};
  const std::shared_ptr<std::byte> memory = plain_ring_memory(bounds);
  RingProgram program{bounds, memory};
  std::optional<fuse::RingService> service;
  fuse::RingService::RingId id = 0;
  std::shared_ptr<fs::OpenHandle> file;
  std::uint32_t number = 0;
  unsigned wakes = 0, broken = 0;
};

}  // namespace

TEST_CASE("F13 rings: a READ sees what write(2) has buffered, and a WRITE is seen by the kernel's READ") {
  Ringed m;
  m.begin();
  CHECK(m.read(0, 5, 100) == 4);
  CHECK(m.program.text(0, 4) == "text");
  auto buffered = m.client->loop.memory().take(4);
  std::memcpy(buffered.data.get(), "TEXT", 4);
  const std::span<const std::byte> data(buffered.data.get(), 4);
  REQUIRE(ok(m.client->run(m.files->write(m.file, buffered, data, 5))));
  CHECK(m.server.content("/f") == "some text");
  CHECK(m.read(1, 0, 100) == 9);
  CHECK(m.program.text(RingProgram::kPart, 9) == "some TEXT");
  CHECK(m.write(2, 0, "more") == 4);
  const auto read = m.get(m.files->read(m.file, 0, 100));
  CHECK(read.size == 9);
  CHECK(std::memcmp(read.pieces.front().iov_base, "more TEXT", 9) == 0);
}

TEST_CASE("rings: what has to be received apart is copied to where it belongs, and nothing else is") {
  Ringed m;
  m.apart = true;
  m.begin();
  std::memset(m.program.data(0), '#', 100);
  CHECK(m.read(0, 5, 100) == 4);
  CHECK(m.program.text(0, 6) == "text##");
  m.server.answer(OP_READ, NFS4ERR_IO);
  CHECK(m.read(1, 0, 100) == -EIO);
  CHECK(m.program.text(0, 6) == "text##");
}

TEST_CASE("F2 rings: a WRITE makes the size known, and what it was written from may change at once") {
  Ringed m;
  m.begin();
  m.server.hold(OP_WRITE);
  std::vector<std::uint64_t> doubted;
  m.files->on_doubt([&](std::uint64_t inode) { doubted.push_back(inode); });
  CHECK(m.write(0, 9, " and more") == 9);
  std::memset(m.program.data(0), '?', 9);
  CHECK(doubted == std::vector<std::uint64_t>{m.file->inode().id});
  REQUIRE(m.client->turn_until([&] { return m.server.held() == 1; }));
  m.server.release();
  CHECK(m.get(m.files->attributes(m.who, m.file->inode().id)).attributes.size == 18);
  m.program.fill(1, RING_SYNC, m.number, 0, 0);
  m.program.submit(1);
  CHECK(m.done(1) == 0);
  CHECK(m.server.stable_content("/f") == "some text and more");
}

TEST_CASE("F1 rings: appends go to the end, wherever that is, and say where they went") {
  Ringed m;
  m.begin();
  CHECK(m.write(0, 0, " one", RING_APPEND) == 4);
  CHECK(m.program.slot(0).where == 9);
  CHECK(m.write(1, 0, " two", RING_APPEND) == 4);
  CHECK(m.program.slot(1).where == 13);
  CHECK(m.write(2, 0, " three", RING_APPEND | RING_STABLE) == 6);
  CHECK(ok(m.client->run(m.files->sync(m.file))));
  CHECK(m.server.stable_content("/f") == "some text one two three");
}

TEST_CASE("F14 rings: a stable WRITE is on the server's disk when it is answered") {
  Ringed m;
  m.begin();
  CHECK(m.write(0, 0, "SOME", RING_STABLE) == 4);
  CHECK(m.server.stable_content("/f") == "SOME text");
  const auto synchronous = m.open("f", O_WRONLY | O_DSYNC);
  m.number = *m.service->attach(m.id, synchronous);
  CHECK(m.write(1, 5, "TEXT") == 4);
  CHECK(m.server.stable_content("/f") == "SOME TEXT");
}

TEST_CASE("F13 rings: the kernel's pages are fetched where they may be dirty, and dropped behind a WRITE") {
  Ringed m;
  m.begin();
  std::vector<std::uint64_t> dropped;  // and how many writes there had been by then
  m.files->on_stale_pages([&](std::uint64_t, std::uint64_t, std::uint64_t) -> async::Task<void> {
    dropped.push_back(m.files->counters().writes);
    return nothing();
  });
  CHECK(m.read(0, 0, 4) == 4);
  CHECK(m.write(1, 0, "S") == 1);
  CHECK(dropped.empty());  // the kernel has none
  (void)m.get(m.files->read(m.file, 0, 4));
  CHECK(m.read(2, 0, 4) == 4);  // somebody may have stored in them: it is open for writing
  CHECK(dropped.size() == 1);
  CHECK(m.read(3, 0, 4) == 4);
  CHECK(dropped.size() == 1);
  (void)m.get(m.files->read(m.file, 0, 4));
  CHECK(m.write(4, 0, "T") == 1);  // once before, and nothing was read into pages since
  REQUIRE(dropped.size() == 2);
  CHECK(dropped[1] == 1);
}

TEST_CASE("F13 rings: where the kernel gathers writes it is always asked for them") {
  Ringed m;
  m.begin("some text", true);
  unsigned dropped = 0;
  m.files->on_stale_pages([&](std::uint64_t, std::uint64_t, std::uint64_t) -> async::Task<void> {
    ++dropped;
    return nothing();
  });
  const auto reading = m.open("f", O_RDONLY);
  CHECK(m.service->refusal(*m.file) == EOPNOTSUPP);
  CHECK(m.service->refusal(*reading) == 0);
  m.number = *m.service->attach(m.id, reading);
  CHECK(m.read(0, 0, 4) == 4);
  CHECK(m.read(1, 0, 4) == 4);
  CHECK(dropped == 2);
}

TEST_CASE("rings: rights are those of the open file, and a number is good as long as it is open") {
  Ringed m;
  m.begin();
  const auto reading = m.open("f", O_RDONLY);
  const auto writing = m.open("f", O_WRONLY);
  const auto reads = *m.service->attach(m.id, reading);
  const auto writes = *m.service->attach(m.id, writing);
  CHECK(*m.service->attach(m.id, reading) == reads);
  m.number = reads;
  CHECK(m.read(0, 0, 4) == 4);
  CHECK(m.write(1, 0, "X") == -EBADF);
  m.number = writes;
  CHECK(m.read(2, 0, 4) == -EBADF);
  CHECK(m.write(3, 0, "S") == 1);
  m.client->run(m.service->part(writing));
  CHECK(m.write(4, 0, "T") == -EBADF);
  const auto next = m.open("f", O_WRONLY);
  CHECK(*m.service->attach(m.id, next) != writes);
  CHECK(m.write(5, 0, "T") == -EBADF);  // of another file that was in its place
  m.number = 0xffff'ffff;
  CHECK(m.write(6, 0, "T") == -EBADF);
  CHECK(m.service->counters().refused == 5);
}

TEST_CASE("rings: a file that is closed waits for what is under way on it") {
  Ringed m;
  m.begin();
  m.server.hold(OP_READ);
  m.program.read(0, m.number, 0, 4);
  m.client->loop.end_turn();
  REQUIRE(m.client->turn_until([&] { return m.server.held() == 1; }));
  async::Task<void> parting = m.service->part(m.file);
  m.client->start(parting);
  m.program.read(1, m.number, 0, 4);
  CHECK(m.done(1) == -EBADF);
  CHECK_FALSE(parting.done());
  m.server.release();
  CHECK(m.done(0) == 4);
  CHECK(m.client->turn_until([&] { return parting.done(); }));
}

TEST_CASE("rings: one whose program is gone ends with what is under way, and nothing touches another's") {
  Ringed m;
  m.begin();
  const std::weak_ptr<std::byte> watched = [&] {
    const auto own = plain_ring_memory(m.bounds);
    const auto ring = m.add(own);
    const RingProgram other(m.bounds, own);
    const auto number = *m.service->attach(ring, m.file);
    m.server.hold(OP_READ);
    other.read(0, number, 0, 4);
    m.client->loop.end_turn();
    REQUIRE(m.client->turn_until([&] { return m.server.held() == 1; }));
    m.service->remove(ring);
    return std::weak_ptr(own);
  }();
  CHECK_FALSE(watched.expired());  // the server may still write there
  m.server.release();
  CHECK(m.client->turn_until([&] { return watched.expired(); }));
  CHECK(m.read(0, 0, 4) == 4);
  CHECK(m.service->counters().now == 1);
}

TEST_CASE("rings: a flood leaves turns and the session's slots to others, and each ring has its share") {
  Ringed m;
  m.begin(std::string(1U << 20, 'x'));
  const auto own = plain_ring_memory(m.bounds);
  const RingProgram other(m.bounds, own);
  const auto number = *m.service->attach(m.add(own), m.file);
  std::vector<std::shared_ptr<std::byte>> floods;
  for (int i = 0; i < 4; ++i) {
    floods.push_back(plain_ring_memory(m.bounds));
    const auto flood = *m.service->attach(m.add(floods.back()), m.file);
    for (unsigned slot = 0; slot < 16; ++slot) RingProgram(m.bounds, floods.back()).read(slot, flood, 0, 4);
  }
  m.server.hold(OP_READ);
  other.read(0, number, 0, 4);
  m.client->loop.end_turn();
  m.client->turn_for(50ms);
  CHECK(m.server.held() <= fuse::RingService::kMostUnderWay);
  // Both are begun though the floods were there first.
  CHECK(m.program.daemon_sleeps());
  CHECK_FALSE(other.is_done(0));
  m.server.release();
  CHECK(m.client->turn_until([&] { return other.take(0); }));
  for (const auto& flood : floods) {
    for (unsigned slot = 0; slot < 16; ++slot) {
      CHECK(m.client->turn_until([&] { return RingProgram(m.bounds, flood).take(slot); }));
    }
  }
}

TEST_CASE("rings: one that does not keep to the rules is ended, once, and others go on") {
  Ringed m;
  m.begin();
  const auto own = plain_ring_memory(m.bounds);
  const auto bad = m.service->add(m.bounds, own, [] {}, [&] { ++m.broken; });
  RingProgram(m.bounds, own).submit(99);
  m.client->loop.end_turn();
  m.client->turn_for(5ms);
  CHECK(m.broken >= 1);
  m.service->remove(bad);
  CHECK(m.read(0, 0, 4) == 4);
}

TEST_CASE("rings: requests of any content are answered, and the file is what the valid ones made of it") {
  Ringed m;
  m.begin(std::string(64U << 10, 'x'));
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    for (unsigned slot = 0; slot < 16; ++slot) {
      m.program.fill(slot, static_cast<std::uint32_t>(random() % 5), random() % 3 == 0 ? 99 : m.number,
                     random() % 4 == 0 ? random() : random() % (64U << 10),
                     static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % 5000),
                     static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % 4 * 2));
      if (random() % 4 == 0) m.program.slot(slot).buffer = random();
      m.program.slot(slot).flags &= ~std::uint32_t{RING_ALONE};
      // A file as large as an offset can be is more than the test server has memory for.
      if (m.program.slot(slot).operation == RING_WRITE) m.program.slot(slot).offset %= 64U << 10;
      m.program.submit(slot);
    }
    m.client->loop.end_turn();
    for (unsigned slot = 0; slot < 16; ++slot) {
      const int result = m.done(slot);
      CHECK(result >= -EOVERFLOW);
      CHECK(result <= RING_MOST_LENGTH);
    }
  }
  CHECK(m.broken == 0);
  CHECK(m.server.problems() == "");
}

}  // namespace nfsrdma
