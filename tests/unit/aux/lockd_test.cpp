// NLM's client: what the arguments say in each version, what answers and refusals mean, who is queued and called back. The
// server is one on this machine.
#include "aux/lockd.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpc/message.h"
#include "support/nfs_fixture.h"
#include "support/rpc_program.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using Manager = engine::LockManager;

/// Turns the loop until `so` returns true, at most for `most`, and returns its last answer. An event on the server's thread does
/// not wake the loop, so `so` is called every millisecond.
bool turns_until(async::Loop& loop, const std::function<bool()>& so, async::Clock::duration most = 5s) {
  const auto end = loop.now() + most;
  while (!so() && loop.now() < end) loop.turn(loop.now() + 1ms);
  return so();
}

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

TEST_CASE("U5 NLM 4 over TCP: what the arguments say, and what the answers mean") {
  RpcPrograms programs;
  async::Loop loop;
  std::vector<nlm4_lockargs> asked;
  nlm4_stats answer = NLM4_GRANTED;
  programs.serve<NLM_LOCK<4>>([&](const nlm4_lockargs& args) {
    asked.push_back(args);
    nlm_res res;
    // A server that looks names up.
    const bool refuses = answer == NLM4_DENIED_NOLOCKS && args.alock.caller_name.value == "host";
    res.stat = refuses ? NLM4_GRANTED : answer;
    return res;
  });
  programs.serve<NLM_UNLOCK<4>>([&](const nlm4_unlockargs&) {
    nlm_res res;
    res.stat = answer;
    return res;
  });
  programs.serve<NLM_TEST<4>>([&](const nlm4_testargs& args) {
    nlm4_testres res;
    auto& holder = res.stat.emplace<NLM4_DENIED>();
    holder.exclusive = true;
    holder.svid = asked.empty() ? 1 : asked.front().alock.svid;
    holder.l_offset = args.alock.l_offset;
    return res;
  });
  programs.serve<SM_STAT>([](const sm_name&) { return sm_stat_res{0, 17}; });
  LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  Lockd lockd(loop, options);
  Manager::Question question;
  question.file.length = 3;
  question.lock = LockRequest{5, true, {10, LockRange::kToTheEnd}};
  const auto lock = [&] { return loop.run(lockd.lock(question, loop.now() + 5s)); };

  auto verdict = lock();
  REQUIRE(ok(verdict));
  CHECK(*verdict == Manager::Verdict::granted);
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
  CHECK(*loop.run(lockd.unlock(question, loop.now() + 5s)) == Manager::Verdict::granted);
  CHECK(*loop.run(lockd.server_state(loop.now() + 5s)) == 17);

  answer = NLM4_DENIED;
  CHECK(*lock() == Manager::Verdict::denied);
  answer = NLM4_DENIED_GRACE_PERIOD;
  CHECK(*lock() == Manager::Verdict::grace);
  answer = NLM4_STALE_FH;
  CHECK(lock().error().errno_value() == ESTALE);
  CHECK(*loop.run(lockd.unlock(question, loop.now() + 5s)) == Manager::Verdict::granted);
  answer = NLM4_DENIED_NOLOCKS;
  CHECK(loop.run(lockd.unlock(question, loop.now() + 5s)).error().errno_value() == ENOLCK);
  CHECK(*lock() == Manager::Verdict::granted);
  CHECK(asked.back().alock.caller_name.value == "host");
  CHECK(programs.calls().front() == "100021.4.2/tcp");
}

TEST_CASE_TEMPLATE("U5 NLM 1 and 3, of NFSv2: the words are narrower, and files end at 2 GiB", Version,
                   std::integral_constant<std::uint32_t, 1>, std::integral_constant<std::uint32_t, 3>) {
  constexpr std::uint32_t kVersion = Version::value;
  RpcPrograms programs;
  async::Loop loop;
  std::vector<nlm_lockargs<std::uint32_t>> asked;
  std::vector<nlm_unlockargs<std::uint32_t>> unlocked;
  nlm_cancargs<std::uint32_t> cancelled;
  std::atomic<int> told = 0;
  programs.serve<NLM_LOCK<kVersion>>([&](const nlm_lockargs<std::uint32_t>& args) {
    asked.push_back(args);
    nlm_res res;
    if (args.block) res.stat = NLM4_BLOCKED;
    return res;
  });
  programs.serve<NLM_UNLOCK<kVersion>>([&](const nlm_unlockargs<std::uint32_t>& args) {
    unlocked.push_back(args);
    return nlm_res();
  });
  programs.serve<NLM_TEST<kVersion>>([&](const nlm_testargs<std::uint32_t>& args) {
    nlm_testres<std::uint32_t> res;
    auto& holder = res.stat.emplace<NLM4_DENIED>();
    holder.svid = 1;
    holder.l_offset = args.alock.l_offset;
    holder.l_len = 7;
    return res;
  });
  programs.serve<NLM_CANCEL<kVersion>>([&](const nlm_cancargs<std::uint32_t>& args) {
    cancelled = args;
    return nlm_res();
  });
  programs.serve<NLM_GRANTED_RES<kVersion>>([&](const nlm_res&) {
    ++told;
    return xdr::Void();
  });
  LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = programs.port();
  options.nfs_version = 2;
  options.nlm_version = kVersion;
  options.listens = true;
  options.registers = false;
  Lockd lockd(loop, options);
  Manager::Question question;
  question.file.length = 32;
  const auto locked = [&](std::uint64_t offset, std::uint64_t length) {
    question.lock = LockRequest{5, true, {offset, length}};
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
  CHECK(*loop.run(lockd.unlock(question, loop.now() + 5s)) == Manager::Verdict::granted);
  CHECK(!*loop.run(lockd.test(question, loop.now() + 5s)));
  CHECK(unlocked.empty());

  question.lock = LockRequest{6, true, {100, LockRange::kToTheEnd}};
  CHECK(*loop.run(lockd.unlock(question, loop.now() + 5s)) == Manager::Verdict::granted);
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
  CHECK(*loop.run(lockd.lock(question, loop.now() + 5s)) == Manager::Verdict::queued);
  const Remote us{lockd.address(), "us", Transport::tcp};
  nlm_testargs<std::uint32_t> given;
  given.exclusive = true;
  given.alock = asked.back().alock;
  auto message = loop.run(call<NLM_GRANTED_MSG<kVersion>>(loop, us, {}, given, loop.now() + 5s));
  REQUIRE(ok(message));
  CHECK(calls == 1);
  CHECK(turns_until(loop, [&] { return told != 0; }));
  CHECK(told == 1);
  REQUIRE(ok(loop.run(lockd.cancel(question, loop.now() + 5s))));
  CHECK(cancelled.alock.l_offset == 100);
}

TEST_CASE("U5 NLM 4: the server calls whoever waits") {
  RpcPrograms programs;
  async::Loop loop;
  nlm4_lockargs asked;
  nlm4_cancargs cancelled;
  std::optional<nlm_res> told;
  programs.serve<NLM_LOCK<4>>([&](const nlm4_lockargs& args) {
    asked = args;
    nlm_res res;
    res.stat = args.block ? NLM4_BLOCKED : NLM4_DENIED;
    return res;
  });
  programs.serve<NLM_CANCEL<4>>([&](const nlm4_cancargs& args) {
    cancelled = args;
    return nlm_res();
  });
  std::atomic<bool> answered = false;
  programs.serve<NLM_GRANTED_RES<4>>([&](const nlm_res& args) {
    told = args;
    answered = true;
    return xdr::Void();
  });
  LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  options.listens = true;
  options.registers = false;
  Lockd lockd(loop, options);
  int calls = 0;
  Manager::Question question;
  question.file.length = 3;
  question.lock = LockRequest{5, true, {10, 20}};
  CHECK(*loop.run(lockd.lock(question, loop.now() + 5s)) == Manager::Verdict::denied);
  CHECK_FALSE(asked.block);
  question.when_given = [&calls] { ++calls; };
  CHECK(*loop.run(lockd.lock(question, loop.now() + 5s)) == Manager::Verdict::queued);
  CHECK(asked.block);

  const Remote us{lockd.address(), "us", Transport::tcp};
  nlm4_testargs given;
  given.cookie.value = {std::byte{7}};
  given.exclusive = true;
  given.alock = asked.alock;
  const auto grant = [&](const nlm4_testargs& what) {
    auto res = loop.run(call<NLM_GRANTED<4>>(loop, us, {}, what, loop.now() + 5s));
    REQUIRE(ok(res));
    CHECK(res->cookie.value == what.cookie.value);
    return res->stat;
  };
  CHECK(grant(given) == NLM4_GRANTED);
  CHECK(calls == 1);
  auto message = loop.run(call<NLM_GRANTED_MSG<4>>(loop, us, {}, given, loop.now() + 5s));
  REQUIRE(ok(message));
  CHECK(calls == 2);
  REQUIRE(turns_until(loop, [&] { return answered.load(); }));
  CHECK(told->stat == NLM4_GRANTED);
  CHECK(told->cookie.value == given.cookie.value);

  // What nobody here waits for.
  auto other = given;
  other.alock.oh.value = {std::byte{1}};
  CHECK(grant(other) == NLM4_DENIED);
  other = given;
  ++other.alock.svid;
  CHECK(grant(other) == NLM4_DENIED);
  REQUIRE(ok(loop.run(lockd.cancel(question, loop.now() + 5s))));
  CHECK(cancelled.alock.svid == asked.alock.svid);
  CHECK(cancelled.block);
  CHECK(cancelled.exclusive);
  CHECK(grant(given) == NLM4_DENIED);
  CHECK(calls == 2);
}

TEST_CASE("U5 NLM 4: two first locks at once, where the server wants a name that it can look up") {
  std::atomic<int> refused = 0;
  RpcPrograms programs;
  async::Loop loop;
  programs.serve<NLM_LOCK<4>>([&](const nlm4_lockargs& args) {
    nlm_res res;
    if (args.alock.caller_name.value == "host") return res;
    ++refused;
    res.stat = NLM4_DENIED_NOLOCKS;
    return res;
  });
  LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  Lockd lockd(loop, options);
  using Verdict = Manager::Verdict;
  std::vector<Result<Verdict>> done;
  const auto keep_verdict = [](async::Task<Result<Verdict>> task,
                               std::vector<Result<Verdict>>* into) -> async::Task<void> {
    auto verdict = co_await std::move(task);
    into->push_back(std::move(verdict));
  };
  Manager::Question question;
  question.file.length = 3;
  for (const std::uint64_t owner : {5U, 6U}) {
    question.lock = LockRequest{owner, true, {10 * owner, 10}};
    loop.spawn(keep_verdict(lockd.lock(question, loop.now() + 5s), &done));
  }
  REQUIRE(turns_until(loop, [&] { return done.size() == 2; }));
  CHECK(refused == 2);
  for (const auto& verdict : done) {
    REQUIRE(ok(verdict));
    CHECK(*verdict == Verdict::granted);
  }
  // From then on it is the host's name at once.
  question.lock = LockRequest{7, true, {0, 10}};
  CHECK(*loop.run(lockd.lock(question, loop.now() + 5s)) == Verdict::granted);
  CHECK(refused == 2);
}

TEST_CASE("U5 NLM 4: so many answers to a server's calls are under way at once, whoever calls") {
  std::atomic<int> told = 0;
  std::atomic<bool> silent = false;
  RpcPrograms programs;
  async::Loop loop;
  nlm4_lockargs asked;
  programs.serve<NLM_LOCK<4>>([&](const nlm4_lockargs& args) {
    asked = args;
    nlm_res res;
    res.stat = NLM4_BLOCKED;
    return res;
  });
  using Res = NLM_GRANTED_RES<4>;
  programs.serve(Res::program, Res::version, Res::number,
                 [&](xdr::ConstBytes) -> std::optional<RpcPrograms::Octets> {
                   ++told;
                   if (silent) return std::nullopt;
                   return RpcPrograms::Octets();
                 });
  LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  options.call_timeout = 5s;
  options.listens = true;
  options.registers = false;
  Lockd lockd(loop, options);
  Manager::Question question;
  question.file.length = 3;
  question.lock = LockRequest{5, true, {10, 20}};
  question.when_given = [] {};
  REQUIRE(*loop.run(lockd.lock(question, loop.now() + 5s)) == Manager::Verdict::queued);
  const Remote us{lockd.address(), "us", Transport::tcp};
  nlm4_testargs given;
  given.exclusive = true;
  given.alock = asked.alock;
  const auto grant = [&] {
    auto sent = loop.run(call<NLM_GRANTED_MSG<4>>(loop, us, {}, given, loop.now() + 5s));
    REQUIRE(ok(sent));
  };
  const auto rest = [&] { (void)turns_until(loop, [] { return false; }, 100ms); };
  // Those that end give their places back.
  for (int i = 1; i <= 12; ++i) {
    grant();
    CHECK(turns_until(loop, [&] { return told == i; }));
  }
  REQUIRE(told == 12);
  rest();  // until the last one's place is free
  silent = true;
  for (int i = 0; i < 16; ++i) grant();
  (void)turns_until(loop, [&] { return told == 12 + 8; });
  rest();  // for any more than there should be
  CHECK(told > 12);
  CHECK(told <= 12 + 8);
}

TEST_CASE("U5 NLM 4: what comes to whoever listens for a server's calls") {
  int given = 0;
  LockCalls calls(
      [&given](const nlm4_testargs&) {
        ++given;
        return true;
      },
      [](const nlm_res&) {});
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
  CHECK(answer(kNlmProgram, 4, 0, 0) == Refusal::none);
  CHECK(answer(kNlmProgram, 1, 0, 0) == Refusal::none);
  CHECK(answer(kNlmProgram, 2, 0, 0) == Refusal::version);
  CHECK(answer(kNsmProgram, 4, 0, 0) == Refusal::program);
  CHECK(answer(kNlmProgram, 4, 2, 0) == Refusal::procedure);
  constexpr std::size_t kWords = 10;  // cookie, exclusive, caller_name, fh, oh, svid, and two of two words
  CHECK(answer(kNlmProgram, 4, 5, kWords) == Refusal::none);
  CHECK(given == 1);
  CHECK(answer(kNlmProgram, 4, 5, kWords - 1) == Refusal::garbage_args);
  CHECK(answer(kNlmProgram, 4, 5, kWords + 1) == Refusal::garbage_args);
  CHECK(answer(kNlmProgram, 4, 10, 0) == Refusal::garbage_args);
  CHECK(given == 1);
  // Those of NFSv2 have numbers of one word.
  for (const std::uint32_t version : {1U, 3U}) {
    CHECK(answer(kNlmProgram, version, 5, kWords - 2) == Refusal::none);
    CHECK(answer(kNlmProgram, version, 5, kWords) == Refusal::garbage_args);
  }
  CHECK(given == 3);
  xdr::Message reply;
  CHECK_FALSE(calls.answer({}, reply));
}

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
  REQUIRE(turns_until(m.loop, [&m] { return m.unlocking.load(); }));
  CHECK(m.grant(lockd, given) == NLM4_GRANTED);
  m.holds_unlocks = false;
  REQUIRE(turns_until(m.loop, [&done] { return done->has_value(); }));
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
