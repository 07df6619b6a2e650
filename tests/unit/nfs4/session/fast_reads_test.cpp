// READs without a coroutine: what they bring, and what becomes of them where something is unusual, so that the session's
// call loop adopts them (nfs4/session/fast_reads.h; RFC 8881 2.10.6, conformance rows S1 to S3, S8, S13,
// T28, U14).
#include <algorithm>
#include <cerrno>
#include <deque>
#include <vector>

#include "support/engine_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// One READ, as its owner has it.
class Asked final : public engine::FastRead {
 public:
  explicit Asked(std::size_t size, std::uint64_t from = 0) : buffer(size, '?') {
    data = room(buffer);
    offset = from;
  }
  ~Asked() override { drop(); }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  std::string buffer;
  std::optional<std::size_t> count;
  std::optional<async::Task<Result<std::size_t>>> rest;

 private:
  void ended(std::size_t got) override { count = got; }
  void goes_on(async::Task<Result<std::size_t>> task) override { rest.emplace(std::move(task)); }
};

std::string calls_of_reads(const NfsServer& server) {
  std::string out;
  for (const SeenCall& call : server.calls()) {
    if (!call.has(OP_READ)) continue;
    out += std::to_string(call.sequence.sa_slotid) + ":" + std::to_string(call.sequence.sa_sequenceid) + " ";
  }
  return out;
}

struct Quick : Scene {
  OpenRef file;
  EngineClient& begin(const std::string& content = "0123456789") {
    server.add_file("/f", content);
    EngineClient& c = connect();
    file = open("f");
    server.clear_calls();
    return c;
  }
  ~Quick() {
    if (file) close(file);
  }
  Quick() = default;
  Quick(const Quick&) = delete;
  Quick& operator=(const Quick&) = delete;

  bool start(Asked& one) {
    const bool begun = file->start(one);
    client->loop.end_turn();
    return begun;
  }
  /// Until it has ended or goes on.
  void settle(Asked& one, std::chrono::milliseconds most = 8s) {
    REQUIRE(client->turn_until([&] { return one.count || one.rest; }, most));
  }
  /// What it comes to, whichever way.
  Result<std::size_t> end_of(Asked& one) {
    settle(one);
    if (one.count) return *one.count;
    return client->run(std::move(*one.rest));
  }
};

}  // namespace

TEST_CASE("fast reads: bytes, the end of the file, and many at once") {
  Quick m;
  EngineClient& c = m.begin();
  Asked whole(10), beyond(10, 4), behind(10, 100);
  REQUIRE(m.start(whole));
  REQUIRE(m.start(beyond));
  REQUIRE(m.start(behind));
  CHECK(c.session.holdings().slots_busy == 3);
  for (Asked* one : {&whole, &beyond, &behind}) {
    m.settle(*one);
    CHECK_FALSE(one->is_under_way());
    REQUIRE(one->count);
  }
  CHECK(whole.buffer == "0123456789");
  CHECK(*whole.count == 10);
  CHECK(*beyond.count == 6);
  CHECK(beyond.buffer == "456789????");
  CHECK(*behind.count == 0);
  CHECK(c.session.holdings().slots_busy == 0);
  CHECK(c.session.holdings().slots_retired == 0);
  CHECK(calls_of_reads(m.server) ==
        "0:" + std::to_string(m.server.calls()[0].sequence.sa_sequenceid) + " 1:1 2:1 ");
  // The same again, in slots that were used before.
  whole.count.reset();
  REQUIRE(m.start(whole));
  CHECK(*m.end_of(whole) == 10);
  CHECK(c.session.counters().calls.size() != 0);
}

TEST_CASE("fast reads: large ones are placed by the server, and what is more than a READ takes is refused") {
  Quick m;
  EngineClient& c = m.begin(pattern(300000));
  Asked large(200000, 1000);
  REQUIRE(m.start(large));
  CHECK(*m.end_of(large) == 200000);
  CHECK(large.count);
  CHECK(large.buffer == pattern(300000).substr(1000, 200000));
  CHECK(c.channel.facts().bytes_placed >= 200000);
  Asked nothing(0), too_much(c.session.most_read() + 1);
  CHECK_FALSE(m.start(nothing));
  CHECK_FALSE(m.start(too_much));
}

TEST_CASE("fast reads: without a free slot they wait for one, first come, first served") {
  Quick m;
  m.server.set_slots(2);
  EngineClient& c = m.begin();
  m.server.hold(OP_READ);
  std::deque<Asked> all;
  for (std::uint64_t from = 0; from < 6; ++from) {
    all.emplace_back(4, from);
    REQUIRE(m.start(all.back()));
    CHECK(all.back().is_under_way());
  }
  // One that comes by the ordinary way waits behind them.
  auto attributes = m.file->attributes();
  c.start(attributes);
  REQUIRE(c.turn_until([&] { return m.server.held() == 2; }));
  CHECK(m.server.count(OP_READ) == 2);
  CHECK(c.session.holdings().slots_busy == 2);
  m.server.release();
  REQUIRE(c.turn_until([&] { return attributes.done(); }));
  CHECK(ok(attributes.await_resume()));
  for (std::uint64_t from = 0; from < 6; ++from) {
    REQUIRE(all[from].count);
    CHECK(all[from].buffer == std::string("0123456789").substr(from, 4));
  }
  std::vector<bool> is_read;
  for (const SeenCall& call : m.server.calls()) is_read.push_back(call.has(OP_READ));
  CHECK(is_read == std::vector<bool>{true, true, true, true, true, true, false});
  CHECK(c.session.counters().slot_waits == 5);
  CHECK(c.session.holdings().slots_busy == 0);
  CHECK(c.session.holdings().slots_retired == 0);
}

TEST_CASE("fast reads: one that is dropped while it waits for a slot is never sent") {
  Quick m;
  m.server.set_slots(1);
  EngineClient& c = m.begin();
  m.server.hold(OP_READ);
  Asked first(4), dropped(4), last(4);
  for (Asked* one : {&first, &dropped, &last}) REQUIRE(m.start(*one));
  dropped.drop();
  CHECK_FALSE(dropped.is_under_way());
  m.server.release();
  CHECK(*m.end_of(first) == 4);
  CHECK(*m.end_of(last) == 4);
  CHECK_FALSE(dropped.count);
  CHECK(m.server.count(OP_READ) == 2);
  CHECK(c.session.holdings().slots_retired == 0);
}

TEST_CASE(
    "fast reads: one that waits for a slot until its deadline says so, and is no question to the server") {
  Quick m;
  m.server.set_slots(1);
  EngineClient& c = m.begin();
  m.server.hold(OP_READ);
  Asked first(4), second(4);
  REQUIRE(m.start(first));
  c.turn_for(100ms);
  REQUIRE(m.start(second));
  const async::TimePoint begun = c.loop.now();
  REQUIRE(c.turn_until([&] { return second.count || second.rest; }));
  REQUIRE(second.rest);
  const auto got = c.run(std::move(*second.rest));
  CHECK(errno_of(got) == ETIMEDOUT);
  CHECK(got.error().text().contains("no session slot came free in time"));
  CHECK(c.loop.now() - begun < 6s);     // the timeout is 5 s: it has not begun again in the call loop
  CHECK(m.server.count(OP_READ) <= 2);  // the first one, and again on a new connection
  m.server.release();
}

TEST_CASE("S10 fast reads: those that wait for a slot when the session is lost read in the new one") {
  Quick m;
  m.server.set_slots(1);
  EngineClient& c = m.begin();
  m.server.forget_sessions();
  std::deque<Asked> all;
  for (std::uint64_t from = 0; from < 3; ++from) {
    all.emplace_back(4, from);
    REQUIRE(m.start(all.back()));
  }
  std::deque<async::Task<Result<std::size_t>>> rests;
  const auto ended = [](const auto& one) { return one.count.has_value(); };
  const auto done = [](const auto& rest) { return rest.done(); };
  REQUIRE(c.turn_until([&] {
    for (Asked& one : all) {
      if (!one.rest) continue;
      c.start(rests.emplace_back(std::move(*one.rest)));
      one.rest.reset();
    }
    return std::ranges::count_if(all, ended) + std::ranges::count_if(rests, done) == 3;
  }));
  CHECK(rests.size() >= 2);  // the first is refused, and one gets its slot while the recovery is under way
  for (auto& rest : rests) CHECK(*rest.await_resume() == 4);
  for (std::uint64_t from = 0; from < 3; ++from)
    CHECK(all[from].buffer == std::string("0123456789").substr(from, 4));
  CHECK(m.server.count(OP_CREATE_SESSION) == 1);
  CHECK(c.session.holdings().slots_busy == 0);
}

TEST_CASE("fast reads: CLOSE waits for one that waits for a slot") {
  Quick m;
  m.server.set_slots(1);
  EngineClient& c = m.begin();
  m.server.hold(OP_READ);
  Asked first(4), second(4, 4);
  REQUIRE(m.start(first));
  REQUIRE(m.start(second));
  auto closing = c.files.close(std::move(m.file));
  c.start(closing);
  c.turn_for(50ms);
  CHECK(m.server.count(OP_CLOSE) == 0);
  m.server.release();
  REQUIRE(c.turn_until([&] { return closing.done(); }));
  CHECK(ok(closing.await_resume()));
  CHECK(second.count);
  CHECK(second.buffer == "4567");
}

TEST_CASE("S1 fast reads: SEQUENCE says DELAY: the same request again, in its slot") {
  Quick m;
  EngineClient& c = m.begin();
  m.server.answer(OP_SEQUENCE, NFS4ERR_DELAY);
  Asked one(10);
  REQUIRE(m.start(one));
  m.settle(one);
  REQUIRE(one.rest);
  CHECK(c.session.holdings().slots_busy == 1);  // the slot is not free
  CHECK(*m.end_of(one) == 10);
  CHECK(one.buffer == "0123456789");
  const auto calls = m.server.calls();
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].sequence.sa_slotid == calls[1].sequence.sa_slotid);
  CHECK(calls[0].sequence.sa_sequenceid == calls[1].sequence.sa_sequenceid);
  CHECK(c.session.holdings().slots_busy == 0);
  CHECK(c.session.holdings().slots_retired == 0);
}

TEST_CASE("S3 fast reads: each refusal of SEQUENCE has the reaction that it has in the call loop") {
  for (const nfsstat4 status : {NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY, NFS4ERR_BAD_HIGH_SLOT,
                                NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_CONN_NOT_BOUND_TO_SESSION}) {
    CAPTURE(status);
    Quick m;
    m.begin();
    m.server.answer(OP_SEQUENCE, status);
    Asked one(10);
    REQUIRE(m.start(one));
    CHECK(*m.end_of(one) == 10);
    CHECK(one.buffer == "0123456789");
  }
}

TEST_CASE("fast reads: READ says DELAY, GRACE, or that the stateid is gone") {
  for (const nfsstat4 status : {NFS4ERR_DELAY, NFS4ERR_GRACE, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID}) {
    CAPTURE(status);
    Quick m;
    m.begin();
    m.server.answer(OP_READ, status);
    Asked one(10);
    REQUIRE(m.start(one));
    CHECK(*m.end_of(one) == 10);
    CHECK(m.server.count(OP_READ) == 2);
  }
  Quick m;
  m.begin();
  m.server.answer(OP_READ, NFS4ERR_IO);
  Asked one(10);
  REQUIRE(m.start(one));
  CHECK(errno_of(m.end_of(one)) == EIO);
}

TEST_CASE("fast reads: fewer bytes than asked for, and no end of the file: the rest is asked for") {
  Quick m;
  m.begin();
  m.server.set_short_reads(3);
  Asked one(10);
  REQUIRE(m.start(one));
  CHECK(*m.end_of(one) == 10);
  CHECK(one.buffer == "0123456789");
  CHECK(m.server.count(OP_READ) == 4);
}

TEST_CASE("S1 fast reads: a connection that ends under one") {
  for (const bool executed : {false, true}) {
    CAPTURE(executed);
    Quick m;
    EngineClient& c = m.begin();
    if (executed)
      m.server.drop_after(OP_READ);
    else
      m.server.drop_before(OP_READ);
    Asked one(10);
    REQUIRE(m.start(one));
    CHECK(*m.end_of(one) == 10);
    CHECK(one.buffer == "0123456789");
    CHECK(c.session.holdings().slots_retired == 0);
  }
}

TEST_CASE("S10 fast reads: sessions that are lost, stateids that are lost, a restart") {
  for (int fault = 0; fault < 3; ++fault) {
    CAPTURE(fault);
    Quick m;
    m.begin();
    if (fault == 0) m.server.forget_sessions();
    if (fault == 1) m.server.forget_stateids();
    if (fault == 2) m.server.restart();
    Asked first(10), second(5, 5);
    REQUIRE(m.start(first));
    REQUIRE(m.start(second));
    m.settle(first);
    m.settle(second);
    // Both tasks at once: neither ends before the session is there again.
    std::deque<async::Task<Result<std::size_t>>> rests;
    for (Asked* one : {&first, &second}) {
      if (one->rest) m.client->start(rests.emplace_back(std::move(*one->rest)));
    }
    for (auto& rest : rests) {
      REQUIRE(m.client->turn_until([&] { return rest.done(); }));
      CHECK(ok(rest.await_resume()));
    }
    CHECK(first.buffer == "0123456789");
    CHECK(second.buffer == "56789");
  }
}

TEST_CASE("S2 U14 fast reads: an answer that is none retires the slot, and the caller hears of it") {
  for (const bool garbage : {false, true}) {
    CAPTURE(garbage);
    Quick m;
    EngineClient& c = m.begin();
    if (garbage)
      m.server.garbage_args(OP_READ);
    else
      m.server.err_chunk(OP_READ);
    Asked one(10);
    REQUIRE(m.start(one));
    CHECK_FALSE(m.end_of(one));
    CHECK(c.session.holdings().slots_busy == 0);
    CHECK(c.session.holdings().slots_retired == 1);
  }
}

TEST_CASE(
    "S2 fast reads: one that nobody answers ends at its deadline, and its slot is nobody's until it is "
    "answered") {
  Quick m;
  EngineClient& c = m.begin();
  m.server.hold(OP_READ);
  Asked one(10);
  REQUIRE(m.start(one));
  const auto got = m.end_of(one);
  CHECK(errno_of(got) == ETIMEDOUT);
  CHECK(c.session.holdings().slots_retired == 1);
  m.server.release();
  CHECK(c.turn_until([&] { return c.session.holdings().slots_retired == 0; }));
  CHECK(one.buffer == "??????????");
}

TEST_CASE(
    "T28 S2 fast reads: one that is dropped: its memory is out of reach at once, its slot when it is "
    "answered") {
  Quick m;
  EngineClient& c = m.begin(pattern(100000));
  m.server.hold(OP_READ);
  Asked one(100000);
  REQUIRE(m.start(one));
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  one.drop();
  CHECK_FALSE(one.is_under_way());
  one.buffer.assign(100000, '!');
  CHECK(c.session.holdings().slots_retired == 1);
  m.server.release();
  CHECK(c.turn_until([&] { return c.session.holdings().slots_retired == 0; }));
  CHECK(one.buffer == std::string(100000, '!'));
  CHECK_FALSE(one.count);
  CHECK(c.session.holdings().slots_busy == 0);
  Asked next(10);
  REQUIRE(m.start(next));
  CHECK(*m.end_of(next) == 10);
}

TEST_CASE("fast reads: one that has gone on is dropped with its task") {
  Quick m;
  EngineClient& c = m.begin();
  m.server.answer(OP_SEQUENCE, NFS4ERR_DELAY);
  Asked one(10);
  REQUIRE(m.start(one));
  m.settle(one);
  REQUIRE(one.rest);
  one.rest.reset();  // it was never run
  CHECK(c.session.holdings().slots_busy == 0);
  CHECK(c.session.holdings().slots_retired == 1);
}

TEST_CASE("fast reads: CLOSE waits for them") {
  Quick m;
  EngineClient& c = m.begin();
  m.server.hold(OP_READ);
  Asked one(10);
  REQUIRE(m.start(one));
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  const auto keep = m.file.file();
  auto closing = c.files.close(std::move(m.file));
  c.start(closing);
  c.turn_for(100ms);
  CHECK(m.server.count(OP_CLOSE) == 0);
  m.server.release();
  REQUIRE(c.turn_until([&] { return closing.done(); }));
  CHECK(ok(closing.await_resume()));
  CHECK(one.count);
  CHECK(m.server.count(OP_CLOSE) == 1);
  CHECK_FALSE(keep->start(one));  // it is closed
}

TEST_CASE("S9 fast reads: what SEQUENCE says beside counts for them, too") {
  Quick m;
  EngineClient& c = m.begin();
  m.server.set_sequence_flags(SEQ4_STATUS_RESTART_RECLAIM_NEEDED, 1);
  const std::uint64_t before = c.session.epoch();
  Asked one(10);
  REQUIRE(m.start(one));
  CHECK(*m.end_of(one) == 10);
  CHECK(c.turn_until([&] { return c.session.epoch() != before; }));
  m.server.set_target_highest_slot(0);
  Asked other(10);
  REQUIRE(c.turn_until([&] { return m.start(other); }));
  CHECK(*m.end_of(other) == 10);
  Asked first(4), second(4);
  m.server.hold(OP_READ);
  REQUIRE(m.start(first));
  REQUIRE(m.start(second));
  c.turn_for(50ms);
  CHECK(m.server.held() == 1);  // the server wishes slot 0 alone to be used
  m.server.release();
  CHECK(*m.end_of(first) == 4);
  CHECK(*m.end_of(second) == 4);
}

TEST_CASE("fast reads: not while the session is recovered, and not by a version without sessions") {
  Quick m;
  EngineClient& c = m.begin();
  m.server.forget_sessions();
  m.server.hold(OP_CREATE_SESSION);
  Asked one(10), late(10);
  REQUIRE(m.start(one));
  m.settle(one);
  REQUIRE(one.rest);
  auto rest = std::move(*one.rest);
  c.start(rest);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  CHECK_FALSE(m.start(late));
  m.server.release();
  REQUIRE(c.turn_until([&] { return rest.done(); }));
  CHECK(*rest.await_resume() == 10);
  CHECK(m.start(late));
  CHECK(*m.end_of(late) == 10);
}

TEST_CASE("S10 fast reads: one that goes on while a session that works is replaced is not waited for") {
  Quick m;
  EngineClient& c = m.begin();
  m.server.set_short_reads(3);
  m.server.hold(OP_READ);
  Asked one(10);
  REQUIRE(m.start(one));
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  // The next session waits until nothing is under way in this one.
  CallLayer& calls = c.session;
  calls.start_recovery("a new one is wanted", true);
  m.server.release();
  m.settle(one);
  REQUIRE(one.rest);
  const auto begun = c.loop.now();
  const auto count = m.end_of(one);
  REQUIRE(ok(count));
  CHECK(*count == 10);
  CHECK(c.loop.now() - begun < 1s);
  CHECK(one.buffer == "0123456789");
  CHECK(m.server.count(OP_CREATE_SESSION) == 1);
}

TEST_CASE("fast reads: awaited, they read by the ordinary way where there is no other") {
  Quick m;
  m.server.set_slots(1);
  EngineClient& c = m.begin();
  std::string buffer(4, '?');
  const auto read = [&](std::uint64_t from) -> async::Task<Result<std::size_t>> {
    auto fast = co_await engine::FastReadWait(*m.file.file(), room(buffer), from);
    if (!fast.rest) co_return fast.count;
    co_return co_await std::move(*fast.rest);
  };
  CHECK(*c.run(read(2)) == 4);
  CHECK(buffer == "2345");
  m.server.hold(OP_READ);
  Asked blocks(4);
  REQUIRE(m.start(blocks));
  auto second = read(6);
  c.start(second);
  m.server.release();
  REQUIRE(c.turn_until([&] { return second.done(); }));
  CHECK(*second.await_resume() == 4);
  CHECK(buffer == "6789");
  CHECK(*m.end_of(blocks) == 4);
  // Destroyed while it waits.
  m.server.hold(OP_READ);
  {
    auto third = read(0);
    c.start(third);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  }
  m.server.release();
  CHECK(c.session.holdings().slots_busy == 0);
}

}  // namespace nfsrdma
