// Locks on NFSv3 files, against a lock service on the simulated loop, and its wire against one on this machine.
#include "nfs3/locks.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>

#include "aux/lockd.h"
#include "rpc/message.h"
#include "support/model_locks.h"
#include "support/rpc_program.h"
#include "support/v3_fixture.h"

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

async::Task<void> pause(async::Loop& loop) {
  co_await loop.sleep_for(10ms);
}

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
    "v3 locks: what was unlocked meanwhile is not had again where one that was to be weaker is given up") {
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

TEST_CASE("S11 v3 locks: what cannot be had again is lost, and said until it is released") {
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

TEST_CASE("U5 NLM 4 over TCP: what the arguments say, and what the answers mean") {
  RpcPrograms programs;
  async::Loop loop;
  std::vector<aux::nlm4_lockargs> asked;
  aux::nlm4_stats answer = aux::NLM4_GRANTED;
  programs.serve<aux::NLM_LOCK<4>>([&](const aux::nlm4_lockargs& args) {
    asked.push_back(args);
    aux::nlm_res res;
    // A server that looks names up.
    const bool refuses = answer == aux::NLM4_DENIED_NOLOCKS && args.alock.caller_name.value == "host";
    res.stat = refuses ? aux::NLM4_GRANTED : answer;
    return res;
  });
  programs.serve<aux::NLM_UNLOCK<4>>([&](const aux::nlm4_unlockargs&) {
    aux::nlm_res res;
    res.stat = answer;
    return res;
  });
  programs.serve<aux::NLM_TEST<4>>([&](const aux::nlm4_testargs& args) {
    aux::nlm4_testres res;
    auto& holder = res.stat.emplace<aux::NLM4_DENIED>();
    holder.exclusive = true;
    holder.svid = asked.empty() ? 1 : asked.front().alock.svid;
    holder.l_offset = args.alock.l_offset;
    return res;
  });
  programs.serve<aux::SM_STAT>([](const aux::sm_name&) { return aux::sm_stat_res{0, 17}; });
  aux::LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  aux::Lockd lockd(loop, options);
  LockManager::Question question;
  question.file.length = 3;
  question.lock = request(5, true, 10, LockRange::kToTheEnd);
  const auto lock = [&] { return loop.run(lockd.lock(question, loop.now() + 5s)); };

  auto verdict = lock();
  REQUIRE(ok(verdict));
  CHECK(*verdict == LockManager::Verdict::granted);
  const auto& args = asked.front();
  CHECK(args.alock.caller_name.value.starts_with("host-nfs-"));
  CHECK(args.alock.fh.value.size() == 3);
  CHECK(args.alock.svid >= 0x40000000);
  CHECK(args.alock.l_offset == 10);
  CHECK(args.alock.l_len == 0);
  CHECK(args.exclusive);
  CHECK_FALSE(args.block);

  auto holder = loop.run(lockd.test(question, loop.now() + 5s));
  REQUIRE(ok(holder));
  REQUIRE(*holder);
  CHECK((*holder)->ours);
  CHECK((*holder)->owner == 5);
  CHECK((*holder)->range == LockRange{10, LockRange::kToTheEnd});
  CHECK(*loop.run(lockd.unlock(question, loop.now() + 5s)) == LockManager::Verdict::granted);
  CHECK(*loop.run(lockd.server_state(loop.now() + 5s)) == 17);

  answer = aux::NLM4_DENIED;
  CHECK(*lock() == LockManager::Verdict::denied);
  answer = aux::NLM4_DENIED_GRACE_PERIOD;
  CHECK(*lock() == LockManager::Verdict::grace);
  answer = aux::NLM4_STALE_FH;
  CHECK(lock().error().errno_value() == ESTALE);
  CHECK(*loop.run(lockd.unlock(question, loop.now() + 5s)) == LockManager::Verdict::granted);
  answer = aux::NLM4_DENIED_NOLOCKS;
  CHECK(loop.run(lockd.unlock(question, loop.now() + 5s)).error().errno_value() == ENOLCK);
  CHECK(*lock() == LockManager::Verdict::granted);
  CHECK(asked.back().alock.caller_name.value == "host");
  CHECK(programs.calls().front() == "100021.4.2/tcp");
}

TEST_CASE_TEMPLATE("U5 NLM 1 and 3, of NFSv2: the words are narrower, and files end at 2 GiB", Version,
                   std::integral_constant<std::uint32_t, 1>, std::integral_constant<std::uint32_t, 3>) {
  constexpr std::uint32_t kVersion = Version::value;
  RpcPrograms programs;
  async::Loop loop;
  std::vector<aux::nlm_lockargs<std::uint32_t>> asked;
  std::vector<aux::nlm_unlockargs<std::uint32_t>> unlocked;
  aux::nlm_cancargs<std::uint32_t> cancelled;
  std::atomic<int> told = 0;
  programs.serve<aux::NLM_LOCK<kVersion>>([&](const aux::nlm_lockargs<std::uint32_t>& args) {
    asked.push_back(args);
    aux::nlm_res res;
    if (args.block) res.stat = aux::NLM4_BLOCKED;
    return res;
  });
  programs.serve<aux::NLM_UNLOCK<kVersion>>([&](const aux::nlm_unlockargs<std::uint32_t>& args) {
    unlocked.push_back(args);
    return aux::nlm_res();
  });
  programs.serve<aux::NLM_TEST<kVersion>>([&](const aux::nlm_testargs<std::uint32_t>& args) {
    aux::nlm_testres<std::uint32_t> res;
    auto& holder = res.stat.emplace<aux::NLM4_DENIED>();
    holder.svid = 1;
    holder.l_offset = args.alock.l_offset;
    holder.l_len = 7;
    return res;
  });
  programs.serve<aux::NLM_CANCEL<kVersion>>([&](const aux::nlm_cancargs<std::uint32_t>& args) {
    cancelled = args;
    return aux::nlm_res();
  });
  programs.serve<aux::NLM_GRANTED_RES<kVersion>>([&](const aux::nlm_res&) {
    ++told;
    return xdr::Void();
  });
  aux::LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = programs.port();
  options.nfs_version = 2;
  options.nlm_version = kVersion;
  options.listens = true;
  options.registers = false;
  aux::Lockd lockd(loop, options);
  LockManager::Question question;
  question.file.length = 32;
  const auto locked = [&](std::uint64_t offset, std::uint64_t length) {
    question.lock = request(5, true, offset, length);
    auto verdict = loop.run(lockd.lock(question, loop.now() + 5s));
    return verdict ? 0 : verdict.error().errno_value();
  };
  CHECK(lockd.how() == "NLM " + std::to_string(kVersion));
  CHECK(locked(10, 20) == 0);
  CHECK(asked.back().alock.l_offset == 10);
  CHECK(asked.back().alock.l_len == 20);
  CHECK(locked(1, LockRange::kToTheEnd) == 0);
  CHECK(asked.back().alock.l_len == 0);
  // As far as the last octet, and beyond.
  CHECK(locked(0x7ffffff0, 15) == 0);
  CHECK(asked.back().alock.l_len == 15);
  CHECK(locked(0x7ffffff0, 16) == 0);
  CHECK(asked.back().alock.l_len == 0);
  CHECK(locked(100, 1ULL << 40U) == 0);
  CHECK(asked.back().alock.l_len == 0);
  const std::size_t so_far = asked.size();
  CHECK(locked(0x80000000, 1) == EFBIG);
  CHECK(asked.size() == so_far);
  CHECK(*loop.run(lockd.unlock(question, loop.now() + 5s)) == LockManager::Verdict::granted);
  CHECK(!*loop.run(lockd.test(question, loop.now() + 5s)));
  CHECK(unlocked.empty());

  question.lock = request(6, true, 100, LockRange::kToTheEnd);
  CHECK(*loop.run(lockd.unlock(question, loop.now() + 5s)) == LockManager::Verdict::granted);
  REQUIRE(unlocked.size() == 1);
  CHECK(unlocked[0].alock.l_offset == 100);
  CHECK(unlocked[0].alock.l_len == 0);
  auto holder = loop.run(lockd.test(question, loop.now() + 5s));
  REQUIRE(ok(holder));
  REQUIRE(*holder);
  CHECK((*holder)->range == LockRange{100, 7});
  CHECK_FALSE((*holder)->ours);

  // The server calls by the same version.
  int calls = 0;
  question.when_given = [&calls] { ++calls; };
  CHECK(*loop.run(lockd.lock(question, loop.now() + 5s)) == LockManager::Verdict::queued);
  const aux::Remote us{lockd.address(), "us", aux::Transport::tcp};
  aux::nlm_testargs<std::uint32_t> given;
  given.exclusive = true;
  given.alock = asked.back().alock;
  auto message = loop.run(aux::call<aux::NLM_GRANTED_MSG<kVersion>>(loop, us, {}, given, loop.now() + 5s));
  REQUIRE(ok(message));
  CHECK(calls == 1);
  const auto until = loop.now() + 5s;
  while (told == 0 && loop.now() < until) loop.run(pause(loop));
  CHECK(told == 1);
  REQUIRE(ok(loop.run(lockd.cancel(question, loop.now() + 5s))));
  CHECK(cancelled.alock.l_offset == 100);
}

TEST_CASE("U5 NLM 4: the server calls whoever waits") {
  RpcPrograms programs;
  async::Loop loop;
  aux::nlm4_lockargs asked;
  aux::nlm4_cancargs cancelled;
  std::optional<aux::nlm_res> told;
  programs.serve<aux::NLM_LOCK<4>>([&](const aux::nlm4_lockargs& args) {
    asked = args;
    aux::nlm_res res;
    res.stat = args.block ? aux::NLM4_BLOCKED : aux::NLM4_DENIED;
    return res;
  });
  programs.serve<aux::NLM_CANCEL<4>>([&](const aux::nlm4_cancargs& args) {
    cancelled = args;
    return aux::nlm_res();
  });
  std::atomic<bool> answered = false;
  programs.serve<aux::NLM_GRANTED_RES<4>>([&](const aux::nlm_res& args) {
    told = args;
    answered = true;
    return xdr::Void();
  });
  aux::LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  options.listens = true;
  options.registers = false;
  aux::Lockd lockd(loop, options);
  int calls = 0;
  LockManager::Question question;
  question.file.length = 3;
  question.lock = request(5, true, 10, 20);
  CHECK(*loop.run(lockd.lock(question, loop.now() + 5s)) == LockManager::Verdict::denied);
  CHECK_FALSE(asked.block);
  question.when_given = [&calls] { ++calls; };
  CHECK(*loop.run(lockd.lock(question, loop.now() + 5s)) == LockManager::Verdict::queued);
  CHECK(asked.block);

  const aux::Remote us{lockd.address(), "us", aux::Transport::tcp};
  aux::nlm4_testargs given;
  given.cookie.value = {std::byte{7}};
  given.exclusive = true;
  given.alock = asked.alock;
  const auto grant = [&](const aux::nlm4_testargs& what) {
    auto res = loop.run(aux::call<aux::NLM_GRANTED<4>>(loop, us, {}, what, loop.now() + 5s));
    REQUIRE(ok(res));
    CHECK(res->cookie.value == what.cookie.value);
    return res->stat;
  };
  CHECK(grant(given) == aux::NLM4_GRANTED);
  CHECK(calls == 1);
  auto message = loop.run(aux::call<aux::NLM_GRANTED_MSG<4>>(loop, us, {}, given, loop.now() + 5s));
  REQUIRE(ok(message));
  CHECK(calls == 2);
  const auto until = loop.now() + 5s;
  while (!answered && loop.now() < until) loop.run(pause(loop));
  REQUIRE(answered);
  CHECK(told->stat == aux::NLM4_GRANTED);
  CHECK(told->cookie.value == given.cookie.value);

  // What nobody here waits for.
  auto other = given;
  other.alock.oh.value = {std::byte{1}};
  CHECK(grant(other) == aux::NLM4_DENIED);
  other = given;
  ++other.alock.svid;
  CHECK(grant(other) == aux::NLM4_DENIED);
  REQUIRE(ok(loop.run(lockd.cancel(question, loop.now() + 5s))));
  CHECK(cancelled.alock.svid == asked.alock.svid);
  CHECK(cancelled.block);
  CHECK(cancelled.exclusive);
  CHECK(grant(given) == aux::NLM4_DENIED);
  CHECK(calls == 2);
}

TEST_CASE("U5 NLM 4: two first locks at once, where the server wants a name that it can look up") {
  std::atomic<int> refused = 0;
  RpcPrograms programs;
  async::Loop loop;
  programs.serve<aux::NLM_LOCK<4>>([&](const aux::nlm4_lockargs& args) {
    aux::nlm_res res;
    if (args.alock.caller_name.value == "host") return res;
    ++refused;
    res.stat = aux::NLM4_DENIED_NOLOCKS;
    return res;
  });
  aux::LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  aux::Lockd lockd(loop, options);
  using Verdict = LockManager::Verdict;
  std::vector<Result<Verdict>> done;
  const auto keep_verdict = [](async::Task<Result<Verdict>> task,
                               std::vector<Result<Verdict>>* into) -> async::Task<void> {
    auto verdict = co_await std::move(task);
    into->push_back(std::move(verdict));
  };
  LockManager::Question question;
  question.file.length = 3;
  for (const std::uint64_t owner : {5U, 6U}) {
    question.lock = request(owner, true, 10 * owner, 10);
    loop.spawn(keep_verdict(lockd.lock(question, loop.now() + 5s), &done));
  }
  const auto until = loop.now() + 10s;
  while (done.size() < 2 && loop.now() < until) loop.run(pause(loop));
  REQUIRE(done.size() == 2);
  CHECK(refused == 2);
  for (const auto& verdict : done) {
    REQUIRE(ok(verdict));
    CHECK(*verdict == Verdict::granted);
  }
  // From then on it is the host's name at once.
  question.lock = request(7, true, 0, 10);
  CHECK(*loop.run(lockd.lock(question, loop.now() + 5s)) == Verdict::granted);
  CHECK(refused == 2);
}

TEST_CASE("U5 NLM 4: so many answers to a server's calls are under way at once, whoever calls") {
  std::atomic<int> told = 0;
  std::atomic<bool> silent = false;
  RpcPrograms programs;
  async::Loop loop;
  aux::nlm4_lockargs asked;
  programs.serve<aux::NLM_LOCK<4>>([&](const aux::nlm4_lockargs& args) {
    asked = args;
    aux::nlm_res res;
    res.stat = aux::NLM4_BLOCKED;
    return res;
  });
  using Res = aux::NLM_GRANTED_RES<4>;
  programs.serve(Res::program, Res::version, Res::number,
                 [&](xdr::ConstBytes) -> std::optional<RpcPrograms::Octets> {
                   ++told;
                   if (silent) return std::nullopt;
                   return RpcPrograms::Octets();
                 });
  aux::LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  options.call_timeout = 5s;
  options.listens = true;
  options.registers = false;
  aux::Lockd lockd(loop, options);
  LockManager::Question question;
  question.file.length = 3;
  question.lock = request(5, true, 10, 20);
  question.when_given = [] {};
  REQUIRE(*loop.run(lockd.lock(question, loop.now() + 5s)) == LockManager::Verdict::queued);
  const aux::Remote us{lockd.address(), "us", aux::Transport::tcp};
  aux::nlm4_testargs given;
  given.exclusive = true;
  given.alock = asked.alock;
  const auto call = [&] {
    auto sent = loop.run(aux::call<aux::NLM_GRANTED_MSG<4>>(loop, us, {}, given, loop.now() + 5s));
    REQUIRE(ok(sent));
  };
  const auto wait_for_answers = [&](int count) {
    const auto until = loop.now() + 5s;
    while (told < count && loop.now() < until) loop.run(pause(loop));
  };
  const auto rest = [&] {
    for (int i = 0; i < 10; ++i) loop.run(pause(loop));
  };
  // Those that end give their places back.
  for (int i = 1; i <= 12; ++i) {
    call();
    wait_for_answers(i);
  }
  REQUIRE(told == 12);
  rest();  // until the last one's place is free
  silent = true;
  for (int i = 0; i < 16; ++i) call();
  wait_for_answers(12 + 8);
  rest();  // for any more than there should be
  CHECK(told > 12);
  CHECK(told <= 12 + 8);
}

TEST_CASE("U5 NLM 4: what comes to whoever listens for a server's calls") {
  int given = 0;
  aux::LockCalls calls(
      [&given](const aux::nlm4_testargs&) {
        ++given;
        return true;
      },
      [](const aux::nlm_res&) {});
  const auto answer = [&](std::uint32_t program, std::uint32_t version, std::uint32_t procedure,
                          std::size_t words) {
    xdr::Message call, reply;
    rpc::begin_call(call, program, version, procedure, rpc::Credential::none());
    xdr::Encoder out(call);
    for (std::size_t i = 0; i < words; ++i) out.u32(0);
    if (!calls.answer(call.stream.bytes(), reply)) return rpc::Refusal::undecodable;
    xdr::Decoder in(reply.stream.bytes());
    return rpc::read_reply(in).refusal;
  };
  using rpc::Refusal;
  CHECK(answer(aux::kNlmProgram, 4, 0, 0) == Refusal::none);
  CHECK(answer(aux::kNlmProgram, 1, 0, 0) == Refusal::none);
  CHECK(answer(aux::kNlmProgram, 2, 0, 0) == Refusal::version);
  CHECK(answer(aux::kNsmProgram, 4, 0, 0) == Refusal::program);
  CHECK(answer(aux::kNlmProgram, 4, 2, 0) == Refusal::procedure);
  constexpr std::size_t kWords = 10;  // cookie, exclusive, caller_name, fh, oh, svid, and two of two words
  CHECK(answer(aux::kNlmProgram, 4, 5, kWords) == Refusal::none);
  CHECK(given == 1);
  CHECK(answer(aux::kNlmProgram, 4, 5, kWords - 1) == Refusal::garbage_args);
  CHECK(answer(aux::kNlmProgram, 4, 5, kWords + 1) == Refusal::garbage_args);
  CHECK(answer(aux::kNlmProgram, 4, 10, 0) == Refusal::garbage_args);
  CHECK(given == 1);
  // Those of NFSv2 have numbers of one word.
  for (const std::uint32_t version : {1U, 3U}) {
    CHECK(answer(aux::kNlmProgram, version, 5, kWords - 2) == Refusal::none);
    CHECK(answer(aux::kNlmProgram, version, 5, kWords) == Refusal::garbage_args);
  }
  CHECK(given == 3);
  xdr::Message reply;
  CHECK_FALSE(calls.answer({}, reply));
}

}  // namespace nfsrdma::nfs3
