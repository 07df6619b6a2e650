// What becomes of a request whose answer does not come as it should: its slot, and whether the server
// executes it twice (RFC 8881 2.10.6, 18.36.4, 18.46; conformance rows S1 to S5, S8, S10).
#include <array>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "nfs4/compound/slot_table.h"
#include "nfs4/session/create_sequence.h"
#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// The calls with `op`, as the server saw them.
std::vector<SeenCall> calls_with(const NfsServer& server, nfs_opnum4 op) {
  std::vector<SeenCall> out;
  for (const SeenCall& call : server.calls()) {
    if (call.has(op)) out.push_back(call);
  }
  return out;
}

/// Makes a directory while the server answers the first SEQUENCE so: both tries, as the server saw them.
std::vector<SeenCall> tries_behind(Scene& m, nfsstat4 status) {
  EngineClient& c = m.connect();
  m.server.clear_calls();
  m.server.answer(OP_SEQUENCE, status);
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "a", 0755))));
  auto calls = calls_with(m.server, OP_CREATE);
  REQUIRE(calls.size() == 2);
  return calls;
}

bool same_place(const SeenCall& a, const SeenCall& b) {
  return a.sequence.sa_slotid == b.sequence.sa_slotid &&
         a.sequence.sa_sequenceid == b.sequence.sa_sequenceid &&
         a.sequence.sa_sessionid == b.sequence.sa_sessionid;
}

/// Of a task that was started.
template <class T>
Result<T> end_of(EngineClient& c, async::Task<Result<T>>& task) {
  REQUIRE(c.turn_until([&] { return task.done(); }, 10s));
  return task.await_resume();
}

}  // namespace

// ---- the slot table ----

TEST_CASE("S2 slots: what is used up, what is still to be used, and what is nobody's any more") {
  SlotTable table;
  table.reset(2);
  auto first = table.take();
  auto second = table.take();
  REQUIRE((first && second));
  CHECK(first->slot() == 0);
  CHECK(first->sequence() == 1);
  CHECK_FALSE(table.take());
  CHECK(table.highest_busy() == 1);
  first->answered();
  second->unsent();
  CHECK(table.highest_busy() == 0);
  first = table.take();
  second = table.take();
  CHECK(first->sequence() == 2);
  CHECK(second->sequence() == 1);
  second.reset();  // without a word
  CHECK(table.retired() == 1);
  CHECK_FALSE(table.take());
  CHECK_FALSE(table.is_spent());
  first->retire();
  CHECK(table.is_spent());
  table.reset(2);
  CHECK(table.retired() == 0);
  CHECK(table.take()->sequence() == 1);
}

TEST_CASE(
    "S2 slots: who asks what became of an unanswered request gives its slot back, or retires it for good") {
  SlotTable table;
  table.reset(1);
  bool will_ask = true;
  int unanswered = 0, spent = 0, freed = 0;
  table.on_unanswered = [&](std::uint32_t slot) {
    CHECK(slot == 0);
    ++unanswered;
    return will_ask;
  };
  table.on_spent = [&] { ++spent; };
  table.on_free = [&] { ++freed; };
  const std::uint64_t generation = table.generation();
  CHECK_FALSE(table.ask_again(0, generation));  // nothing is unanswered
  table.take().reset();
  CHECK(unanswered == 1);
  CHECK(table.retired() == 1);
  CHECK_FALSE(table.is_spent());
  CHECK_FALSE(table.take());
  SUBCASE("the session was replaced") {
    table.reset(1);
    CHECK_FALSE(table.ask_again(0, generation));
    CHECK_FALSE(table.take()->is_question());
    return;
  }
  auto question = table.ask_again(0, generation);
  REQUIRE(question);
  CHECK(question->is_question());
  CHECK(question->sequence() == 1);
  CHECK(table.busy() == 1);
  CHECK_FALSE(table.ask_again(0, generation));
  SUBCASE("the server has answered") {
    question->answered();
    CHECK(freed == 1);
    CHECK(table.retired() == 0);
    auto next = table.take();
    REQUIRE(next);
    CHECK(next->sequence() == 2);
    CHECK_FALSE(next->is_question());
    will_ask = false;
    next.reset();
    CHECK(unanswered == 2);
    CHECK(spent == 1);
    return;
  }
  SUBCASE("it was not sent") {
    question->unsent();
  }
  SUBCASE("it has no answer either") {
    question.reset();
  }
  SUBCASE("its answer is of no use") {
    question->retire();
  }
  CHECK(unanswered == 1);  // nobody asks about a question
  CHECK(table.busy() == 0);
  CHECK(table.retired() == 1);
  CHECK(table.is_spent());
  CHECK(spent == 1);
  CHECK(freed == 0);
}

TEST_CASE("S2 slots: a use of the session before does nothing to the next") {
  SlotTable table;
  table.reset(1);
  auto old = table.take();
  unsigned ended = 0;
  table.on_left_over_ended = [&] { ++ended; };
  table.reset(1);
  CHECK_FALSE(old->current());
  CHECK(table.left_over() == 1);
  auto now = table.take();
  REQUIRE(now);
  old->answered();
  CHECK(table.left_over() == 0);
  CHECK(ended == 1);
  CHECK_FALSE(table.take());
  CHECK(now->sequence() == 1);
  CHECK(table.highest_busy() == 0);
}

TEST_CASE("S6 slots: the server's wish and the end of its table are heeded") {
  SlotTable table;
  table.reset(4);
  table.set_target(1);
  auto a = table.take();
  auto b = table.take();
  CHECK_FALSE(table.take());
  table.lower_target(0);
  b->answered();
  CHECK_FALSE(table.take());
  table.set_target(9);
  b = table.take();
  CHECK(b->slot() == 1);
  table.cut(2);
  CHECK_FALSE(table.take());
}

TEST_CASE("S6 slots: what is left counts of those that the server lets be used") {
  SlotTable table;
  unsigned spent = 0;
  table.on_spent = [&] { ++spent; };
  table.reset(8);
  auto first = table.take();
  auto second = table.take();
  first->retire();
  CHECK(spent == 0);
  SUBCASE("it lowers its target") {
    table.set_target(1);
    CHECK(spent == 0);
    table.set_target(0);
    CHECK(spent == 1);
  }
  SUBCASE("it calls slots back") {
    table.lower_target(0);
    CHECK(spent == 1);
    table.lower_target(7);
    CHECK(spent == 1);
  }
  SUBCASE("its table is shorter") {
    table.cut(1);
    CHECK(spent == 1);
  }
  SUBCASE("one more is retired") {
    table.set_target(1);
    second->retire();
    CHECK(spent == 1);
  }
  CHECK(table.is_spent());
  table.reset(8);
  CHECK_FALSE(table.is_spent());
}

TEST_CASE("S2 slots: a fuzz, against what may never happen") {
  std::mt19937 chance(7);
  SlotTable table;
  table.reset(8);
  std::vector<SlotTable::Use> uses;
  std::vector<std::uint32_t> next(8, 1);
  std::set<std::uint32_t> busy, retired;
  for (int i = 0; i < 20'000; ++i) {
    const auto what = chance() % 10;
    if (what < 5) {
      auto use = table.take();
      const bool free = busy.size() + retired.size() < 8;
      REQUIRE(use.has_value() == free);
      if (!use) continue;
      REQUIRE(!busy.contains(use->slot()));
      REQUIRE(!retired.contains(use->slot()));
      REQUIRE(use->sequence() == next[use->slot()]);
      busy.insert(use->slot());
      uses.push_back(std::move(*use));
    } else if (!uses.empty()) {
      const auto at = uses.begin() + static_cast<std::ptrdiff_t>(chance() % uses.size());
      const std::uint32_t slot = at->slot();
      busy.erase(slot);
      if (what == 9 && chance() % 8 == 0) {
        at->retire();
        retired.insert(slot);
      } else if (what == 8) {
        at->unsent();
      } else {
        at->answered();
        ++next[slot];
      }
      uses.erase(at);
    }
    REQUIRE(table.busy() == busy.size());
    REQUIRE(table.retired() == retired.size());
    REQUIRE(table.highest_busy() == (busy.empty() ? 0 : *busy.rbegin()));
    if (retired.size() == 8) {
      table.reset(8);
      next.assign(8, 1);
      retired.clear();
    }
  }
}

// ---- csa_sequence ----

TEST_CASE("S5 csa_sequence advances with every answer, and is what EXCHANGE_ID told") {
  CreateSequence one;
  one.told(7, false);
  CHECK(one.next() == 7);
  one.answered(NFS4ERR_RESOURCE);
  CHECK(one.next() == 8);
  one.answered(NFS4_OK);
  CHECK(one.next() == 9);
  one.told(3, true);  // need not mean anything
  CHECK(one.next() == 9);
  one.answered(NFS4ERR_STALE_CLIENTID);
  CHECK(one.next() == 9);
  one.told(1, false);
  CHECK(one.next() == 1);
}

TEST_CASE("S5 csa_sequence finds what any server expects") {
  // What of its answers the server counts.
  for (const bool counts_failures : {true, false}) {
    for (const bool counts_delay : {true, false}) {
      for (const bool hints : {true, false}) {
        CAPTURE(counts_failures);
        CAPTURE(counts_delay);
        CAPTURE(hints);
        sequenceid4 expected = 5;
        CreateSequence one;
        one.told(5, false);
        nfsstat4 cached = NFS4_OK;
        std::vector<nfsstat4> faults{NFS4ERR_DELAY, NFS4ERR_RESOURCE, NFS4ERR_DELAY,
                                     NFS4ERR_DELAY, NFS4ERR_DELAY,    NFS4ERR_SERVERFAULT};
        int tries = 0;
        for (;; ++tries) {
          REQUIRE(tries < 60);
          nfsstat4 said = NFS4_OK;
          if (one.next() == expected) {
            if (!faults.empty()) {
              said = faults.front();
              faults.erase(faults.begin());
            }
            const bool counts = said == NFS4_OK || (said == NFS4ERR_DELAY ? counts_delay : counts_failures);
            if (counts) {
              ++expected;
              cached = said;
            }
          } else if (one.next() + 1 == expected) {
            said = cached;  // a replay
          } else {
            said = NFS4ERR_SEQ_MISORDERED;
          }
          one.answered(said);
          if (said == NFS4_OK && faults.empty()) break;
          if (one.is_hopeless()) {
            // Another instance of the client: a new client id.
            expected = 1;
            one = CreateSequence();
            one.told(1, false);
          } else if (said != NFS4ERR_DELAY) {
            one.told(hints ? expected : 99, true);
          }
        }
      }
    }
  }
}

TEST_CASE(
    "S5 csa_sequence is not given up while a server fails for long, whether it counts its failures or not") {
  for (const bool counts : {true, false}) {
    for (const bool hints : {true, false}) {
      CAPTURE(counts);
      CAPTURE(hints);
      sequenceid4 expected = 5;
      CreateSequence one;
      one.told(5, false);
      for (int failures = 0; failures < 20;) {
        const sequenceid4 used = one.next();
        const bool known = used == expected;
        failures += known ? 1 : 0;
        expected += known && counts ? 1 : 0;
        one.answered(known ? NFS4ERR_SERVERFAULT : NFS4ERR_SEQ_MISORDERED);
        REQUIRE_FALSE(one.is_hopeless());
        if (known || one.next() == used) one.told(hints ? expected : 99, true);
      }
      if (one.next() != expected) one.answered(NFS4ERR_SEQ_MISORDERED);
      CHECK(one.next() == expected);
    }
  }
}

// ---- slots, over a connection ----

TEST_CASE("S1 DELAY at SEQUENCE frees nothing: the request is sent again in its own slot") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.clear_calls();
  m.server.answer(OP_SEQUENCE, NFS4ERR_DELAY, 3);
  auto first = c.engine.make_directory(nullptr, c.root, "a", 0755);
  c.start(first);
  CHECK(c.turn_until([&] { return m.server.count(OP_SEQUENCE) == 1; }));
  auto second = c.engine.make_directory(nullptr, c.root, "b", 0755);
  c.start(second);
  CHECK(ok(end_of(c, first)));
  CHECK(ok(end_of(c, second)));
  const auto calls = calls_with(m.server, OP_CREATE);
  REQUIRE(calls.size() == 5);
  std::map<std::uint32_t, std::set<std::uint32_t>> sequences;
  for (const SeenCall& call : calls) sequences[call.sequence.sa_slotid].insert(call.sequence.sa_sequenceid);
  CHECK(sequences.size() == 2);
  for (const auto& [slot, ids] : sequences) CHECK(ids.size() == 1);
  CHECK(m.server.succeeded(OP_CREATE) == 2);
  CHECK(m.server.count(OP_CREATE_SESSION) == 0);
}

TEST_CASE("S2 a deadline that passes leaves the slot to nobody while the request's fate is not known") {
  Scene m;
  SessionOptions impatient;
  impatient.timeout = 300ms;
  EngineClient& c = m.client.emplace(m.server, "engine", impatient);
  m.server.clear_calls();
  m.server.hold(OP_CREATE, false);
  auto made = c.run(c.engine.make_directory(nullptr, c.root, "a", 0755));
  REQUIRE_FALSE(made);
  CHECK(made.error().kind() == ErrorKind::unknown_outcome);
  CHECK(made.error().errno_value() == ETIMEDOUT);
  CHECK(m.server.held() == 1);
  m.server.hold(OP_ILLEGAL, true);
  m.server.release();
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "b", 0755))));
  const auto calls = calls_with(m.server, OP_CREATE);
  REQUIRE(calls.size() >= 2);
  CHECK(calls.front().sequence.sa_slotid != calls.back().sequence.sa_slotid);
  CHECK(ok(c.run(c.engine.remove(nullptr, c.root, "a", Engine::Removed::file))));
}

TEST_CASE("S2 DELAY up to the deadline leaves the slot to nobody where the request had been sent before") {
  for (const bool sent_before : {false, true}) {
    CAPTURE(sent_before);
    Scene m;
    SessionOptions impatient;
    impatient.timeout = 1s;
    EngineClient& c = m.client.emplace(m.server, "engine", impatient);
    m.server.clear_calls();
    if (sent_before) m.server.drop_after(OP_CREATE);
    m.server.answer(OP_SEQUENCE, NFS4ERR_DELAY, 1000, sent_before ? 1 : 0);
    auto made = c.run(c.engine.make_directory(nullptr, c.root, "a", 0755));
    REQUIRE_FALSE(made);
    CHECK(calls_with(m.server, OP_CREATE).size() > 2);
    CHECK((made.error().kind() == ErrorKind::unknown_outcome) == sent_before);
    CHECK(c.session.holdings().slots_retired == (sent_before ? 1 : 0));
    m.server.on_server([](Responder& responder) { responder.state.rules.clear(); });
    const auto before = calls_with(m.server, OP_CREATE).back();
    (void)c.run(c.engine.make_directory(nullptr, c.root, "b", 0755));
    const auto after = calls_with(m.server, OP_CREATE).back();
    CHECK((before.sequence.sa_slotid == after.sequence.sa_slotid) != sent_before);
  }
}

TEST_CASE(
    "S2 what was only ever refused at SEQUENCE was not executed: an error of the server's, and a free slot") {
  Scene m;
  SessionOptions impatient;
  impatient.timeout = 300ms;
  EngineClient& c = m.client.emplace(m.server, "engine", impatient);
  m.server.clear_calls();
  m.server.answer(OP_SEQUENCE, NFS4ERR_DELAY, 1000);
  const auto made = c.run(c.engine.make_directory(nullptr, c.root, "a", 0755));
  REQUIRE_FALSE(made);
  CHECK(made.error().kind() == ErrorKind::server);
  CHECK(made.error().status() == NFS4ERR_DELAY);
  m.server.on_server([](Responder& responder) { responder.state.rules.clear(); });
  CHECK(c.session.holdings().slots_retired == 0);
  CHECK(c.session.holdings().slots_busy == 0);
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "b", 0755))));
  const auto calls = calls_with(m.server, OP_CREATE);
  REQUIRE(calls.size() > 1);
  CHECK(calls.front().sequence.sa_slotid == calls.back().sequence.sa_slotid);
  CHECK(calls.front().sequence.sa_sequenceid == calls.back().sequence.sa_sequenceid);
}

TEST_CASE("S3 a slot that the server knows otherwise is left alone, and the session goes on") {
  for (const nfsstat4 status : {NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY, NFS4ERR_BAD_HIGH_SLOT}) {
    CAPTURE(static_cast<unsigned>(status));
    Scene m;
    const auto calls = tries_behind(m, status);
    const bool moved = status != NFS4ERR_BAD_HIGH_SLOT;
    CHECK((calls[0].sequence.sa_slotid != calls[1].sequence.sa_slotid) == moved);
    CHECK(m.server.succeeded(OP_CREATE) == 1);
    CHECK(m.server.count(OP_CREATE_SESSION) == 0);
  }
}

TEST_CASE("S3 BADSLOT: the slots from there on are not used any more") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.hold(OP_GETATTR);  // keeps slot 0
  auto waiting = c.engine.attributes(nullptr, c.root);
  c.start(waiting);
  CHECK(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.clear_calls();
  m.server.answer(OP_SEQUENCE, NFS4ERR_BADSLOT);
  auto made = c.engine.make_directory(nullptr, c.root, "a", 0755);
  c.start(made);
  CHECK(c.turn_until([&] { return m.server.count(OP_SEQUENCE) == 1; }));
  m.server.release();
  CHECK(ok(end_of(c, waiting)));
  CHECK(ok(end_of(c, made)));
  const auto calls = calls_with(m.server, OP_CREATE);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].sequence.sa_slotid == 1);
  CHECK(calls[1].sequence.sa_slotid == 0);
  CHECK(m.server.count(OP_CREATE_SESSION) == 0);
}

TEST_CASE("S3 BAD_HIGH_SLOT for a request that names no higher slot than its own: there is a new session") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.clear_calls();
  m.server.answer(OP_SEQUENCE, NFS4ERR_BAD_HIGH_SLOT, 2);
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "a", 0755))));
  CHECK(m.server.count(OP_CREATE_SESSION) == 1);
  CHECK(m.server.succeeded(OP_CREATE) == 1);
  CHECK(m.server.sessions() == 1);
  const auto calls = calls_with(m.server, OP_CREATE);
  REQUIRE(calls.size() == 3);
  CHECK(calls[1].sequence.sa_highest_slotid == calls[1].sequence.sa_slotid);
  CHECK(calls[2].sequence.sa_sessionid != calls[1].sequence.sa_sessionid);
}

TEST_CASE("S3 RETRY_UNCACHED_REP: a modifying COMPOUND is not executed a second time without a look") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.add_directory("/there");
  // The server says that it was executed; the name says that it was not.
  m.server.answer(OP_PUTFH, NFS4ERR_RETRY_UNCACHED_REP);
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "a", 0755))));
  CHECK(m.server.succeeded(OP_CREATE) == 1);
  CHECK(m.server.count(OP_LOOKUP) == 1);
  // And here that it was: not again.
  m.server.answer(OP_PUTFH, NFS4ERR_RETRY_UNCACHED_REP);
  m.server.clear_calls();
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "there", 0755))));
  CHECK(m.server.succeeded(OP_CREATE) == 0);
  CHECK(m.server.count(OP_LOOKUP) == 1);
}

TEST_CASE("S4 a server that keeps no Replies, or only small ones, is not asked to, and served all the same") {
  for (const std::uint32_t cached : {0U, 87U, 100U, 300U, 2048U}) {
    CAPTURE(cached);
    Scene m;
    m.server.on_server(
        [cached](Responder& responder) { responder.state.habits.max_response_cached = cached; });
    EngineClient& c = m.connect();
    m.server.clear_calls();
    CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "d", 0755))));
    unsigned asked = 0;
    for (const SeenCall& call : m.server.calls()) asked += call.sequence.sa_cachethis ? 1 : 0;
    CHECK((asked == 0) == (cached < 88));
    // Where the answer is lost nobody can tell what became of it, but by a look.
    m.server.drop_after(OP_CREATE);
    const auto made = c.run(c.engine.make_directory(nullptr, c.root, "e", 0755));
    CHECK((made || made.error().kind() == ErrorKind::unknown_outcome));
    CHECK(m.server.succeeded(OP_CREATE) == 2);
  }
}

TEST_CASE(
    "S8 S21 a server that does not take a connection although it has bound it is asked less and less often") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.clear_calls();
  m.server.answer(OP_SEQUENCE, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, 1000);
  const auto made = c.run(c.engine.make_directory(nullptr, c.root, "a", 0755));
  REQUIRE_FALSE(made);
  CHECK(m.server.count(OP_SEQUENCE) > 4);
  CHECK(m.server.count(OP_SEQUENCE) < 100);
  CHECK(m.server.succeeded(OP_CREATE) == 0);
  m.server.on_server([](Responder& responder) { responder.state.rules.clear(); });
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "b", 0755))));
}

TEST_CASE("S8 a connection that is not bound is bound, and the request is sent again in its slot") {
  Scene m;
  const auto calls = tries_behind(m, NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  CHECK(same_place(calls[0], calls[1]));
  CHECK(m.server.count(OP_BIND_CONN_TO_SESSION) == 1);
  CHECK(m.server.count(OP_CREATE_SESSION) == 0);
  CHECK(m.server.succeeded(OP_CREATE) == 1);
}

// ---- a session that works is replaced while the request is under way ----

namespace {

/// A REMOVE that the server has executed, whose answer the server keeps. The client replaces the session meanwhile,
/// because the server asks for that (SEQ4_STATUS_BACKCHANNEL_FAULT). The server associates no connection by itself.
struct ReplacedWhileExecuted {
  Scene m;
  EngineClient& c;
  std::optional<async::Task<Result<CompoundReply>>> removal;

  ReplacedWhileExecuted() : c(m.client.emplace(m.server, "engine", options())) {
    m.server.add_file("/f", "text");
    m.server.on_server([](Responder& responder) { responder.state.habits.associates_connections = false; });
    m.server.hold(OP_REMOVE);
    Compound compound = c.session.begin_on(c.root, "REMOVE");
    compound.add<op::REMOVE>({{"f"}});
    removal.emplace(c.session.call(std::move(compound), c.loop.now() + 1min));
    c.start(*removal);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    m.server.set_sequence_flags(SEQ4_STATUS_BACKCHANNEL_FAULT, 1);
    CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));
    m.server.clear_calls();
  }
  static SessionOptions options() {
    SessionOptions out;
    out.timeout = 20s;
    return out;
  }
  /// The connection ends, and the REMOVE comes over the next one, where it can be answered.
  void lose_connection() {
    m.server.hold(OP_NVERIFY);  // which nobody sends
    m.server.drop_connections();
    REQUIRE(c.turn_until([&] { return removal->done(); }, 5s));
    const auto reply = removal->await_resume();
    REQUIRE(ok(reply));
    CHECK(reply->status() == NFS4_OK);
    const auto calls = calls_with(m.server, OP_REMOVE);
    REQUIRE(calls.size() >= 2);
    CHECK(same_place(calls.front(), calls.back()));
    CHECK_FALSE(m.server.content("/f"));
    CHECK(c.turn_until([&] { return m.server.succeeded(OP_DESTROY_SESSION) == 1; }));
    CHECK(m.server.succeeded(OP_CREATE_SESSION) == 1);
    CHECK(m.server.sessions() == 1);
  }
};

}  // namespace

TEST_CASE("S2 S8 a session that is about to be replaced takes the connections that its requests need") {
  ReplacedWhileExecuted s;
  s.c.turn_for(1s);
  CHECK(s.m.server.count(OP_CREATE_SESSION) == 0);  // waits for the REMOVE
  // As if the REMOVE had come before the connection was bound.
  s.m.server.answer(OP_SEQUENCE, NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  s.lose_connection();
}

TEST_CASE("S2 S8 a session that was replaced although it worked stays until it has given its last answer") {
  ReplacedWhileExecuted s;
  s.c.turn_for(11s);
  // Other calls have waited for long enough and go on in the next session.
  CHECK(s.m.server.succeeded(OP_CREATE_SESSION) == 1);
  CHECK(s.m.server.count(OP_DESTROY_SESSION) == 0);
  CHECK(ok(s.c.run(s.c.engine.attributes(nullptr, s.c.root))));
  s.lose_connection();
}

// ---- the session is lost while the request is under way ----

TEST_CASE(
    "S8 S10 a session that takes no connection any more is replaced, and the names tell what was done in "
    "it") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.clear_calls();
  m.server.drop_after(OP_CREATE);
  m.server.answer(OP_SEQUENCE, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, 1, 1);
  m.server.answer(OP_BIND_CONN_TO_SESSION, NFS4ERR_INVAL, 2);
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "a", 0755))));
  CHECK(m.server.succeeded(OP_CREATE) == 1);
  CHECK(m.server.succeeded(OP_CREATE_SESSION) == 1);
  CHECK(m.server.succeeded(OP_DESTROY_SESSION) == 1);
  CHECK(m.server.count(OP_LOOKUP) == 1);
}

namespace {

/// Whether the server had executed it, or not, when it restarted.
struct Storm {
  explicit Storm(bool executed_in) : executed(executed_in) {
    m.server.add_file("/old", "text");
    m.server.add_directory("/empty");
    m.connect();
  }
  /// Ends the task across a restart of the server in the middle of `op`.
  template <class T>
  Result<T> across_restart(nfs_opnum4 op, async::Task<Result<T>> task) {
    m.server.clear_calls();
    m.server.hold(op, executed);
    c().start(task);
    CHECK(c().turn_until([&] { return m.server.held() == 1; }));
    m.server.hold(OP_NVERIFY, true);  // which nobody sends
    m.server.restart();
    auto result = end_of(c(), task);
    // An exclusive create is known again by its verifier, and executed as often as it takes.
    CHECK(m.server.succeeded(op) == (op == OP_OPEN && executed ? 2 : 1));
    return result;
  }
  EngineClient& c() { return *m.client; }
  Scene m;
  bool executed;
};

}  // namespace

TEST_CASE("S10 a restart in the middle of what is not idempotent: done once, and said so") {
  for (const bool executed : {true, false}) {
    CAPTURE(executed);
    Storm s(executed);
    EngineClient& c = s.c();
    const nfs_fh4 old = c.handle("/old");
    SUBCASE("mkdir") {
      auto made = s.across_restart(OP_CREATE, c.engine.make_directory(nullptr, c.root, "d", 0750));
      REQUIRE(ok(made));
      CHECK(made->object.handle == c.handle("/d"));
      CHECK(made->object.attributes->type == FileType::directory);
    }
    SUBCASE("symlink") {
      auto made = s.across_restart(OP_CREATE, c.engine.make_symlink(nullptr, c.root, "l", "where"));
      REQUIRE(ok(made));
      CHECK(made->object.attributes->type == FileType::symlink);
    }
    SUBCASE("remove") {
      CHECK(ok(s.across_restart(OP_REMOVE, c.engine.remove(nullptr, c.root, "old", Engine::Removed::file))));
    }
    SUBCASE("rename") {
      CHECK(ok(
          s.across_restart(OP_RENAME, c.engine.rename(nullptr, c.root, "old", c.root, "new", std::nullopt))));
      CHECK(s.m.server.content("/new") == "text");
      CHECK_FALSE(s.m.server.content("/old"));
    }
    SUBCASE("link") {
      CHECK(ok(s.across_restart(OP_LINK, c.engine.link(nullptr, old, c.root, "new"))));
      CHECK(s.m.server.content("/new") == "text");
    }
    SUBCASE("setxattr") {
      CHECK(ok(s.across_restart(OP_SETXATTR,
                                c.engine.set_xattr(nullptr, old, "x", {std::byte{1}}, XattrMode::create))));
    }
    SUBCASE("removexattr") {
      CHECK(ok(c.run(c.engine.set_xattr(nullptr, old, "x", {std::byte{1}}, XattrMode::create))));
      CHECK(ok(s.across_restart(OP_REMOVEXATTR, c.engine.remove_xattr(nullptr, old, "x"))));
    }
    SUBCASE("exclusive create") {
      Engine::Creation exclusively;
      exclusively.mode = 0600;
      exclusively.exclusive = true;
      auto made = s.across_restart(
          OP_OPEN, c.files.open_at(nullptr, c.root, "n", OPEN4_SHARE_ACCESS_BOTH, exclusively));
      REQUIRE(ok(made));
      CHECK(ok(c.run(c.files.close(std::move(made->file)))));
    }
  }
}

TEST_CASE("S10 a name that somebody else has made meanwhile is not taken for one's own") {
  Storm s(false);
  EngineClient& c = s.c();
  s.m.server.hold(OP_CREATE, false);
  auto made = c.engine.make_directory(nullptr, c.root, "d", 0750);
  c.start(made);
  CHECK(c.turn_until([&] { return s.m.server.held() == 1; }));
  s.m.server.hold(OP_NVERIFY, true);
  s.m.server.add_file("/d", "another's");
  s.m.server.restart();
  const auto result = end_of(c, made);
  REQUIRE_FALSE(result);
  CHECK(result.error().errno_value() == EEXIST);
  CHECK(s.m.server.content("/d") == "another's");
}

TEST_CASE("S10 a new name is the sign of a rename only if it leads to the renamed object") {
  Storm s(true);
  EngineClient& c = s.c();
  SUBCASE("it does") {
    const auto renamed =
        s.across_restart(OP_RENAME, c.engine.rename(nullptr, c.root, "old", c.root, "new", c.handle("/old")));
    CHECK(ok(renamed));
  }
  SUBCASE("it leads to another object") {
    const auto renamed = s.across_restart(
        OP_RENAME, c.engine.rename(nullptr, c.root, "old", c.root, "new", c.handle("/empty")));
    REQUIRE_FALSE(renamed);
    CHECK(renamed.error().kind() == ErrorKind::unknown_outcome);
  }
}

TEST_CASE("S10 an outcome stays unknown if the names that would tell it cannot be looked at") {
  Storm s(true);
  EngineClient& c = s.c();
  s.m.server.answer(OP_LOOKUP, NFS4ERR_ACCESS);
  SUBCASE("mkdir") {
    const auto made = s.across_restart(OP_CREATE, c.engine.make_directory(nullptr, c.root, "d", 0750));
    REQUIRE_FALSE(made);
    CHECK(made.error().kind() == ErrorKind::unknown_outcome);
  }
  SUBCASE("remove") {
    const auto removed =
        s.across_restart(OP_REMOVE, c.engine.remove(nullptr, c.root, "old", Engine::Removed::file));
    REQUIRE_FALSE(removed);
    CHECK(removed.error().kind() == ErrorKind::unknown_outcome);
  }
}

TEST_CASE("S2 a session is not used any more while it is made anew, nor is a slot had for it in vain") {
  Scene m;
  m.server.set_slots(1);
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  auto file = m.open("f");
  m.server.hold(OP_READ, false);
  std::array<std::byte, 4> first{}, second{};
  auto under_way = file->read(first, 0), waits = file->read(second, 0);
  c.start(under_way);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  c.start(waits);  // for the only slot
  m.server.forget_sessions();
  m.server.clear_calls();
  m.server.release();
  REQUIRE(c.turn_until([&] { return under_way.done() && waits.done(); }));
  CHECK(ok(under_way.await_resume()));
  CHECK(ok(waits.await_resume()));
  CHECK(m.server.count(OP_CREATE_SESSION) == 1);
  CHECK(m.server.succeeded(OP_READ) == 2);
  // Nobody has used the one that is gone twice.
  unsigned refused = 0;
  for (const SeenCall& call : m.server.calls()) {
    if (call.has(OP_SEQUENCE) && call.status == NFS4ERR_BADSESSION) ++refused;
  }
  CHECK(refused == 1);
  m.close(file);
}

namespace {

/// A server that executes a request slowly, and tells the client meanwhile that its session is gone: its connection ended,
/// and the next one leads to another server behind the same address.
struct LostWhileExecuted {
  Scene m;
  EngineClient& c;

  explicit LostWhileExecuted(SessionOptions options = {})
      : c(m.client.emplace(m.server, "engine", std::move(options))) {
    m.server.add_file("/f", "text");
  }
  /// Returns when the client has begun to destroy its lost session, in which the server is still at work.
  template <class T>
  void lose_in(nfs_opnum4 op, async::Task<Result<T>>& task) {
    m.server.on_server([op](Responder& responder) { responder.stall(op); });
    c.start(task);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    m.server.on_server([](Responder& responder) { responder.stall(OP_NVERIFY); });  // which nobody sends
    m.server.clear_calls();
    m.server.answer(OP_SEQUENCE, NFS4ERR_BADSESSION);
    m.server.drop_connections();
    REQUIRE(c.turn_until([&] { return m.server.count(OP_DESTROY_SESSION) > 1; }));
    CHECK(m.server.succeeded(OP_DESTROY_SESSION) == 0);
  }
};

}  // namespace

TEST_CASE("S2 S10 a request that may be executed in a lost session is not made again while it may be") {
  LostWhileExecuted s;
  Scene& m = s.m;
  EngineClient& c = s.c;
  const nfs_fh4 file = c.handle("/f");
  SUBCASE("one that may be executed twice") {
    auto task = c.engine.set_attributes(nullptr, file, mode(0600), nullptr);
    s.lose_in(OP_SETATTR, task);
    // Other calls go on, and what they do stays behind what was sent before.
    CHECK(c.handle("/f") == file);
    CHECK_FALSE(task.done());
    CHECK(m.server.count(OP_SETATTR) == 0);  // the first try was refused at SEQUENCE
    m.server.release();
    REQUIRE(c.turn_until([&] { return task.done(); }));
    CHECK(ok(task.await_resume()));
    CHECK(m.server.succeeded(OP_SETATTR) == 2);
  }
  SUBCASE("one that may not, whose caller looks what has become of it") {
    auto task = c.engine.make_directory(nullptr, c.root, "d", 0700);
    s.lose_in(OP_CREATE, task);
    CHECK(c.handle("/f") == file);
    CHECK_FALSE(task.done());
    m.server.release();
    REQUIRE(c.turn_until([&] { return task.done(); }));
    CHECK(ok(task.await_resume()));
    CHECK(m.server.succeeded(OP_CREATE) == 1);
  }
  SUBCASE("one that reads is made again at once") {
    auto task = c.engine.attributes(nullptr, file);
    s.lose_in(OP_GETATTR, task);
    REQUIRE(task.done());
    CHECK(ok(task.await_resume()));
    m.server.release();
    CHECK(c.turn_until([&] { return m.server.sessions() == 1; }));
  }
  CHECK(m.server.sessions() == 1);
}

TEST_CASE(
    "S2 a request that hangs in a lost session for good does not stop others longer than a call may take") {
  SessionOptions options;
  options.timeout = 2s;
  options.patience = 60s;
  LostWhileExecuted s(options);
  const nfs_fh4 file = s.c.handle("/f");
  auto task = s.c.engine.set_attributes(nullptr, file, mode(0600), nullptr);
  s.lose_in(OP_SETATTR, task);
  REQUIRE(s.c.turn_until([&] { return task.done(); }, 10s));
  CHECK(ok(task.await_resume()));
  s.m.server.release();
}

// ---- recovery ----

TEST_CASE("S7 after a restart the lease and the limits are the new ones") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.add_file("/big", pattern(300'000));
  auto opened = c.run(c.files.open_handle(nullptr, c.handle("/big"), "big", OPEN4_SHARE_ACCESS_READ));
  REQUIRE(ok(opened));
  m.server.set_lease(33);
  m.server.set_limits(70'000, 70'000, 16);
  m.server.restart();
  std::string data(300'000, '?');
  const auto count = c.run(opened->file->read(room(data), 0));
  CHECK(ok(count));
  CHECK(data == pattern(300'000));
  CHECK(c.session.facts().lease_seconds == 33);
  CHECK(c.session.most_read() < 70'000);
  CHECK(ok(c.run(c.files.close(std::move(opened->file)))));
}

TEST_CASE("S11 a file that is closed while it is reclaimed leaves nothing, here and on the server") {
  Scene m;
  EngineClient& c = m.connect();
  for (const char* name : {"/a", "/b", "/c"}) m.server.add_file(name, "text");
  std::vector<OpenRef> files;
  for (const char* name : {"/a", "/b", "/c"}) {
    auto opened = c.run(c.files.open_handle(nullptr, c.handle(name), name, OPEN4_SHARE_ACCESS_READ));
    REQUIRE(ok(opened));
    files.push_back(std::move(opened->file));
  }
  m.server.restart(2s);
  m.server.hold(OP_OPEN);
  auto looks = c.engine.attributes(nullptr, c.root);
  c.start(looks);
  CHECK(c.turn_until([&] { return m.server.held() == 1; }));
  // They go while the first of them is asked for: their CLOSEs wait for the recovery, or find the file lost.
  files.clear();
  c.turn_for(20ms);
  m.server.hold(OP_NVERIFY);
  m.server.release();
  CHECK(ok(end_of(c, looks)));
  CHECK(c.turn_until([&] { return m.server.open_states() == 0; }));
  CHECK(c.turn_until([&] { return c.session.holdings().opens == 0; }));
}

TEST_CASE("S18 two that close one delegated file at once park it once, and it can be given up again") {
  Scene m;
  m.server.set_delegations(true);
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  c.files.keep_delegated(10);
  const nfs_fh4 handle = c.handle("/f");
  auto reader = c.run(c.files.open_handle(nullptr, handle, "f", OPEN4_SHARE_ACCESS_READ));
  auto writer = c.run(c.files.open_handle(nullptr, handle, "f", OPEN4_SHARE_ACCESS_BOTH));
  REQUIRE(ok(reader));
  REQUIRE(ok(writer));
  REQUIRE(m.server.delegations() == 1);
  // The second waits until the first has downgraded the open: then nobody needs it for either.
  m.server.hold(OP_OPEN_DOWNGRADE);
  auto first = c.files.close(std::move(writer->file));
  auto second = c.files.close(std::move(reader->file));
  c.start(first);
  CHECK(c.turn_until([&] { return m.server.held() == 1; }));
  c.start(second);
  c.turn_for(5ms);
  m.server.hold(OP_NVERIFY);
  m.server.release();
  CHECK(ok(end_of(c, first)));
  CHECK(ok(end_of(c, second)));
  CHECK(c.files.parked() == 1);
  auto all = c.files.unpark_all();
  c.start(all);
  CHECK(c.turn_until([&] { return all.done(); }));
  CHECK(c.files.parked() == 0);
  CHECK(m.server.open_states() == 0);
}

}  // namespace nfsrdma
