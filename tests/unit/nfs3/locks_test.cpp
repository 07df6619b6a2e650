// Locks on NFSv3 files, against a lock service on the simulated loop.
#include "nfs3/locks.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "support/model_locks.h"
#include "support/v3_fixture.h"
#include "support/virtual_world.h"

namespace nfsrdma::nfs3 {
namespace {

using namespace testing;

constexpr engine::Engine::Creation kNewFile{.mode = 0640, .exclusive = false, .truncate = false};

LockRequest request(std::uint64_t owner, bool write, std::uint64_t offset, std::uint64_t length) {
  LockRequest out;
  out.owner = owner;
  out.write = write;
  out.range = {offset, length};
  return out;
}

/// Two engines on one server, each with its locks.
struct LockScene {
  Scene3 s;
  LockTable table;
  ModelLocks service{s.loop, table, 1}, others_service{s.loop, table, 2};
  Nfs3Engine engine{s.calls, s.roots, &service};
  Nfs3Engine other{s.calls, s.roots, &others_service};
  engine::Opened file = open(engine);
  engine::Opened others = open(other);

  engine::Opened open(Nfs3Engine& by) {
    return s.get(by.open_at(s.who, s.root, "f", engine::Access::both, kNewFile));
  }
  bool locks(const engine::Opened& by, const LockRequest& what) {
    auto holder = s.run(by.file->lock(what), std::chrono::minutes(3));
    REQUIRE(ok(holder));
    return !*holder;
  }
  int lock_error(const engine::Opened& by, const LockRequest& what) {
    auto holder = s.run(by.file->lock(what), std::chrono::minutes(3));
    return holder ? 0 : holder.error().errno_value();
  }
};

struct Waiting {
  std::shared_ptr<locking::LockWait> wait;
  std::shared_ptr<std::optional<Status>> done = std::make_shared<std::optional<Status>>();
};
async::Task<void> keep(async::Task<Status> task, std::shared_ptr<std::optional<Status>> into) {
  auto done = co_await std::move(task);
  into->emplace(std::move(done));
}
Waiting wait_for(LockScene& scene, const engine::Opened& by, const LockRequest& what) {
  Waiting out;
  out.wait = std::make_shared<locking::LockWait>(scene.s.loop);
  scene.s.loop.spawn(keep(by.file->wait_for_lock(what, out.wait), out.done));
  scene.s.loop.end_turn();
  return out;
}

/// A lock service that for a while has no locks to give again: what it needs is not up yet.
class LateLocks final : public engine::LockManager {
 public:
  LateLocks(async::Loop& loop, LockTable& table) : near_(loop, table, 1) {}

  bool has_none = false;

  async::Task<Result<std::optional<LockHolder>>> test(Question question, async::TimePoint until) override {
    return near_.test(std::move(question), until);
  }
  async::Task<Result<Verdict>> lock(Question question, async::TimePoint until) override {
    if (!has_none) co_return co_await near_.lock(std::move(question), until);
    co_return Error(ErrorKind::server, ENOLCK, "NLM_LOCK", "model", "it can give no lock");
  }
  async::Task<Status> cancel(Question question, async::TimePoint until) override {
    return near_.cancel(std::move(question), until);
  }
  async::Task<Result<Verdict>> unlock(Question question, async::TimePoint until) override {
    return near_.unlock(std::move(question), until);
  }
  void forget(const engine::FileHandle& file, std::uint64_t owner) override { near_.forget(file, owner); }
  async::Task<Result<std::uint32_t>> server_state(async::TimePoint until) override {
    return near_.server_state(until);
  }
  std::string how() const override { return "late"; }

 private:
  ModelLocks near_;
};

}  // namespace

TEST_CASE("v3 locks: they exclude others, and are tested, split and unlocked") {
  LockScene l;
  CHECK(l.locks(l.file, request(7, true, 10, 10)));
  CHECK_FALSE(l.locks(l.others, request(7, false, 15, 1)));
  const auto holder = l.s.get(l.others.file->test_lock(request(7, false, 0, 100)));
  REQUIRE(holder);
  CHECK(holder->range == LockRange{10, 10});
  CHECK(holder->write);
  CHECK(l.file.file->knows_owner(7));
  CHECK_FALSE(l.file.file->knows_owner(8));
  CHECK(l.file.file->has_locks());
  CHECK_FALSE(l.others.file->has_locks());
  REQUIRE(ok(l.s.run(l.file.file->unlock(7, {14, 2}))));
  CHECK(l.engine.holdings().locks == 2);
  CHECK(l.locks(l.others, request(7, true, 14, 2)));
  REQUIRE(ok(l.s.run(l.file.file->release_locks(7))));
  CHECK_FALSE(l.file.file->knows_owner(7));
  CHECK_FALSE(l.file.file->has_locks());
  CHECK(l.table.count() == 1);
}

TEST_CASE("v3 locks: a file that is closed, or dropped, leaves none") {
  LockScene l;
  CHECK(l.locks(l.file, request(7, true, 0, LockRange::kToTheEnd)));
  CHECK(l.locks(l.others, request(8, false, 0, 1)) == false);
  SUBCASE("closed") {
    REQUIRE(ok(l.s.run(l.engine.close(l.file.file))));
  }
  SUBCASE("dropped") {
    l.file.file.reset();
    l.s.loop.end_turn();
    l.s.pass(1s);
  }
  CHECK(l.table.count() == 0);
}

TEST_CASE("v3 locks: whoever waits gets it when it is free, or is cancelled and leaves nothing") {
  LockScene l;
  CHECK(l.locks(l.others, request(1, true, 0, 10)));
  auto waiting = wait_for(l, l.file, request(2, true, 5, 1));
  l.s.pass(10s);
  CHECK_FALSE(waiting.done->has_value());
  CHECK(l.service.asked < 20);
  SUBCASE("free") {
    REQUIRE(ok(l.s.run(l.others.file->release_locks(1))));
    l.s.pass(3s);
    REQUIRE(waiting.done->has_value());
    CHECK(ok(**waiting.done));
    CHECK(l.table.count() == 1);
  }
  SUBCASE("cancelled") {
    waiting.wait->cancel();
    l.s.pass(1s);
    REQUIRE(waiting.done->has_value());
    CHECK((*waiting.done)->error().errno_value() == EINTR);
    CHECK_FALSE(l.file.file->knows_owner(2));
  }
  SUBCASE("cancelled while it is granted") {
    l.service.delay = 500ms;
    REQUIRE(ok(l.s.run(l.others.file->release_locks(1))));
    while (l.table.count() == 0) l.s.pass(10ms);
    waiting.wait->cancel();
    l.s.pass(2s);
    CHECK(l.table.count() == 0);
  }
}

TEST_CASE("v3 locks: whoever is queued gets it by a call, in turn, or is cancelled and leaves nothing") {
  LockScene l;
  l.table.queues = true;
  CHECK(l.locks(l.others, request(1, true, 0, 10)));
  auto waiting = wait_for(l, l.file, request(2, true, 5, 1));
  auto second = wait_for(l, l.file, request(3, true, 5, 1));
  l.s.pass(500ms);
  CHECK(l.service.asked == 2);
  CHECK(l.table.queue.size() == 2);
  SUBCASE("free") {
    REQUIRE(ok(l.s.run(l.others.file->release_locks(1))));
    l.s.pass(20ms);
    REQUIRE(waiting.done->has_value());
    CHECK(ok(**waiting.done));
    CHECK_FALSE(second.done->has_value());
    REQUIRE(ok(l.s.run(l.file.file->release_locks(2))));
    l.s.pass(20ms);
    CHECK(second.done->has_value());
    CHECK(l.table.count() == 1);
    CHECK(l.service.cancelled == 0);
  }
  SUBCASE("free, and the call is lost") {
    for (auto& one : l.table.queue) one.call = [] {};
    REQUIRE(ok(l.s.run(l.others.file->release_locks(1))));
    l.s.pass(10s);
    REQUIRE(waiting.done->has_value());
    CHECK(ok(**waiting.done));
  }
  SUBCASE("cancelled") {
    waiting.wait->cancel();
    l.s.pass(20ms);
    REQUIRE(waiting.done->has_value());
    CHECK((*waiting.done)->error().errno_value() == EINTR);
    CHECK(l.table.queue.size() == 1);
    CHECK(l.service.cancelled == 1);
    CHECK_FALSE(l.file.file->knows_owner(2));
  }
  SUBCASE("cancelled, as the server has given it") {
    l.table.queue.front().call = [] {};
    REQUIRE(ok(l.s.run(l.others.file->release_locks(1))));
    CHECK(l.table.count() == 1);
    waiting.wait->cancel();
    l.s.pass(20ms);
    CHECK(second.done->has_value());
    CHECK(l.table.count() == 1);
    CHECK_FALSE(l.file.file->knows_owner(2));
  }
  SUBCASE("the server restarts") {
    l.table.restart();
    l.s.pass(30s);
    l.table.grace = false;
    l.s.pass(20s);
    CHECK(l.table.queue.size() == 2);
    REQUIRE(ok(l.s.run(l.others.file->release_locks(1))));
    l.s.pass(20ms);
    CHECK(waiting.done->has_value());
  }
  second.wait->cancel();
  l.s.pass(1s);
  CHECK(second.done->has_value());
  CHECK(l.table.queue.empty());
}

TEST_CASE("v3 locks: whoever is cancelled and asks again at once has what it then gets") {
  LockScene l;
  l.table.queues = true;
  l.service.delay = l.service.unlock_delay = 200ms;
  CHECK(l.locks(l.others, request(1, true, 0, 10)));
  auto waiting = wait_for(l, l.file, request(2, true, 5, 1));
  SUBCASE("queued") {
    l.s.pass(500ms);
  }
  SUBCASE("on its way") {
    l.s.pass(50ms);
  }
  REQUIRE(ok(l.s.run(l.others.file->release_locks(1))));
  waiting.wait->cancel();
  l.s.pass(1ms);
  CHECK(l.locks(l.file, request(2, true, 5, 1)));
  l.s.pass(5s);
  CHECK(l.file.file->knows_owner(2));
  CHECK(l.table.count() == 1);
}

TEST_CASE("v3 locks: a wait that is given up leaves those of the same owner as they were") {
  LockScene l;
  l.table.queues = true;
  CHECK(l.locks(l.file, request(2, false, 0, 10)));
  CHECK(l.locks(l.others, request(1, true, 15, 10)));
  bool write = false;
  SUBCASE("of write locks") {
    write = true;
  }
  SUBCASE("of read locks") {}
  auto waiting = wait_for(l, l.file, request(2, write, 0, 20));
  l.s.pass(20ms);
  // It is given, and nobody hears of it.
  for (auto& one : l.table.queue) one.call = [] {};
  REQUIRE(ok(l.s.run(l.others.file->release_locks(1))));
  waiting.wait->cancel();
  l.s.pass(1s);
  CHECK(l.locks(l.others, request(1, false, 0, 10)));
  CHECK(l.locks(l.others, request(1, true, 10, 10)));
  CHECK_FALSE(l.locks(l.others, request(1, true, 0, 1)));
}

TEST_CASE("v3 locks: a lock that becomes a read lock, and whose answer is lost") {
  LockScene l;
  CHECK(l.locks(l.file, request(7, true, 0, 10)));
  l.service.lose_answers = 1;
  SUBCASE("is a write lock still, where nobody else reads there") {
    CHECK(l.lock_error(l.file, request(7, false, 0, 10)) == ETIMEDOUT);
    l.s.pass(1s);
    CHECK_FALSE(l.locks(l.others, request(1, false, 0, 1)));
  }
  SUBCASE("is lost, where somebody does") {
    l.service.delay = 1s;
    const auto attempt = wait_for(l, l.file, request(7, false, 0, 10));
    l.s.pass(500ms);
    CHECK(l.locks(l.others, request(1, false, 0, 1)));
    l.s.pass(10s);
    REQUIRE(attempt.done->has_value());
    CHECK((*attempt.done)->error().errno_value() == ETIMEDOUT);
    CHECK(l.lock_error(l.file, request(7, true, 20, 1)) == EIO);
  }
  SUBCASE("and the server restarts on the way: it is claimed as what it may have been") {
    l.service.delay = 1s;
    const auto attempt = wait_for(l, l.file, request(7, false, 0, 10));
    l.s.pass(500ms);
    l.table.restart();
    l.service.lose_answers = 0;
    l.s.pass(20s);
    CHECK(l.table.held.begin()->second.list() == std::vector{locking::HeldLock{{0, 10}, false}});
  }
}

TEST_CASE("v3 locks: one that was to become a read lock is a write lock still, where that was given up") {
  LockScene l;
  CHECK(l.locks(l.file, request(7, true, 0, 10)));
  l.table.restart();
  SUBCASE("before the restart of the server is noticed otherwise") {}
  SUBCASE("behind that, and behind the claims that it brought") {
    l.s.pass(25s);
  }
  const auto attempt = wait_for(l, l.file, request(7, false, 0, 10));
  l.s.pass(500ms);
  REQUIRE(l.table.count() == 1);
  CHECK(l.table.held.begin()->second.list() == std::vector{locking::HeldLock{{0, 10}, false}});
  attempt.wait->cancel();
  l.s.pass(5s);
  REQUIRE(attempt.done->has_value());
  CHECK((*attempt.done)->error().errno_value() == EINTR);
  CHECK(l.table.held.begin()->second.list() == std::vector{locking::HeldLock{{0, 10}, true}});
  l.table.grace = false;
  CHECK_FALSE(l.locks(l.others, request(1, false, 0, 1)));
  CHECK(l.locks(l.file, request(7, true, 20, 10)));
}

TEST_CASE(
    "v3 locks: what was unlocked meanwhile is not recovered where one that was to be weaker is given up") {
  LockScene l;
  CHECK(l.locks(l.file, request(7, true, 0, 10)));
  SUBCASE("while it was queued") {
    l.table.queues = true;
    CHECK(l.locks(l.others, request(1, true, 15, 10)));
    const auto attempt = wait_for(l, l.file, request(7, false, 0, 20));
    l.s.pass(500ms);
    REQUIRE(l.table.queue.size() == 1);
    REQUIRE(ok(l.s.run(l.file.file->unlock(7, {0, 10}))));
    CHECK(l.locks(l.others, request(1, true, 0, 10)));
    attempt.wait->cancel();
    l.s.pass(1s);
    REQUIRE(attempt.done->has_value());
    CHECK(l.table.queue.empty());
    CHECK(l.engine.holdings().locks == 0);
    CHECK(l.s.read(l.file, 1).empty());
    CHECK(l.locks(l.file, request(7, true, 50, 1)));
  }
  SUBCASE("while the server was in its grace period") {
    l.table.restart();
    const auto attempt = wait_for(l, l.file, request(7, false, 0, 10));
    l.s.pass(8s);
    // It asks again in a while only.
    l.table.grace = false;
    attempt.wait->cancel();
    REQUIRE(ok(l.s.run(l.file.file->release_locks(7))));
    l.s.pass(10s);
    REQUIRE(attempt.done->has_value());
    CHECK(l.table.count() == 0);
    CHECK(l.engine.holdings().locks == 0);
    CHECK_FALSE(l.file.file->knows_owner(7));
  }
}

TEST_CASE("v3 locks: one whose answer was lost is unlocked again") {
  LockScene l;
  l.service.lose_answers = 1;
  CHECK(l.lock_error(l.file, request(7, true, 0, 10)) == ETIMEDOUT);
  l.s.pass(1s);
  CHECK(l.table.count() == 0);
}

TEST_CASE("v3 locks: those of before a restart of the server are claimed again") {
  LockScene l;
  CHECK(l.locks(l.file, request(7, true, 0, 10)));
  CHECK(l.locks(l.file, request(8, false, 20, 10)));
  l.table.restart();
  SUBCASE("since the server's state number is another") {
    l.s.pass(20s);
  }
  SUBCASE("since the server is in its grace period") {
    l.table.tells_state = false;
    auto waiting = wait_for(l, l.file, request(7, true, 50, 10));
    l.s.pass(5s);
    CHECK(l.table.count() == 2);
    l.table.grace = false;
    l.s.pass(10s);
    REQUIRE(waiting.done->has_value());
    CHECK(ok(**waiting.done));
  }
  CHECK(l.table.count() >= 2);
  l.table.grace = false;
  CHECK_FALSE(l.locks(l.others, request(1, true, 5, 1)));
}

TEST_CASE("v3 locks: where the connection was lost the server is asked whether it has them still") {
  LockScene l;
  l.table.tells_state = false;
  CHECK(l.locks(l.file, request(7, true, 0, 10)));
  CHECK(l.locks(l.file, request(8, false, 20, 10)));
  SUBCASE("it has") {
    SUBCASE("and others read there, too") {
      CHECK(l.locks(l.others, request(1, false, 20, 10)));
    }
    SUBCASE("and nobody else") {}
    l.s.server.drop_connections();
    l.s.pass(20s);
    CHECK(l.engine.holdings().locks == 2);
    CHECK(l.locks(l.file, request(7, true, 50, 1)));
  }
  SUBCASE("it has restarted") {
    l.table.restart();
    l.s.server.drop_connections();
    l.s.pass(20s);
    l.table.grace = false;
    CHECK(l.table.count() == 2);
    CHECK_FALSE(l.locks(l.others, request(1, true, 5, 1)));
  }
  SUBCASE("it has restarted, and takes no claims any more") {
    l.table.restart();
    l.table.grace = false;
    SUBCASE("somebody else has it") {
      CHECK(l.locks(l.others, request(1, true, 0, 10)));
    }
    SUBCASE("somebody else has a part of it") {
      CHECK(l.locks(l.others, request(1, true, 5, 1)));
    }
    SUBCASE("nobody has it") {}
    l.s.server.drop_connections();
    l.s.pass(20s);
    CHECK(l.lock_error(l.file, request(7, true, 50, 1)) == EIO);
  }
}

TEST_CASE(
    "v3 locks: one that the lock service forgets some time behind the loss of the connection is claimed "
    "again") {
  LockScene l;
  l.table.tells_state = false;
  CHECK(l.locks(l.file, request(7, true, 0, 10)));
  l.s.server.go_away();
  l.s.pass(20s);  // it is asked, and has the lock still
  l.table.restart();
  l.s.pass(20s);
  CHECK(l.table.count() == 0);
  l.s.server.come_back();
  l.s.pass(60s);  // no program calls
  CHECK(l.table.count() == 1);
  l.table.grace = false;
  CHECK_FALSE(l.locks(l.others, request(1, true, 5, 1)));
}

TEST_CASE("v3 locks: a server that restarts while it is asked whether it has them still") {
  LockScene l;
  CHECK(l.locks(l.file, request(7, true, 0, 10)));
  l.s.server.drop_connections();
  // Its answer to the claim is on the way: there has been no restart.
  l.service.delay = 2s;
  const int before = l.service.asked;
  while (l.service.asked == before) l.s.pass(100ms);
  l.s.pass(100ms);
  l.table.restart();
  l.s.pass(20s);
  l.table.grace = false;
  CHECK(l.table.count() == 1);
  CHECK(l.engine.holdings().locks == 1);
}

TEST_CASE("v3 locks: a question about one waits for the end of the grace period") {
  LockScene l;
  l.table.restart();
  l.s.loop.spawn([](LockScene& scene) -> async::Task<void> {
    co_await scene.s.loop.sleep_for(20s);
    scene.table.grace = false;
  }(l));
  const auto holder = l.s.run(l.file.file->test_lock(request(7, true, 0, 10)), 1min);
  REQUIRE(ok(holder));
  CHECK_FALSE(*holder);
}

TEST_CASE("v3 locks: one that comes while the first asks for the server's state is claimed again, too") {
  LockScene l;
  l.service.state_delay = 2s;
  auto first = wait_for(l, l.file, request(7, true, 0, 10));
  auto second = wait_for(l, l.file, request(8, true, 20, 10));
  l.s.pass(1s);
  l.table.restart();
  l.table.grace = false;
  l.s.pass(30s);
  REQUIRE(first.done->has_value());
  REQUIRE(second.done->has_value());
  CHECK(l.table.count() == 2);
}

TEST_CASE("v3 locks: what is being unlocked is not claimed again: somebody else may have it already") {
  LockScene m;
  CHECK(m.locks(m.file, request(7, true, 0, 10)));
  CHECK(m.locks(m.file, request(7, true, 20, 10)));
  m.service.unlock_delay = 8s;
  auto late = std::make_shared<std::optional<Status>>();
  m.s.loop.spawn(keep(m.file.file->unlock(7, {0, 10}), late));
  m.s.pass(100ms);
  CHECK(m.locks(m.others, request(1, true, 0, 10)));
  m.table.restart();
  m.s.pass(15s);
  CHECK(m.table.count() == 2);
  m.table.grace = false;
  m.s.pass(30s);
  REQUIRE(late->has_value());
  CHECK(ok(**late));
  CHECK(m.engine.holdings().locks == 1);
  CHECK(m.other.holdings().locks == 1);
  CHECK(ok(m.s.run(m.engine.close(m.file.file), 2min)));
  CHECK(ok(m.s.run(m.other.close(m.others.file), 2min)));
  CHECK(m.table.count() == 0);
}

TEST_CASE("v3 locks: one that is claimed twice, the second time behind the grace period, is held still") {
  LockScene m;
  CHECK(m.locks(m.file, request(7, true, 0, 10)));
  CHECK(m.locks(m.others, request(1, true, 20, 10)));
  m.table.restart();
  m.s.pass(12s);  // both have noticed
  REQUIRE(m.table.count() == 2);
  m.s.loop.spawn([](LockScene& scene) -> async::Task<void> {
    co_await scene.s.loop.sleep_for(20s);
    scene.table.grace = false;
  }(m));
  // Another lock is asked for in the grace period: what is held is claimed once more, the last time too late.
  m.service.on_the_way = 7s;
  CHECK(m.locks(m.file, request(7, true, 50, 10)));
  CHECK(m.engine.holdings().locks == 2);
  CHECK(ok(m.s.run(m.engine.close(m.file.file), 2min)));
}

TEST_CASE("S11 v3 locks: what cannot be recovered is lost, and said until it is released") {
  LockScene l;
  REQUIRE(ok(l.s.write(l.file, "text")));
  CHECK(l.locks(l.file, request(7, true, 0, 10)));
  l.table.restart();
  l.table.grace = false;
  CHECK(l.locks(l.others, request(1, true, 5, 1)));
  l.s.pass(20s);
  std::array<std::byte, 4> memory{};
  CHECK(l.s.error(l.file.file->read(memory, 0)) == EIO);
  CHECK(errno_of(l.s.write(l.file, "more")) == EIO);
  CHECK(l.lock_error(l.file, request(7, true, 20, 1)) == EIO);
  REQUIRE(ok(l.s.run(l.file.file->release_locks(7))));
  CHECK(l.s.read(l.file, 4) == "text");
}

TEST_CASE("v3 locks: a file that is not open for it, and no lock service") {
  LockScene l;
  const auto reading = l.s.get(l.engine.open_at(l.s.who, l.s.root, "f", engine::Access::read, std::nullopt));
  CHECK(l.lock_error(reading, request(1, true, 0, 1)) == EBADF);
  CHECK(errno_of(l.s.run(reading.file->wait_for_lock(request(1, true, 0, 1), nullptr))) == EBADF);
  CHECK(l.locks(reading, request(1, false, 0, 1)));
  const auto writing = l.s.get(l.engine.open_at(l.s.who, l.s.root, "f", engine::Access::write, std::nullopt));
  CHECK(l.lock_error(writing, request(1, false, 0, 1)) == EBADF);
  CHECK(l.locks(writing, request(1, true, 0, 1)));
  const auto without = l.s.open("f", kNewFile);
  CHECK(l.lock_error(without, request(1, true, 0, 1)) == ENOLCK);
  CHECK_FALSE(without.file->knows_owner(1));
}

TEST_CASE("v3 locks: a restarted lock service that has none to give yet is asked again, for two minutes") {
  VirtualWorld world;
  async::Loop loop(world);
  LockTable table;
  LateLocks service(loop, table);
  FileRecords files(loop);
  Locks locks(loop, files, &service, 5s, {[] { return std::uint64_t{0}; }, [](bool) {}});
  LockedFile file;
  file.handle.length = 3;
  file.label = "f";
  const auto pass = [&loop](std::chrono::seconds time) {
    loop.run([](async::Loop& on, std::chrono::seconds for_so_long) -> async::Task<void> {
      co_await on.sleep_for(for_so_long);
    }(loop, time));
  };
  LockRequest wanted;
  wanted.owner = 7;
  wanted.write = true;
  wanted.range = {0, 10};
  const auto locked = loop.run(locks.set(file, wanted));
  REQUIRE(ok(locked));
  REQUIRE_FALSE(locked->has_value());

  table.restart();
  service.has_none = true;
  pass(60s);
  CHECK(locks.held() == 1);
  CHECK_FALSE(locks.lost(file.handle));
  SUBCASE("then it has") {
    service.has_none = false;
    pass(15s);
    CHECK(table.count() == 1);
    CHECK(locks.held() == 1);
    CHECK_FALSE(locks.lost(file.handle));
  }
  SUBCASE("it never has") {
    pass(120s);
    CHECK(locks.held() == 0);
    const auto lost = locks.lost(file.handle);
    REQUIRE(lost);
    CHECK(lost->errno_value() == EIO);
    service.has_none = false;
    REQUIRE(ok(loop.run(locks.release(file, 7))));
    CHECK_FALSE(locks.lost(file.handle));
  }
}

}  // namespace nfsrdma::nfs3
