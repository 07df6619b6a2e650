// NLM's client: in whose name locks are asked for, claimed and unlocked, who is queued, and what refusals mean. The
// server is one on this machine.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "aux/lockd.h"
#include "support/nfs_fixture.h"
#include "support/rpc_program.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using testing::errno_of;
using testing::ok;
using testing::RpcPrograms;
using Manager = engine::LockManager;

/// A lock service that notes what it is asked, and a client of it.
struct NotingService {
  nlm4_stats answer = NLM4_GRANTED;  ///< to whatever it is asked
  std::vector<nlm4_lockargs> locks;
  std::vector<nlm4_testargs> tests;
  std::vector<nlm4_unlockargs> unlocks;
  std::atomic<bool> holds_unlocks = false;  ///< has not answered one until this is false
  std::atomic<bool> unlocking = false;      ///< one has come
  RpcPrograms programs;
  async::Loop loop;

  NotingService() {
    programs.serve<NLM_TEST<4>>([this](const nlm4_testargs& args) {
      tests.push_back(args);
      nlm4_testres res;
      (void)res.stat.select(answer);
      return res;
    });
    programs.serve<NLM_UNLOCK<4>>([this](const nlm4_unlockargs& args) {
      unlocks.push_back(args);
      unlocking = true;
      while (holds_unlocks) std::this_thread::yield();
      return plain();
    });
  }
  ~NotingService() { holds_unlocks = false; }
  NotingService(const NotingService&) = delete;
  NotingService& operator=(const NotingService&) = delete;
  void serve_locks() {
    programs.serve<NLM_LOCK<4>>([this](const nlm4_lockargs& args) {
      locks.push_back(args);
      return plain();
    });
  }
  [[nodiscard]] LockdOptions options() const {
    LockdOptions out;
    out.server = "server";
    out.addresses = {programs.address()};
    out.port = out.nsm_port = programs.port();
    out.host = "host";
    return out;
  }
  /// Of a client that the server may call.
  [[nodiscard]] LockdOptions listening() const {
    LockdOptions out = options();
    out.listens = true;
    out.registers = false;
    return out;
  }
  static Manager::Question question(std::uint64_t owner) {
    Manager::Question out;
    out.file.length = 3;
    out.lock.owner = owner;
    out.lock.write = true;
    out.lock.range = {10, 20};
    return out;
  }
  Result<Manager::Verdict> lock(Lockd& lockd, const Manager::Question& what) {
    return loop.run(lockd.lock(what, loop.now() + 5s));
  }
  Result<Manager::Verdict> unlock(Lockd& lockd, const Manager::Question& what) {
    return loop.run(lockd.unlock(what, loop.now() + 5s));
  }
  /// The server says that the lock is given; what it is told.
  nlm4_stats grant(const Lockd& lockd, const nlm4_lock& what) {
    const Remote us{lockd.address(), "us", Transport::tcp};
    nlm4_testargs given;
    given.exclusive = true;
    given.alock = what;
    auto told = loop.run(call<NLM_GRANTED<4>>(loop, us, {}, given, loop.now() + 5s));
    REQUIRE(ok(told));
    return told->stat;
  }

 private:
  [[nodiscard]] nlm_res plain() const {
    nlm_res res;
    res.stat = answer;
    return res;
  }
};

}  // namespace

TEST_CASE("U5 NLM 4: a lock is claimed, and unlocked, by the number that it was asked for with") {
  NotingService m;
  m.serve_locks();
  Lockd lockd(m.loop, m.options());
  auto question = NotingService::question(5);
  REQUIRE(ok(m.lock(lockd, question)));
  CHECK_FALSE(m.locks[0].reclaim);
  question.reclaim = true;
  REQUIRE(ok(m.lock(lockd, question)));
  REQUIRE(m.locks.size() == 2);
  CHECK(m.locks[1].reclaim);
  CHECK(m.locks[1].alock.svid == m.locks[0].alock.svid);
  CHECK(m.locks[1].alock.oh.value == m.locks[0].alock.oh.value);
  // A question about a lock changes nothing of that, nor do other owners.
  REQUIRE(ok(m.loop.run(lockd.test(NotingService::question(5), m.loop.now() + 5s))));
  REQUIRE(ok(m.loop.run(lockd.test(NotingService::question(6), m.loop.now() + 5s))));
  REQUIRE(m.tests.size() == 2);
  CHECK(m.tests[0].alock.svid == m.locks[0].alock.svid);
  CHECK(m.tests[1].alock.svid != m.locks[0].alock.svid);
  REQUIRE(ok(m.unlock(lockd, NotingService::question(5))));
  REQUIRE(m.unlocks.size() == 1);
  CHECK(m.unlocks[0].alock.svid == m.locks[0].alock.svid);
  CHECK(m.unlocks[0].alock.oh.value == m.locks[0].alock.oh.value);
  CHECK(m.unlocks[0].alock.l_offset == 10);
  CHECK(m.unlocks[0].alock.l_len == 20);
  // Once the owner is forgotten, his number is not used again.
  lockd.forget(question.file, 5);
  REQUIRE(ok(m.lock(lockd, NotingService::question(5))));
  CHECK(m.locks.back().alock.svid != m.locks[0].alock.svid);
}

TEST_CASE("U5 NLM 4: where nobody could be called no lock is waited for at the server") {
  NotingService m;
  m.serve_locks();
  m.answer = NLM4_DENIED;
  Lockd lockd(m.loop, m.options());
  auto question = NotingService::question(5);
  question.when_given = [] {};
  const auto verdict = m.lock(lockd, question);
  REQUIRE(ok(verdict));
  CHECK(*verdict == Manager::Verdict::denied);
  CHECK_FALSE(m.locks[0].block);
}

TEST_CASE("U5 NLM 4: a lock that was refused, or has been given, is not waited for any more") {
  NotingService m;
  Lockd lockd(m.loop, m.listening());
  auto question = NotingService::question(5);
  int calls = 0;
  question.when_given = [&calls] { ++calls; };
  SUBCASE("the service does not do that") {
    CHECK(errno_of(m.lock(lockd, question)) == EOPNOTSUPP);
    REQUIRE(ok(m.loop.run(lockd.test(question, m.loop.now() + 5s))));
    CHECK(m.grant(lockd, m.tests.at(0).alock) == NLM4_DENIED);
  }
  SUBCASE("it is given at once") {
    m.serve_locks();
    REQUIRE(ok(m.lock(lockd, question)));
    CHECK(m.locks.at(0).block);
    CHECK(m.grant(lockd, m.locks[0].alock) == NLM4_DENIED);
  }
  CHECK(calls == 0);
}

TEST_CASE("U5 NLM 4: what the server gives while its owner asks for something is not given back") {
  NotingService m;
  m.serve_locks();
  Lockd lockd(m.loop, m.listening());
  auto question = NotingService::question(5);
  question.when_given = [] {};
  REQUIRE(ok(m.lock(lockd, question)));
  const nlm4_lock given = m.locks.at(0).alock;
  CHECK(m.grant(lockd, given) == NLM4_DENIED);
  m.holds_unlocks = true;
  auto done = std::make_shared<std::optional<bool>>();
  m.loop.spawn([](Lockd& asked, async::TimePoint until,
                  std::shared_ptr<std::optional<bool>> into) -> async::Task<void> {
    auto verdict = co_await asked.unlock(NotingService::question(5), until);
    *into = verdict.has_value();
  }(lockd, m.loop.now() + 5s, done));
  const auto turn_until = [&m](const auto& so) {
    const auto end = m.loop.now() + 5s;
    while (!so() && m.loop.now() < end) m.loop.turn(m.loop.now() + 1ms);
  };
  turn_until([&m] { return m.unlocking.load(); });
  REQUIRE(m.unlocking);
  CHECK(m.grant(lockd, given) == NLM4_GRANTED);
  m.holds_unlocks = false;
  turn_until([&done] { return done->has_value(); });
  REQUIRE(done->has_value());
  CHECK(**done);
  CHECK(m.grant(lockd, given) == NLM4_DENIED);
}

TEST_CASE("U5 NLM 4: what refusals mean") {
  NotingService m;
  m.serve_locks();
  Lockd lockd(m.loop, m.options());
  const auto question = NotingService::question(5);
  const std::vector<std::pair<nlm4_stats, int>> all{
      {NLM4_DENIED_NOLOCKS, ENOLCK}, {NLM4_DEADLCK, EDEADLK}, {NLM4_ROFS, EROFS},
      {NLM4_STALE_FH, ESTALE},       {NLM4_FBIG, EFBIG},      {NLM4_FAILED, ENOLCK}};
  for (const auto& one : all) {
    CAPTURE(static_cast<unsigned>(one.first));
    m.answer = one.first;
    CHECK(errno_of(m.lock(lockd, question)) == one.second);
    CHECK(errno_of(m.loop.run(lockd.test(question, m.loop.now() + 5s))) == one.second);
  }
  m.answer = NLM4_DENIED_GRACE_PERIOD;
  CHECK(errno_of(m.loop.run(lockd.test(question, m.loop.now() + 5s))) == EAGAIN);
  const auto unlocked = m.unlock(lockd, question);
  REQUIRE(ok(unlocked));
  CHECK(*unlocked == Manager::Verdict::grace);
  m.answer = NLM4_FAILED;
  CHECK(errno_of(m.unlock(lockd, question)) == ENOLCK);
}

TEST_CASE("U5 NLM 4: rpcbind is asked for lockd's port once, and again when lockd has left it") {
  // Used by the thread of the rpcbind.
  std::atomic<std::uint16_t> registered = 0;
  std::atomic<int> unanswered = 0;  // so often there is no lockd
  std::atomic<int> asked = 0;
  const auto serves_locks = [] {
    auto out = std::make_unique<RpcPrograms>();
    out->serve<NLM_LOCK<4>>([](const nlm4_lockargs& /*args*/) { return nlm_res(); });
    return out;
  };
  auto before = serves_locks();
  const auto after = serves_locks();
  RpcPrograms rpcbind;
  rpcbind.serve<PMAP_GETPORT>([&](const mapping& what) {
    constexpr std::uint32_t kTcp = 6;
    if (what.prog != kNlmProgram || what.vers != 4 || what.prot != kTcp) return pmap_port{0};
    ++asked;
    if (unanswered > 0) {
      --unanswered;
      return pmap_port{0};
    }
    return pmap_port{registered};
  });
  registered = before->port();

  async::Loop loop;
  LockdOptions options;
  options.server = "server";
  options.addresses = {rpcbind.address()};
  options.rpcbind_port = rpcbind.port();
  options.host = "host";
  Lockd lockd(loop, options);
  const auto locks = [&] {
    auto done = loop.run(lockd.lock(NotingService::question(5), loop.now() + 20s));
    return ok(done) && *done == Manager::Verdict::granted;
  };
  CHECK(locks());
  CHECK(locks());
  CHECK(before->calls().size() == 2);
  CHECK(asked == 1);

  registered = after->port();
  SUBCASE("nobody is at the old port") {
    before.reset();
  }
  SUBCASE("and rpcbind does not know the new one yet") {
    before.reset();
    unanswered = 1;
  }
  SUBCASE("something else is at the old port") {
    before->withdraw(kNlmProgram);
  }
  CHECK(locks());
  CHECK(after->calls().size() == 1);
  // The new port is remembered as the old one was.
  const int looked = asked;
  CHECK(looked > 1);
  CHECK(locks());
  CHECK(after->calls().size() == 2);
  CHECK(asked == looked);
}

TEST_CASE("U5 NLM 4: a lockd that was never there is looked for a while, and no longer") {
  NotingService m;
  LockdOptions options = m.options();
  {
    const RpcPrograms closed;
    options.port = closed.port();
  }
  options.first_search = 300ms;
  Lockd lockd(m.loop, options);
  const testing::Stopwatch watch;
  const auto refused = m.lock(lockd, NotingService::question(5));
  CHECK(errno_of(refused) == ENOLCK);
  CHECK(watch.elapsed() >= 300ms);
}

TEST_CASE("U5 NSM: a server that does not tell its state number is one without") {
  NotingService m;
  std::uint32_t fails = 1;
  m.programs.serve<SM_STAT>([&fails](const sm_name& /*args*/) { return sm_stat_res{fails, 17}; });
  Lockd lockd(m.loop, m.options());
  CHECK(errno_of(m.loop.run(lockd.server_state(m.loop.now() + 5s))) == EOPNOTSUPP);
  fails = 0;
  const auto state = m.loop.run(lockd.server_state(m.loop.now() + 5s));
  REQUIRE(ok(state));
  CHECK(*state == 17);
}

}  // namespace nfsrdma::aux
