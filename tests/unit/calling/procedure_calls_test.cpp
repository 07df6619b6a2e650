// Calls of one procedure each (calling/procedure_calls.h), over the NFSv3 engine: what a refusal says, how many there are
// at once, and how what they move travels where it is protected.
#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gss/flavor.h"
#include "rpc/message.h"
#include "support/toy_mechanism.h"
#include "support/v3_fixture.h"

namespace nfsrdma::calling {
namespace {

using namespace testing;
using engine::Engine;
using engine::Spot;

/// The engine with a flavour that protects.
struct Sealed {
  explicit Sealed(gss::Service service)
      : calls({&s.channel}, options(std::make_shared<gss::Gss>(events, service, mechanism, "server"))) {
    REQUIRE(ok(s.run(sealed.learn_limits(s.root))));
  }
  static CallOptions options(std::shared_ptr<security::Flavor> flavor) {
    CallOptions out = Scene3::options();
    out.flavor = std::move(flavor);
    return out;
  }
  Scene3 s;
  async::Loop events;  // of contexts, which are had in no time here
  std::shared_ptr<ToyMechanism> mechanism =
      std::make_shared<ToyMechanism>(7, std::make_shared<security::Sys>("test", security::Identity()));
  ProcedureCalls calls;
  nfs3::Nfs3Engine sealed{calls, s.roots, nullptr, 3};
};

/// Starts a task beside the others.
template <class T>
void start(Scene3& s, async::Task<T>& task) {
  task.handle().resume();
  s.loop.end_turn();
}
/// What a task that was started comes to.
template <class T>
T end_of(Scene3& s, async::Task<T>& task, std::chrono::milliseconds most = 60s) {
  const auto end = s.loop.now() + most;
  while (!task.done()) {
    if (s.loop.now() > end) FAIL("a task does not end");
    s.loop.turn(s.loop.now() + 5ms);
  }
  return task.await_resume();
}

/// The last call with `op` in it.
SeenCall last_with(const Scene3& s, nfs4::nfs_opnum4 op) {
  SeenCall out;
  for (const SeenCall& call : s.server.calls()) {
    if (call.has(op)) out = call;
  }
  REQUIRE(out.has(op));
  return out;
}

}  // namespace

TEST_CASE("S10 nfs3: a refusal of what was sent again says nothing of the first time") {
  Scene3 s;
  s.server.add_file("/f", "text");
  s.server.on_server([](Responder& responder) {
    responder.on_call = [&responder, refused = false](const SeenCall& call) mutable {
      if (!call.has(nfs4::OP_REMOVE) || std::exchange(refused, true)) return;
      responder.play(Responder::Trick::garbage_args, nfs4::OP_REMOVE);
    };
  });
  s.server.drop_after(nfs4::OP_REMOVE);
  const auto removed = s.run(s.engine->remove(s.who, s.root, "f", Engine::Removed::file));
  REQUIRE_FALSE(removed);
  CHECK(removed.error().kind() == ErrorKind::unknown_outcome);
  CHECK_FALSE(s.server.content("/f"));
  // What is refused the first time is not done.
  s.server.add_file("/g", "text");
  s.server.garbage_args(nfs4::OP_REMOVE);
  const auto refused = s.run(s.engine->remove(s.who, s.root, "g", Engine::Removed::file));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind() == ErrorKind::server);
  CHECK(s.server.content("/g") == "text");
  s.server.on_server([](Responder& responder) { responder.on_call = nullptr; });
}

TEST_CASE("S10 nfs3: a call that was sent once, and not answered in time, may have been done") {
  for (const bool executes : {false, true}) {
    Scene3 s;
    s.server.add_file("/f", "text");
    CallOptions options = Scene3::options();
    options.timeout = 2s;  // no connection is taken for dead by then, so nothing is sent again
    ProcedureCalls calls({&s.channel}, options);
    nfs3::Nfs3Engine brief(calls, s.roots, nullptr, 3);
    REQUIRE(ok(s.run(brief.learn_limits(s.root))));
    s.server.hold(nfs4::OP_REMOVE, executes);
    const auto removed = s.run(brief.remove(s.who, s.root, "f", Engine::Removed::file));
    REQUIRE_FALSE(removed);
    CHECK(removed.error().kind() == ErrorKind::unknown_outcome);
    CHECK(s.server.content("/f").has_value() != executes);
    // What changes nothing leaves nothing open.
    s.server.hold(nfs4::OP_LOOKUP);
    const auto found = s.run(brief.find(s.who, Spot(std::nullopt, {"f"})));
    REQUIRE_FALSE(found);
    CHECK(found.error().kind() == ErrorKind::timeout);
    s.server.release();
  }
}

TEST_CASE("S10 nfs3: that a call may have been done is not forgotten while it waits for its place, in vain") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.recent_calls = 0; });
  s.server.add_file("/f", "text");
  s.server.add_file("/g", "text");
  CallOptions options = Scene3::options();
  options.most = 1;
  ProcedureCalls calls({&s.channel}, options);
  nfs3::Nfs3Engine narrow(calls, s.roots, nullptr, 3);
  REQUIRE(ok(s.run(narrow.learn_limits(s.root))));
  // The server removes the file, the answer is lost, and the next time the server asks to wait.
  s.server.drop_after(nfs4::OP_REMOVE);
  s.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_DELAY, 1000, 1);
  auto removing = narrow.remove(s.who, s.root, "f", Engine::Removed::file);
  start(s, removing);
  s.pass(5ms);
  // During that pause another call takes the only place, and keeps it.
  s.server.hold(nfs4::OP_LOOKUP);
  auto finding = narrow.find(s.who, Spot(std::nullopt, {"g"}));
  start(s, finding);
  const auto removed = end_of(s, removing);
  REQUIRE_FALSE(removed);
  CHECK(removed.error().message().find("earlier calls have not completed") != std::string::npos);
  CHECK(removed.error().kind() == ErrorKind::unknown_outcome);
  CHECK_FALSE(s.server.content("/f"));
  s.server.release();
  (void)end_of(s, finding);
}

TEST_CASE("S10 nfs3: an answer that cannot be decoded leaves open what must not be done twice") {
  Scene3 s;
  s.server.add_file("/f", "text");
  s.server.on_server([](Responder& responder) {
    responder.on_reply = [](const SeenCall& call, Octets& reply) {
      if (call.has(nfs4::OP_REMOVE) || call.has(nfs4::OP_GETATTR)) reply.resize(rpc::kReplyHeaderSize);
    };
  });
  const auto told = s.run(s.engine->attributes(s.who, s.root));
  REQUIRE_FALSE(told);
  CHECK(told.error().kind() == ErrorKind::protocol);
  const auto removed = s.run(s.engine->remove(s.who, s.root, "f", Engine::Removed::file));
  REQUIRE_FALSE(removed);
  CHECK(removed.error().kind() == ErrorKind::unknown_outcome);
  CHECK(removed.error().errno_value() == EPROTO);
  CHECK(s.server.count(nfs4::OP_REMOVE) == 1);  // it was sent once only
  CHECK_FALSE(s.server.content("/f"));
}

TEST_CASE("nfs3: an answer with more behind its end is none") {
  Scene3 s;
  REQUIRE(ok(s.run(s.engine->attributes(s.who, s.root))));
  s.server.on_server([](Responder& responder) {
    responder.on_reply = [](const SeenCall& call, Octets& reply) {
      if (call.has(nfs4::OP_GETATTR)) reply.resize(reply.size() + 4);
    };
  });
  const auto told = s.run(s.engine->attributes(s.who, s.root));
  REQUIRE_FALSE(told);
  CHECK(told.error().kind() == ErrorKind::protocol);
  CHECK(told.error().errno_value() == EPROTO);
}

TEST_CASE("S19 nfs3: a call is tried for as long as the mount is patient, else for its time-out") {
  for (const bool patient : {true, false}) {
    CAPTURE(patient);
    Scene3 s;
    CallOptions options = Scene3::options();
    options.timeout = 1s;
    if (patient) options.patience = std::chrono::hours(1);
    ProcedureCalls calls({&s.channel}, options);
    nfs3::Nfs3Engine engine(calls, s.roots, nullptr, 3);
    s.server.hold(nfs4::OP_GETATTR);
    auto asking = engine.attributes(s.who, s.root);
    start(s, asking);
    s.pass(20s);
    CHECK(asking.done() != patient);
    s.server.release();
    const auto told = end_of(s, asking);
    CHECK(told.has_value() == patient);
    if (!told) CHECK(told.error().kind() == ErrorKind::timeout);
  }
}

TEST_CASE("nfs3: no more calls are under way than may be, and who waits has his turn") {
  Scene3 s;
  s.server.add_file("/f", "text");
  CallOptions options = Scene3::options();
  options.most = 1;
  ProcedureCalls calls({&s.channel}, options);
  nfs3::Nfs3Engine narrow(calls, s.roots, nullptr, 3);
  REQUIRE(ok(s.run(narrow.learn_limits(s.root))));
  CHECK(calls.counters().slot_waits == 1);  // PATHCONF, which is asked beside FSINFO
  s.server.hold(nfs4::OP_LOOKUP);
  auto first = narrow.find(s.who, Spot(std::nullopt, {"f"}));
  auto second = narrow.find(s.who, Spot(std::nullopt, {"f"}));
  first.handle().resume();
  second.handle().resume();
  s.loop.end_turn();
  for (int turns = 0; turns < 20; ++turns) s.loop.turn(s.loop.now() + 5ms);
  CHECK(s.server.held() == 1);
  CHECK(calls.counters().slot_waits == 2);
  s.server.release();
  for (int turns = 0; turns < 100 && !(first.done() && second.done()); ++turns)
    s.loop.turn(s.loop.now() + 5ms);
  REQUIRE(first.done());
  REQUIRE(second.done());
  CHECK(ok(first.await_resume()));
  CHECK(ok(second.await_resume()));
}

TEST_CASE(
    "T35 nfs3: what a service covers comes in the message, data and all; what it does not by its chunk") {
  constexpr std::size_t kSize = 20'000;
  for (const gss::Service service : {gss::Service::none, gss::Service::integrity, gss::Service::privacy}) {
    CAPTURE(static_cast<int>(service));
    Sealed m(service);
    const std::string text = pattern(kSize);
    m.s.server.add_file("/f", text);
    const auto file = m.s.get(m.sealed.open_at(m.s.who, m.s.root, "f", engine::Access::read, {}));
    CHECK(m.s.read(file, kSize) == text);
    const SeenCall read = last_with(m.s, nfs4::OP_READ);
    if (service == gss::Service::none) {
      CHECK(read.write_chunks == std::vector<std::uint64_t>{kSize});
      CHECK(read.reply_chunk == 0);
    } else {
      CHECK(read.write_chunks.empty());
      CHECK(read.reply_chunk >= kSize);
    }
  }
}

TEST_CASE("nfs3: an answer that is not believed leaves open what must not be done twice, and nothing else") {
  Sealed m(gss::Service::integrity);
  m.s.server.add_file("/f", "text");
  const auto lie = [&m] {
    m.s.server.on_server([](Responder& responder) { responder.guard.lie(ToyGuard::Lie::results); });
  };
  lie();
  const auto found = m.s.run(m.sealed.find(m.s.who, Spot(std::nullopt, {"f"})));
  REQUIRE_FALSE(found);
  CHECK(found.error().kind() == ErrorKind::protocol);
  lie();
  const auto removed = m.s.run(m.sealed.remove(m.s.who, m.s.root, "f", Engine::Removed::file));
  REQUIRE_FALSE(removed);
  CHECK(removed.error().kind() == ErrorKind::unknown_outcome);
  CHECK_FALSE(m.s.server.content("/f"));
}

TEST_CASE("S10 nfs3: what a server refused because it has forgotten the context was not sent before") {
  Sealed m(gss::Service::integrity);
  REQUIRE(m.s.error(m.sealed.find(m.s.who, Spot(std::nullopt, {"none"}))) == ENOENT);
  const unsigned before = m.mechanism->established();
  m.s.server.on_server([](Responder& responder) { responder.guard.forget(); });
  // As if it had been, the name that is not there would be one that the first sending has removed.
  CHECK(m.s.error(m.sealed.remove(m.s.who, m.s.root, "none", Engine::Removed::file)) == ENOENT);
  CHECK(m.mechanism->established() == before + 1);
}

}  // namespace nfsrdma::calling
