// Byte-range locks against the test server: granted, refused, waited for and given up, released, claimed
// again and lost.
#include "nfs4/files/locks.h"

#include <cerrno>

#include "support/engine_fixture.h"
#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

constexpr std::uint64_t kMe = 0x1234567890abcdef, kYou = 7;

LockRequest read_lock(std::uint64_t owner, std::uint64_t offset, std::uint64_t length) {
  return {owner, false, {offset, length}};
}
LockRequest write_lock(std::uint64_t owner, std::uint64_t offset, std::uint64_t length) {
  return {owner, true, {offset, length}};
}

struct Locking : Scene {
  Locking() { server.add_file("/f", "text"); }
  ~Locking() {
    if (file) CHECK(ok(client->run(client->files.close(std::move(file)))));
  }
  EngineClient& begin(nfs4::SessionOptions options = {}) {
    EngineClient& c = client.emplace(server, "engine", std::move(options));
    auto made = c.run(c.open(user(1), c.root, "f", OPEN4_SHARE_ACCESS_BOTH));
    if (!made) FAIL(made.error().text());
    file = std::move(made->file);
    return c;
  }
  /// Whether it was locked; an Error fails the test.
  bool set(const LockRequest& request) {
    auto refused = client->run(client->locks.set(file.file(), request));
    return ok(refused) && !refused->has_value();
  }
  Status clear(std::uint64_t owner, std::uint64_t offset, std::uint64_t length) {
    return client->run(client->locks.clear(file.file(), owner, {offset, length}));
  }
  Status release(std::uint64_t owner) { return client->run(client->locks.release(file.file(), owner)); }
  [[nodiscard]] std::string held() const { return server.locks("/f"); }
  Status read() {
    std::array<std::byte, 4> data{};
    auto count = client->run(file->read(data, 0));
    return count ? Status() : count.error();
  }

  OpenRef file;
};

}  // namespace

TEST_CASE("locks: set, split, joined, cleared, as the server has it") {
  Locking m;
  m.begin();
  CHECK(m.set(write_lock(kMe, 0, 100)));
  CHECK(m.set(read_lock(kMe, 40, 20)));
  CHECK(m.held() == "0-40w 40-60r 60-100w");
  CHECK(ok(m.clear(kMe, 50, 30)));
  CHECK(m.held() == "0-40w 40-50r 80-100w");
  CHECK(m.set(write_lock(kMe, 40, LockRange::kToTheEnd)));
  CHECK(m.held() == "0-w");
  CHECK(m.server.lock_states() == 1);
  CHECK(ok(m.release(kMe)));
  CHECK(m.held().empty());
  CHECK(m.server.lock_states() == 0);  // FREE_STATEID
  CHECK(m.file->state().locks.empty());
  CHECK(ok(m.release(kMe)));
  CHECK(ok(m.clear(kYou, 0, 10)));
}

TEST_CASE("locks: owners exclude each other, and everybody hears who is in the way") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 10, 10)));
  auto refused = c.run(c.locks.set(m.file.file(), read_lock(kYou, 0, 100)));
  REQUIRE(ok(refused));
  REQUIRE(*refused);
  CHECK((*refused)->range == LockRange{10, 10});
  CHECK((*refused)->write);
  CHECK((*refused)->ours);
  CHECK((*refused)->owner == kMe);
  auto tested = c.run(c.locks.test(m.file.file(), write_lock(kYou, 15, 1)));
  REQUIRE(ok(tested));
  CHECK((*tested)->owner == kMe);
  CHECK_FALSE(c.run(c.locks.test(m.file.file(), write_lock(kYou, 20, 1)))->has_value());
  CHECK_FALSE(c.run(c.locks.test(m.file.file(), write_lock(kMe, 10, 10)))->has_value());
  m.server.lock("/f", 50, ~0ULL, false);
  auto foreign = c.run(c.locks.set(m.file.file(), write_lock(kMe, 60, 1)));
  REQUIRE(ok(foreign));
  REQUIRE(*foreign);
  CHECK_FALSE((*foreign)->ours);
  CHECK((*foreign)->range == LockRange{50, LockRange::kToTheEnd});
  CHECK(m.set(read_lock(kMe, 60, 1)));
  CHECK_FALSE(c.run(c.locks.test(m.file.file(), read_lock(kYou, 60, 1)))->has_value());
  CHECK(c.run(c.locks.test(m.file.file(), write_lock(kYou, 60, 1)))->has_value());
  CHECK(ok(m.release(kMe)));
  CHECK(ok(m.release(kYou)));
}

TEST_CASE("locks: one of another client's whose owner has the same number is not taken for one's own") {
  Locking m;
  EngineClient& c = m.begin();
  EngineClient other(m.server, "other");
  auto theirs = other.run(other.open(user(1), other.root, "f", OPEN4_SHARE_ACCESS_BOTH));
  REQUIRE(ok(theirs));
  const auto taken = other.run(other.locks.set(theirs->file.file(), write_lock(kMe, 0, 10)));
  REQUIRE(ok(taken));
  CHECK_FALSE(taken->has_value());
  const auto refused = c.run(c.locks.set(m.file.file(), write_lock(kMe, 0, 10)));
  REQUIRE(ok(refused));
  REQUIRE(*refused);
  CHECK_FALSE((*refused)->ours);
  const auto tested = c.run(c.locks.test(m.file.file(), read_lock(kMe, 5, 1)));
  REQUIRE(ok(tested));
  REQUIRE(*tested);
  CHECK_FALSE((*tested)->ours);
  CHECK(ok(other.run(other.files.close(std::move(theirs->file)))));
  CHECK(m.set(write_lock(kMe, 0, 10)));
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: all goes with the credential of who opened the file") {
  Locking m;
  m.begin();
  m.server.clear_calls();
  CHECK(m.set(write_lock(kMe, 0, 1)));
  CHECK(ok(m.release(kMe)));
  for (const SeenCall& call : m.server.calls()) CHECK(is_of(call.credential, user(1)));
}

TEST_CASE("locks: the wrong kind for the way the file is open") {
  Locking m;
  EngineClient& c = m.begin();
  auto other = c.run(c.open(user(2), c.root, "f", OPEN4_SHARE_ACCESS_READ));
  REQUIRE(ok(other));
  auto refused = c.run(c.locks.set(other->file.file(), write_lock(kMe, 0, 1)));
  CHECK(errno_of(refused) == EBADF);
  CHECK(ok(c.run(c.files.close(std::move(other->file)))));
}

// ---- waiting ----

TEST_CASE("locks: a wait ends soon after the server says that the lock is free") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.file->state().notifies_locks);
  m.server.lock("/f", 0, 10);
  auto task = c.locks.wait(m.file.file(), write_lock(kMe, 5, 1), nullptr);
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.count(OP_LOCK) == 1; }));
  c.turn_for(200ms);
  CHECK(m.server.count(OP_LOCK) == 1);  // nobody polls meanwhile
  const auto begun = c.loop.now();
  m.server.unlock("/f");
  REQUIRE(c.turn_until([&] { return task.done(); }));
  CHECK(c.loop.now() - begun < 300ms);
  CHECK(ok(task.await_resume()));
  CHECK(m.held() == "5-6w");
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: a call that overtakes DENIED is not lost") {
  Locking m;
  EngineClient& c = m.begin();
  m.server.lock("/f", 0, 10);
  m.server.hold(OP_LOCK);
  auto task = c.locks.wait(m.file.file(), write_lock(kMe, 5, 1), nullptr);
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.unlock("/f");
  c.turn_for(100ms);
  const auto begun = c.loop.now();
  m.server.release();
  REQUIRE(c.turn_until([&] { return task.done(); }));
  CHECK(c.loop.now() - begun < 300ms);
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: where the call that was promised does not come the server is asked again, later") {
  Locking m;
  EngineClient& c = m.begin();
  REQUIRE(m.file->state().notifies_locks);
  m.server.lock("/f", 0, 10);
  auto task = c.locks.wait(m.file.file(), write_lock(kMe, 5, 1), nullptr);
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.count(OP_LOCK) == 1; }));
  m.server.set_notify_locks(false);
  m.server.unlock("/f");
  c.turn_for(500ms);
  CHECK(m.server.count(OP_LOCK) == 1);
  CHECK_FALSE(task.done());
  REQUIRE(c.turn_until([&] { return task.done(); }, 20s));
  CHECK(ok(task.await_resume()));
  CHECK(m.held() == "5-6w");
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: without such calls the server is asked again, soon") {
  Locking m;
  m.server.set_notify_locks(false);
  EngineClient& c = m.begin();
  m.server.lock("/f", 0, 10);
  auto task = c.locks.wait(m.file.file(), read_lock(kMe, 5, 1), nullptr);
  c.start(task);
  c.turn_for(400ms);
  CHECK(m.server.count(OP_LOCK) >= 3);
  CHECK_FALSE(task.done());
  m.server.unlock("/f");
  REQUIRE(c.turn_until([&] { return task.done(); }, 2s));
  CHECK(m.held() == "5-6r");
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: a wait that is given up") {
  Locking m;
  EngineClient& c = m.begin();
  m.server.lock("/f", 0, 10);
  auto cancel = std::make_shared<LockWait>(c.loop);
  auto task = c.locks.wait(m.file.file(), write_lock(kMe, 5, 1), cancel);
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.count(OP_LOCK) == 1; }));
  c.turn_for(20ms);
  cancel->cancel();
  REQUIRE(c.turn_until([&] { return task.done(); }));
  auto done = task.await_resume();
  CHECK(errno_of(done) == EINTR);
  CHECK(done.error().kind() == ErrorKind::cancelled);
  // Before it began.
  CHECK(errno_of(c.run(c.locks.wait(m.file.file(), write_lock(kMe, 5, 1), cancel))) == EINTR);
  m.server.unlock("/f");
  c.turn_for(50ms);
  CHECK(m.held().empty());
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: given up while the LOCK is under way, which is then granted: unlocked again") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 0, 5)));
  for (const bool destroyed : {false, true}) {
    CAPTURE(destroyed);
    m.server.hold(OP_LOCK);
    auto cancel = std::make_shared<LockWait>(c.loop);
    {
      auto task = c.locks.wait(m.file.file(), write_lock(kMe, 3, 10), cancel);
      c.start(task);
      REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
      if (!destroyed) {
        cancel->cancel();
        REQUIRE(c.turn_until([&] { return task.done(); }));
        CHECK(errno_of(task.await_resume()) == EINTR);
      }
    }
    CHECK(m.held() == "0-13w");
    m.server.release();
    CHECK(c.turn_until([&] { return m.held() == "0-5w"; }));
  }
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: given up while the LOCK makes another kind of what is held: it becomes what it was") {
  for (const bool write : {false, true}) {
    CAPTURE(write);
    Locking m;
    EngineClient& c = m.begin();
    CHECK(m.set(write ? write_lock(kMe, 0, 10) : read_lock(kMe, 0, 10)));
    m.server.hold(OP_LOCK);
    auto cancel = std::make_shared<LockWait>(c.loop);
    const LockRequest other = write ? read_lock(kMe, 5, 10) : write_lock(kMe, 5, 10);
    auto task = c.locks.wait(m.file.file(), other, cancel);
    c.start(task);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    CHECK(m.held() == (write ? "0-5w 5-15r" : "0-5r 5-15w"));
    cancel->cancel();
    REQUIRE(c.turn_until([&] { return task.done(); }));
    CHECK(errno_of(task.await_resume()) == EINTR);
    m.server.release();
    CHECK(c.turn_until([&] { return m.held() == (write ? "0-10w" : "0-10r"); }));
    CHECK(ok(m.read()));
    CHECK(ok(m.release(kMe)));
  }
}

TEST_CASE("locks: given up while a write lock is weakened, and somebody reads there by then: it is lost") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  CHECK(m.set(write_lock(kMe, 20, 10)));
  m.server.hold(OP_LOCK);
  auto cancel = std::make_shared<LockWait>(c.loop);
  auto task = c.locks.wait(m.file.file(), read_lock(kMe, 0, 10), cancel);
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.lock("/f", 0, 10, false);
  cancel->cancel();
  REQUIRE(c.turn_until([&] { return task.done(); }));
  CHECK(errno_of(task.await_resume()) == EINTR);
  m.server.release();
  CHECK(c.turn_until([&] { return m.file->state().lost_locks.contains(kMe); }));
  CHECK(errno_of(m.read()) == EIO);
  CHECK(ok(m.release(kMe)));
  CHECK(m.held().empty());
  CHECK(ok(m.read()));
}

TEST_CASE("locks: one that waits for its owner's turn while the owner is released is the owner's") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  m.server.hold(OP_LOCKU);
  auto releasing = c.locks.release(m.file.file(), kMe);
  c.start(releasing);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  auto locking = c.locks.set(m.file.file(), write_lock(kMe, 20, 10));
  c.start(locking);
  m.server.release();
  REQUIRE(c.turn_until([&] { return releasing.done() && locking.done(); }));
  CHECK(ok(releasing.await_resume()));
  const auto refused = locking.await_resume();
  REQUIRE(ok(refused));
  CHECK_FALSE(refused->has_value());
  CHECK(m.held() == "20-30w");
  CHECK(m.file->state().locks.contains(kMe));
  CHECK(ok(m.release(kMe)));
  CHECK(m.held().empty());
  CHECK(m.file->state().locks.empty());
}

TEST_CASE("locks: several owners wait, each gets its turn") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(1, 0, 10)));
  auto second = c.locks.wait(m.file.file(), write_lock(2, 0, 10), nullptr);
  auto third = c.locks.wait(m.file.file(), write_lock(3, 0, 10), nullptr);
  c.start(second);
  c.start(third);
  c.turn_for(50ms);
  CHECK(ok(m.release(1)));
  REQUIRE(c.turn_until([&] { return second.done() || third.done(); }));
  const bool second_first = second.done();
  CHECK(ok(m.release(second_first ? 2 : 3)));
  REQUIRE(c.turn_until([&] { return second.done() && third.done(); }));
  CHECK(ok(m.release(second_first ? 3 : 2)));
  CHECK(m.server.lock_states() == 0);
}

// ---- trouble ----

TEST_CASE("locks: a lost Reply is recovered; the session and the connection go in the middle") {
  Locking m;
  EngineClient& c = m.begin();
  m.server.drop_after(OP_LOCK);
  CHECK(m.set(write_lock(kMe, 0, 10)));
  CHECK(m.server.succeeded(OP_LOCK) == 1);
  m.server.forget_sessions();
  CHECK(m.set(write_lock(kMe, 20, 10)));
  m.server.drop_after(OP_LOCKU);
  CHECK(ok(m.clear(kMe, 0, 10)));
  CHECK(m.held() == "20-30w");
  m.server.lock("/f", 50, 60);
  auto task = c.locks.wait(m.file.file(), write_lock(kMe, 55, 1), nullptr);
  c.start(task);
  c.turn_for(50ms);
  m.server.drop_connections();
  m.server.unlock("/f");
  REQUIRE(c.turn_until([&] { return task.done(); }));
  CHECK(ok(task.await_resume()));
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: after a restart every lock of every owner is claimed again, before RECLAIM_COMPLETE") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  CHECK(m.set(read_lock(kMe, 20, 10)));
  CHECK(m.set(read_lock(kYou, 20, LockRange::kToTheEnd)));
  const std::string before = m.held();
  m.server.clear_calls();
  m.server.restart(3s);
  CHECK(ok(m.read()));
  CHECK(m.held() == before);
  bool complete = false;
  unsigned claimed = 0;
  for (const SeenCall& call : m.server.calls()) {
    complete = complete || call.has(OP_RECLAIM_COMPLETE);
    if (call.has(OP_LOCK)) ++claimed;
    if (call.has(OP_LOCK)) CHECK_FALSE(complete);
  }
  CHECK(claimed == 3);
  CHECK(ok(m.clear(kMe, 0, 5)));
  CHECK(m.held() == "5-10w 20-30r 20-r");
  CHECK(c.notices.find("lock") == std::string::npos);
  CHECK(ok(m.release(kMe)));
  CHECK(ok(m.release(kYou)));
}

TEST_CASE("locks: a restart while a LOCK is under way") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  m.server.hold(OP_LOCK);
  auto task = c.locks.set(m.file.file(), write_lock(kMe, 20, 10));
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.restart(500ms);
  m.server.release();
  REQUIRE(c.turn_until([&] { return task.done(); }));
  auto refused = task.await_resume();
  REQUIRE(ok(refused));
  CHECK(m.held() == "0-10w 20-30w");
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: one that cannot be claimed again is lost, the file says so, others go on") {
  Locking m;
  m.server.add_file("/g", "other");
  EngineClient& c = m.begin();
  auto other = c.run(c.open(user(1), c.root, "g", OPEN4_SHARE_ACCESS_BOTH));
  REQUIRE(ok(other));
  CHECK(m.set(write_lock(kMe, 0, 10)));
  m.server.answer(OP_LOCK, NFS4ERR_RECLAIM_CONFLICT);
  m.server.restart(3s);
  const auto lost = m.read();
  CHECK(errno_of(lost) == EIO);
  CHECK(lost.error().text().find("lock") != std::string::npos);
  CHECK(errno_of(c.run(c.locks.set(m.file.file(), write_lock(kYou, 50, 1)))) == EIO);
  std::array<std::byte, 4> data{};
  CHECK(ok(c.run(other->file->read(data, 0))));
  CHECK(c.notices.find("lock") != std::string::npos);
  // Its owner lets go: the file is usable again.
  CHECK(ok(m.release(kMe)));
  CHECK(ok(m.read()));
  CHECK(ok(c.run(c.files.close(std::move(other->file)))));
}

TEST_CASE("locks: nothing is made ready while they are claimed again, to be sent behind the loss of one") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  m.server.hold(OP_LOCK);
  m.server.answer(OP_LOCK, NFS4ERR_NO_GRACE);
  m.server.restart(3s);
  std::array<std::byte, 4> data{};
  auto reading = m.file->read(data, 0);
  c.start(reading);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));  // the file is open again
  auto writing = m.file->write(bytes("late"), 0);
  c.start(writing);
  c.turn_for(20ms);
  m.server.release();
  REQUIRE(c.turn_until([&] { return reading.done() && writing.done(); }));
  CHECK(errno_of(reading.await_resume()) == EIO);
  CHECK(errno_of(writing.await_resume()) == EIO);
  CHECK(m.server.count(OP_WRITE) == 0);
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: what is unlocked while it is claimed again is not locked behind that") {
  for (const bool released : {false, true}) {
    CAPTURE(released);
    Locking m;
    EngineClient& c = m.begin();
    CHECK(m.set(write_lock(kMe, 0, 10)));
    CHECK(m.set(write_lock(kMe, 20, 10)));
    m.server.hold(OP_LOCK);
    m.server.restart(3s);
    std::array<std::byte, 4> data{};
    auto reading = m.file->read(data, 0);
    c.start(reading);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    auto unlocking =
        released ? c.locks.release(m.file.file(), kMe) : c.locks.clear(m.file.file(), kMe, {0, 100});
    c.start(unlocking);
    c.turn_for(20ms);
    CHECK_FALSE(unlocking.done());
    m.server.release();
    REQUIRE(c.turn_until([&] { return reading.done() && unlocking.done(); }, 10s));
    CHECK(ok(unlocking.await_resume()));
    CHECK(ok(reading.await_resume()));
    CHECK(m.held().empty());
    CHECK(m.server.lock_states() == (released ? 0 : 1));
    CHECK(ok(m.release(kMe)));
  }
}

TEST_CASE("locks: of a lease that expired they are lost, unless it is to be tried") {
  for (const bool tried : {false, true}) {
    CAPTURE(tried);
    Locking m;
    nfs4::SessionOptions options;
    options.recover_expired_locks = tried;
    m.begin(options);
    CHECK(m.set(write_lock(kMe, 0, 10)));
    m.server.forget_stateids();
    m.server.answer(OP_READ, NFS4ERR_EXPIRED);
    CHECK(errno_of(m.read()) == (tried ? 0 : EIO));
    CHECK(m.held() == (tried ? "0-10w" : ""));
    CHECK(ok(m.release(kMe)));
    CHECK(ok(m.read()));
  }
  Locking m;
  nfs4::SessionOptions options;
  options.recover_expired_locks = true;
  m.begin(options);
  CHECK(m.set(write_lock(kMe, 0, 10)));
  m.server.forget_stateids();
  m.server.lock("/f", 0, 10);  // somebody was faster
  CHECK(errno_of(m.read()) == EIO);
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: where an OPEN shows that the server had lost the file's state they are lost with it") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  m.server.forget_stateids();
  auto again = c.run(c.open(user(1), c.root, "f", OPEN4_SHARE_ACCESS_READ));
  REQUIRE(ok(again));
  CHECK(again->file.file() == m.file.file());
  CHECK(m.file->state().lost_locks.contains(kMe));
  CHECK(errno_of(m.read()) == EIO);
  CHECK(c.notices.find("lock") != std::string::npos);
  CHECK(ok(m.release(kMe)));
  CHECK(ok(m.read()));
  CHECK(ok(c.run(c.files.close(std::move(again->file)))));
}

TEST_CASE("locks: without anything locked a lost lock stateid is no loss") {
  Locking m;
  m.begin();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  CHECK(ok(m.clear(kMe, 0, 10)));
  m.server.forget_stateids();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  CHECK(m.held() == "0-10w");
  m.server.forget_stateids();
  CHECK(ok(m.clear(kMe, 0, 10)));
  CHECK(ok(m.read()));
  CHECK(ok(m.release(kMe)));
}

TEST_CASE("locks: closing the file releases what its owners did not") {
  Locking m;
  EngineClient& c = m.begin();
  CHECK(m.set(write_lock(kMe, 0, 10)));
  CHECK(m.set(write_lock(kYou, 20, 10)));
  CHECK(ok(c.run(c.files.close(std::move(m.file)))));
  CHECK(m.server.lock_states() == 0);
}

TEST_CASE("S16 api: what was written under a lock is on the server's disk before it goes") {
  for (const bool all : {false, true}) {
    CAPTURE(all);
    Mounted m;
    m.server.add_file("/a", "");
    (void)m.connect();
    const auto file = m.open("/a");
    CHECK(ok(file->lock({1, true, {0, 10}})));
    CHECK(ok(file->write(bytes("text"), 0)));
    CHECK(ok(file->unlock(1, all ? LockRange() : LockRange{0, 10})));
    CHECK(m.server.stable_content("/a") == "text");
    CHECK(m.server.locks("/a").empty());
    CHECK(ok(file->close()));
  }
}

}  // namespace nfsrdma
