// What becomes of a session, and of a call, where the server says the same twice, or what cannot be: refusals at
// SEQUENCE, recoveries that are put off, Replies at fault (RFC 8881 2.10.6, 8.4.2, 15.1.1.3, 16.2).
#include <array>
#include <utility>
#include <vector>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"
#include "support/scripted_calls.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// In their order, as the server saw them.
std::vector<SeenCall> create_calls(const NfsServer& server) {
  std::vector<SeenCall> out;
  for (const SeenCall& call : server.calls()) {
    if (call.has(OP_CREATE)) out.push_back(call);
  }
  return out;
}

}  // namespace

TEST_CASE("S3 BAD_HIGH_SLOT for a request that names no higher slot than its own: there is a new session") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.clear_calls();
  m.server.answer(OP_SEQUENCE, NFS4ERR_BAD_HIGH_SLOT, 2);
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "a", 0755))));
  CHECK(m.server.count(OP_CREATE_SESSION) == 1);
  CHECK(m.server.succeeded(OP_CREATE) == 1);
  CHECK(m.server.sessions() == 1);
  const auto calls = create_calls(m.server);
  REQUIRE(calls.size() == 3);
  CHECK(calls[1].sequence.sa_highest_slotid == calls[1].sequence.sa_slotid);
  CHECK(calls[2].sequence.sa_sessionid != calls[1].sequence.sa_sessionid);
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
  const auto calls = create_calls(m.server);
  REQUIRE(calls.size() > 1);
  CHECK(calls.front().sequence.sa_slotid == calls.back().sequence.sa_slotid);
  CHECK(calls.front().sequence.sa_sequenceid == calls.back().sequence.sa_sequenceid);
}

TEST_CASE(
    "S11 S21 what recovery asks for and the server puts off is asked for again, and nothing else with it") {
  Scene m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  auto file = m.open("f");
  m.server.clear_calls();
  m.server.restart(5s);
  m.server.answer(OP_OPEN, NFS4ERR_DELAY, 2);
  m.server.answer(OP_RECLAIM_COMPLETE, NFS4ERR_DELAY, 2);
  std::array<std::byte, 4> data{};
  CHECK(ok(c.run(file->read(data, 0))));
  CHECK(m.server.count(OP_EXCHANGE_ID) == 1);
  CHECK(m.server.succeeded(OP_CREATE_SESSION) == 1);
  CHECK(m.server.count(OP_OPEN) == 3);
  CHECK(m.server.count(OP_RECLAIM_COMPLETE) == 3);
  m.close(file);
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

TEST_CASE(
    "S18 the end of a session waits for half of its time until the session that it replaced is destroyed") {
  Scene m;
  EngineClient& c = m.connect();
  unsigned refusals = 1;
  SUBCASE("a server that destroys it soon") {}
  SUBCASE("a server that puts it off for longer") {
    refusals = 8;
  }  // with pauses of 5 s altogether
  const bool soon = refusals == 1;
  m.server.clear_calls();
  m.server.answer(OP_DESTROY_SESSION, NFS4ERR_DELAY, refusals);
  m.server.answer(OP_SEQUENCE, NFS4ERR_BADSESSION);
  CHECK(ok(c.run(c.engine.find(nullptr, {}))));
  REQUIRE(c.turn_until([&] { return m.server.count(OP_DESTROY_SESSION) == 1; }));
  m.client.reset();  // CHECKs that it ends well
  // A server that has the lost session still keeps the client id, and drops it for another instance of the client.
  CHECK(m.server.count(OP_DESTROY_CLIENTID) == (soon ? 1 : 2));
  CHECK(m.server.count(OP_EXCHANGE_ID) == (soon ? 0 : 1));
  CHECK(m.server.clients() == 0);
  CHECK(m.server.sessions() == 0);
}

namespace {

struct AnsweredCompound {
  ScriptedCalls calls;
  const ScriptedCalls::Last last{calls};
  CompoundReply reply(const Script& script) {
    auto task = calls.call(calls.begin("LOOKUP"));
    calls.start(task);
    calls.answer(script);
    return std::move(*task.await_resume());
  }
  ErrorKind kind_of(const CompoundReply& reply) { return calls.error_of(reply, "LOOKUP", "x").kind(); }
};

}  // namespace

TEST_CASE("compound: a result of another operation than the one asked for is a Reply at fault") {
  AnsweredCompound m;
  auto reply = m.reply(Script().ok<op::PUTFH>().ok<op::LOOKUP>().ok<op::LOOKUPP>());
  CHECK(reply.take<op::PUTFH>());
  CHECK_FALSE(reply.take<op::LOOKUPP>());
  CHECK(reply.failed_status() == NFS4_OK);
  CHECK(m.kind_of(reply) == ErrorKind::protocol);
  CHECK_FALSE(reply.take<op::LOOKUPP>());  // nor is what stands behind it believed
}

TEST_CASE("compound: a Reply that is good and says less than was asked for, or is cut short, is at fault") {
  AnsweredCompound m;
  for (const bool promised : {false, true}) {
    auto script = Script().ok<op::PUTFH>();
    if (promised) script.and_nothing();
    auto reply = m.reply(script);
    CHECK(reply.status() == NFS4_OK);
    CHECK(reply.take<op::PUTFH>());
    CHECK_FALSE(reply.take<op::LOOKUP>());
    CHECK(reply.failed_status() == NFS4_OK);
    CHECK(m.kind_of(reply) == ErrorKind::protocol);
  }
}

TEST_CASE(
    "compound: behind an operation that was refused there is nothing more, and its status is the error's") {
  AnsweredCompound m;
  auto reply = m.reply(Script().ok<op::PUTFH>().refuse<op::LOOKUP>(NFS4ERR_NOENT));
  CHECK(reply.executed() == 2);
  CHECK(reply.take<op::PUTFH>());
  CHECK_FALSE(reply.take<op::LOOKUP>());
  CHECK_FALSE(reply.take<op::LOOKUPP>());
  CHECK(reply.failed_status() == NFS4ERR_NOENT);
  CHECK(m.kind_of(reply) == ErrorKind::server);
}

}  // namespace nfsrdma
