// The connections of a session by themselves: real channels to a server on a simulated network, and a script in
// place of the session (RFC 8881 2.10.3, 18.34). What they come to in a whole client: nconnect_test.cpp.
#include "nfs4/session/lanes.h"

#include <algorithm>
#include <deque>

#include "nfs4/compound/callback.h"
#include "support/engine_fixture.h"
#include "support/scripted_call_layer.h"
#include "wire/nfs4/status.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using namespace std::chrono_literals;
using Way = ScriptedCallLayer::Way;

struct Laned {
  sim::Simulation world{1};
  sim::Network network{world};
  sim::Host& server_host = world.add_host("server");
  NfsServer server{network, server_host};
  ScriptedCallLayer calls{world.add_host("client")};
  std::deque<rpc::Channel> channels;
  rpc::Channel& first = channel();
  rpc::Channel& second;
  Lanes lanes;
  const ScriptedCallLayer::Last last{calls};

  /// `elsewhere`: the second leads to another address.
  explicit Laned(std::uint32_t callback_slots = 4, bool elsewhere = false)
      : second(channel(elsewhere)),
        lanes(calls, first, callback_slots, [](rpc::Channel&, rpcrdma::BackwardId, fabric::ConstBytes) {}) {
    calls.facts_now.session_id[0] = std::byte{1};
    calls.facts_now.backchannel = callback_slots != 0;
  }
  rpc::Channel& channel(bool elsewhere = false) {
    rpc::ChannelOptions options = EngineClient::channel_options(server, &calls.host());
    options.elsewhere = elsewhere;
    return channels.emplace_back(calls.loop(), options, rpc::Channel::NoticeSink());
  }
  async::TimePoint deadline() { return calls.loop().now() + 5s; }
  void connect_first() {
    auto connecting = first.connect(deadline());
    calls.start(connecting);
    calls.pass(10ms);
    REQUIRE(connecting.done());
  }
  void add_second() {
    connect_first();
    auto adding = lanes.add(second, deadline());
    calls.start(adding);
    calls.pass(10ms);
    bound();
    REQUIRE(adding.done());
    CHECK(adding.await_resume());
  }
  void bound() { calls.answer(Script().ok<op::BIND_CONN_TO_SESSION>(BIND_CONN_TO_SESSION4resok())); }
  void refused(nfsstat4 status) { calls.answer(Script().refuse<op::BIND_CONN_TO_SESSION>(status)); }
  /// The first one's connection ends and does not come back; the second one's stands.
  void lose_first() {
    const auto connections = network.connections(calls.host(), server_host);
    REQUIRE(connections.size() == 2);
    server.stop_listening();
    network.cut(connections[0]);
    calls.pass(10ms);
    REQUIRE_FALSE(first.up());
    REQUIRE(second.up());
  }
  /// The connections end, and those that are kept up come back.
  void cut() {
    network.cut(calls.host(), server_host);
    calls.pass(1s);
  }
  bool told_of_another() const {
    return std::ranges::any_of(calls.notices, [](const std::string& one) {
      return one.find("is not the same server") != std::string::npos;
    });
  }
  /// Of all calls so far.
  unsigned binds() {
    unsigned out = 0;
    for (std::size_t at = 0; (at = calls.all().find("BIND", at)) != std::string::npos; ++at) ++out;
    return out;
  }
};

}  // namespace

TEST_CASE(
    "lanes: the connection of CREATE_SESSION needs no other word, a further one is bound before it is used") {
  Laned m;
  CHECK(m.lanes.usable() == 0);
  m.connect_first();
  CHECK(m.lanes.usable() == 1);
  auto adding = m.lanes.add(m.second, m.deadline());
  m.calls.start(adding);
  m.calls.pass(10ms);
  CHECK(m.second.up());
  CHECK(m.lanes.usable() == 1);
  CHECK(&m.lanes.route() == &m.first);
  CHECK_FALSE(adding.done());
  CHECK(m.calls.next().way == Way::alone);
  CHECK(m.calls.next().over == &m.second);
  const auto args = m.calls.next_arguments<op::BIND_CONN_TO_SESSION>();
  CHECK(args.bctsa_sessid == m.calls.facts_now.session_id);
  CHECK(args.bctsa_dir == CDFC4_FORE_OR_BOTH);
  m.bound();
  REQUIRE(adding.done());
  CHECK(adding.await_resume());
  CHECK(m.lanes.usable() == 2);
  CHECK(m.binds() == 1);
}

TEST_CASE("lanes: a connection to another address is bound once it has proven to lead to the same server") {
  Laned m(4, true);
  m.connect_first();
  unsigned asked = 0;
  Result<bool> answer = true;
  m.lanes.prove_by([&](rpc::Channel& over) -> async::Task<Result<bool>> {
    CHECK(&over == &m.second);
    ++asked;
    co_return answer;
  });
  const auto add = [&] {
    auto adding = m.lanes.add(m.second, m.deadline());
    m.calls.start(adding);
    m.calls.pass(10ms);
    if (asked != 0 && answer && *answer) m.bound();
    REQUIRE(adding.done());
    CHECK(adding.await_resume());
  };
  SUBCASE("it does, and is asked again on its next connection") {
    add();
    CHECK(asked == 1);
    CHECK(m.lanes.usable() == 2);
    m.cut();
    CHECK(asked == 2);
    CHECK(m.second.up());
    m.bound();
    m.bound();
    CHECK(m.lanes.usable() == 2);
    // After another address has been taken over by somebody else.
    answer = false;
    m.cut();
    CHECK(asked == 3);
    m.bound();
    CHECK(m.lanes.usable() == 1);
    CHECK(m.told_of_another());
  }
  SUBCASE("it is another server") {
    answer = false;
    add();
    CHECK(m.lanes.usable() == 1);
    CHECK(m.binds() == 0);
    CHECK(m.told_of_another());
    m.lanes.rebind_all(m.first);
    CHECK(m.binds() == 0);
  }
  SUBCASE("it is in trouble, and is asked again after a pause") {
    answer = status_error(NFS4ERR_SERVERFAULT, "EXCHANGE_ID", "there");
    add();
    CHECK(m.lanes.usable() == 1);
    m.calls.pass(10ms);
    CHECK(asked == 1);
    answer = true;
    m.calls.pass(20ms);
    CHECK(asked == 2);
    REQUIRE(m.calls.waiting() == 1);
    m.bound();
    CHECK(m.lanes.usable() == 2);
    CHECK(m.calls.notices.empty());
  }
  SUBCASE("it does not know the client id, as after a restart, for a while") {
    answer = status_error(NFS4ERR_STALE_CLIENTID, "EXCHANGE_ID", "there");
    add();
    CHECK(m.lanes.usable() == 1);
    answer = true;
    m.lanes.rebind_all(m.first);  // to the next session
    CHECK(asked == 2);
    m.bound();
    CHECK(m.lanes.usable() == 2);
    CHECK(m.calls.notices.empty());
  }
  SUBCASE("it never knows the client id") {
    answer = status_error(NFS4ERR_STALE_CLIENTID, "EXCHANGE_ID", "there");
    add();
    m.calls.pass(1h);
    CHECK(asked > 2);
    CHECK(asked < 20);
    CHECK(m.lanes.usable() == 1);
    CHECK(m.binds() == 0);
    CHECK(m.calls.notices.size() == 1);
  }
  SUBCASE("it does not answer, and is asked again when it is there again") {
    answer = Error(ErrorKind::timeout, ETIMEDOUT, "EXCHANGE_ID", "there", "no answer");
    add();
    CHECK(m.lanes.usable() == 1);
    answer = true;
    m.cut();
    CHECK(asked == 2);
    m.bound();
    m.bound();
    CHECK(m.lanes.usable() == 2);
  }
}

TEST_CASE("lanes: a connection that cannot be had is its caller's error") {
  Laned m;
  m.server.stop_listening();
  auto adding = m.lanes.add(m.second, m.calls.loop().now() + 100ms);
  m.calls.start(adding);
  m.calls.pass(5s);
  REQUIRE(adding.done());
  CHECK_FALSE(adding.await_resume());
  CHECK(m.calls.all().empty());
}

namespace {
async::Task<rpcrdma::Failure> call_once_over(rpc::Channel& channel, Compound compound,
                                             async::TimePoint deadline) {
  const rpc::Outcome outcome = co_await channel.call(compound.release(4096, deadline));
  co_return outcome.failure;
}
}  // namespace

TEST_CASE("lanes: the first connection is kept nearly free of bulk, so that what is small has a way") {
  Laned m;
  m.add_second();
  constexpr std::size_t kSize = 1 << 20;
  std::vector<std::byte> room(kSize);
  const auto read = [&](rpc::Channel& over) {
    Compound compound = m.calls.begin_alone("READ");
    compound.read({}, 0, room);
    CHECK(compound.data_size() == kSize);
    return call_once_over(over, std::move(compound), m.deadline());
  };
  CHECK(&m.lanes.route(kSize) == &m.first);
  auto one = read(m.first);
  m.calls.start(one);
  CHECK(&m.lanes.route(kSize) == &m.second);
  CHECK(&m.lanes.route() == &m.second);
  auto two = read(m.second), three = read(m.second);
  m.calls.start(two);
  m.calls.start(three);
  // More than one at a time it does not take, as long as there is another.
  CHECK(&m.lanes.route(kSize) == &m.second);
  CHECK(&m.lanes.route(4096) == &m.first);
  m.lanes.unbound(m.second);
  CHECK(&m.lanes.route(kSize) == &m.first);
  m.calls.pass(10s);
  CHECK(m.first.load() == 0);
  CHECK(m.first.bulk_calls() == 0);
}

TEST_CASE("lanes: a call goes where the fewest bytes are to be moved, not where the fewest calls are") {
  Laned m;
  m.add_second();
  std::vector<std::byte> room(1 << 20);
  Compound compound = m.calls.begin_alone("READ");
  compound.read({}, 0, room);
  auto bulk = call_once_over(m.second, std::move(compound), m.deadline());
  auto small = call_once_over(m.first, m.calls.begin_alone("NULL"), m.deadline());
  auto other = call_once_over(m.first, m.calls.begin_alone("NULL"), m.deadline());
  m.calls.start(bulk);
  m.calls.start(small);
  m.calls.start(other);
  CHECK(&m.lanes.route() == &m.first);
  m.calls.pass(10s);
}

TEST_CASE("lanes: a call goes to the connection with the least to do") {
  Laned m;
  m.add_second();
  auto busy = call_once_over(m.first, m.calls.begin_alone("NULL"), m.deadline());
  m.calls.start(busy);
  CHECK(&m.lanes.route() == &m.second);
  auto busier = call_once_over(m.second, m.calls.begin_alone("NULL"), m.deadline());
  m.calls.start(busier);
  CHECK(&m.lanes.route() == &m.first);
  m.lanes.unbound(m.first);
  CHECK(&m.lanes.route() == &m.second);
  m.lanes.unbound(m.second);
  CHECK(&m.lanes.route() == &m.first);
  m.calls.pass(5s);
}

TEST_CASE(
    "lanes: calls on a connection that ends are handed back where there is another, and else wait for it") {
  for (const bool another : {false, true}) {
    Laned m;
    m.add_second();
    const auto connections = m.network.connections(m.calls.host(), m.server_host);
    REQUIRE(connections.size() == 2);
    if (!another) m.lanes.unbound(m.second);
    auto call = call_once_over(m.first, m.calls.begin_alone("NULL"), m.deadline());
    m.calls.start(call);
    m.network.cut(connections[0]);
    m.calls.pass(1ms);
    REQUIRE(call.done() == another);
    if (another) CHECK(call.await_resume() == rpcrdma::Failure::cancelled);
    m.calls.pass(1s);
    CHECK(call.done());
    m.bound();
  }
}

TEST_CASE("lanes: calls on a connection that is down are handed back when another one becomes usable") {
  Laned m;
  m.add_second();
  m.lanes.unbound(m.second);
  m.lose_first();
  CHECK(m.lanes.usable() == 0);
  CHECK(&m.lanes.route() == &m.first);
  auto call = call_once_over(m.first, m.calls.begin_alone("NULL"), m.deadline());
  m.calls.start(call);
  m.calls.pass(100ms);
  CHECK_FALSE(call.done());
  SUBCASE("it is bound") {
    auto again = m.lanes.bind_again(m.second, 10ms, m.deadline());
    m.calls.start(again);
    CHECK_FALSE(call.done());
    m.bound();
    REQUIRE(again.done());
    CHECK(again.await_resume());
  }
  SUBCASE("a new session is made over it") {
    m.lanes.rebind_all(m.second);
  }
  CHECK(m.lanes.usable() == 1);
  REQUIRE(call.done());
  CHECK(call.await_resume() == rpcrdma::Failure::cancelled);
}

TEST_CASE("lanes: a binding that is handed back is made again when its connection is there again") {
  Laned m;
  m.add_second();
  m.cut();
  CHECK(m.binds() == 3);
  m.bound();
  m.calls.fail(ErrorKind::cancelled, ECANCELED);
  CHECK(m.lanes.usable() == 1);
  CHECK(m.calls.waiting() == 0);
  CHECK(m.calls.notices.empty());
  m.cut();
  CHECK(m.binds() == 5);
  m.bound();
  m.bound();
  CHECK(m.lanes.usable() == 2);
}

TEST_CASE("lanes: what needs no session goes over any connection that stands, where none is the session's") {
  Laned m;
  m.add_second();
  m.lose_first();
  m.lanes.unbound(m.second);
  // As after a restart of the server: it does not know the session.
  auto again = m.lanes.bind_again(m.second, 10ms, m.deadline());
  m.calls.start(again);
  SUBCASE("it does not know the session") {
    m.refused(NFS4ERR_BADSESSION);
    CHECK(m.calls.recoveries.size() == 1);
    CHECK(&m.lanes.route() == &m.first);
    CHECK(&m.lanes.route_alone() == &m.second);
    rpc::Channel* over = nullptr;
    auto call = m.lanes.call_alone(m.calls.begin_alone("EXCHANGE_ID"), m.deadline(), &over);
    m.calls.start(call);
    CHECK(m.calls.next().over == &m.second);
    m.calls.fail();
    REQUIRE(call.done());
    CHECK_FALSE(call.await_resume());
    CHECK(over == &m.second);
    m.lanes.rebind_all(*over);
    CHECK(m.lanes.usable() == 1);
    CHECK(&m.lanes.route() == &m.second);
  }
  SUBCASE("it does not want the connection") {
    m.refused(NFS4ERR_INVAL);
    CHECK(&m.lanes.route_alone() == &m.first);
    CHECK(&m.lanes.route_alone(&m.second) == &m.first);
  }
  CHECK(again.done());
}

TEST_CASE("lanes: what needs no session goes to another address once that has proven to be the server") {
  Laned m(4, true);
  m.connect_first();
  Result<bool> answer = Error(ErrorKind::timeout, ETIMEDOUT, "EXCHANGE_ID", "there", "no answer");
  m.lanes.prove_by([&](rpc::Channel&) -> async::Task<Result<bool>> { co_return answer; });
  auto adding = m.lanes.add(m.second, m.deadline());
  m.calls.start(adding);
  m.calls.pass(10ms);
  REQUIRE(adding.done());
  CHECK(adding.await_resume());
  m.lose_first();
  CHECK(&m.lanes.route_alone() == &m.first);
  answer = true;
  auto again = m.lanes.bind_again(m.second, 10ms, m.deadline());
  m.calls.start(again);
  CHECK(m.lanes.usable() == 0);
  CHECK(&m.lanes.route_alone() == &m.second);
  m.bound();
  CHECK(again.done());
}

TEST_CASE("lanes: what needs no session stays on the connection that it began on while that stands") {
  Laned m;
  m.add_second();
  auto busy = call_once_over(m.first, m.calls.begin_alone("NULL"), m.deadline());
  m.calls.start(busy);
  CHECK(&m.lanes.route_alone() == &m.second);
  CHECK(&m.lanes.route_alone(&m.first) == &m.first);
  m.calls.pass(5s);
  m.lanes.unbound(m.first);
  CHECK(&m.lanes.route_alone(&m.first) == &m.first);
  m.lose_first();
  CHECK(&m.lanes.route_alone(&m.first) == &m.second);
}

TEST_CASE("lanes: connections that come back are bound again") {
  Laned m;
  m.add_second();
  m.cut();
  CHECK(m.first.up());
  CHECK(m.second.up());
  CHECK(m.lanes.usable() == 0);
  CHECK(m.binds() == 3);
  m.bound();
  CHECK(m.lanes.usable() == 1);
  m.calls.answer(Script().refuse<op::BIND_CONN_TO_SESSION>(NFS4ERR_DELAY));
  CHECK(m.lanes.usable() == 1);
  m.calls.pass(60ms);
  m.bound();
  CHECK(m.lanes.usable() == 2);
}

TEST_CASE("lanes: before the session is open nothing is bound by itself") {
  Laned m;
  m.calls.phase_now = CallLayer::Phase::beginning;
  m.connect_first();
  m.lanes.hold(true);
  m.cut();
  CHECK(m.first.up());
  CHECK(m.lanes.usable() == 0);
  CHECK(m.calls.all().empty());
}

TEST_CASE("lanes: one connection without a backchannel needs no binding") {
  Laned m(0);
  CHECK_FALSE(m.lanes.wants_backchannel());
  m.connect_first();
  m.lanes.hold(true);
  m.cut();
  CHECK(m.lanes.usable() == 1);
  CHECK(m.calls.all().empty());
}

TEST_CASE("lanes: a single connection is kept up where there is something to be recalled") {
  for (const bool recallable : {false, true}) {
    Laned m(0);
    m.connect_first();
    m.lanes.hold(recallable);
    m.cut();
    CHECK(m.first.up() == recallable);
    m.calls.phase_now = CallLayer::Phase::ending;
    m.lanes.hold(recallable);
    m.cut();
    CHECK_FALSE(m.first.up());
  }
}

TEST_CASE("lanes: a connection that the server does not want is told of, and left alone") {
  Laned m;
  m.connect_first();
  auto adding = m.lanes.add(m.second, m.deadline());
  m.calls.start(adding);
  m.calls.pass(10ms);
  m.refused(NFS4ERR_INVAL);
  REQUIRE(adding.done());
  CHECK(adding.await_resume());
  CHECK(m.lanes.usable() == 1);
  CHECK(m.calls.notices.size() == 1);
  CHECK(m.calls.recoveries.empty());
  m.cut();
  CHECK(m.first.up());
  CHECK_FALSE(m.second.up());
  CHECK(m.binds() == 2);
  CHECK(m.calls.next().over == &m.first);
  m.bound();
  m.second.hold(true);  // it comes up without our doing
  m.calls.pass(2s);
  REQUIRE(m.second.up());
  m.lanes.mend_backchannel(false);
  CHECK(m.binds() == 3);
  CHECK(m.calls.next().over == &m.first);
  m.bound();
}

TEST_CASE("lanes: a connection that the server has no time for is not one that it does not want") {
  Laned m;
  m.connect_first();
  auto adding = m.lanes.add(m.second, m.deadline());
  m.calls.start(adding);
  m.calls.pass(10ms);
  for (int i = 0; i < 100 && !adding.done(); ++i) {
    m.refused(NFS4ERR_DELAY);
    m.calls.pass(2100ms);
  }
  REQUIRE(adding.done());
  CHECK(adding.await_resume());
  CHECK(m.lanes.usable() == 1);
  CHECK(m.calls.notices.empty());
  m.lanes.rebind_all(m.first);
  REQUIRE(m.calls.waiting() == 1);
  CHECK(m.calls.next().over == &m.second);
  m.bound();
  CHECK(m.lanes.usable() == 2);
}

TEST_CASE(
    "S23 lanes: a connection whose binding is refused for a while is bound later, with growing pauses") {
  for (const nfsstat4 status : {NFS4ERR_SERVERFAULT, NFS4ERR_RESOURCE, NFS4ERR_IO}) {
    CAPTURE(static_cast<unsigned>(status));
    Laned m;
    m.connect_first();
    m.lanes.hold(true);
    m.cut();  // the only connection, which carries the backchannel
    REQUIRE(m.first.up());
    REQUIRE(m.binds() == 1);
    for (unsigned tries = 1; tries < 8; ++tries) {
      CHECK(m.binds() == tries);
      m.refused(status);
      CHECK(m.calls.waiting() == 0);
      m.calls.pass(std::chrono::milliseconds(20U << tries));
      REQUIRE(m.calls.waiting() == 1);
    }
    CHECK(m.calls.next().over == &m.first);
    m.bound();
    CHECK(m.lanes.usable() == 1);
    CHECK(m.calls.notices.empty());
    CHECK(m.calls.recoveries.empty());
    // It is kept up, and bound at once when it comes back.
    m.cut();
    CHECK(m.first.up());
    CHECK(m.calls.waiting() == 1);
    m.bound();
  }
}

TEST_CASE("S23 lanes: a backchannel whose announcement is refused for a while is announced again") {
  Laned m;
  m.add_second();
  m.calls.pass(2s);
  m.lanes.mend_backchannel(false);
  REQUIRE(m.binds() == 3);
  m.refused(NFS4ERR_RESOURCE);
  m.bound();
  CHECK(m.lanes.usable() == 2);
  CHECK(m.calls.notices.empty());
  m.calls.pass(100ms);
  REQUIRE(m.calls.waiting() == 1);
  CHECK(m.calls.next().over == &m.first);
  m.bound();
  m.calls.pass(1min);
  CHECK(m.binds() == 4);
}

TEST_CASE("S23 lanes: a connection over which a new session was made is wanted again") {
  Laned m;
  m.connect_first();
  m.lanes.hold(true);
  m.lanes.unbound(m.first);
  auto again = m.lanes.bind_again(m.first, 10ms, m.deadline());
  m.calls.start(again);
  m.refused(NFS4ERR_INVAL);
  REQUIRE(again.done());
  m.lanes.rebind_all(m.first);
  CHECK(m.lanes.usable() == 1);
  m.cut();
  CHECK(m.first.up());
  CHECK(m.binds() == 2);
  m.bound();
}

TEST_CASE("lanes: a session that is gone shows when a connection is bound to it") {
  for (const nfsstat4 status : {NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_STALE_CLIENTID}) {
    Laned m;
    m.connect_first();
    auto adding = m.lanes.add(m.second, m.deadline());
    m.calls.start(adding);
    m.calls.pass(10ms);
    m.refused(status);
    CHECK(m.calls.recoveries.size() == 1);
    CHECK(m.calls.notices.empty());
    m.lanes.rebind_all(m.first);  // to the next session
    REQUIRE(m.calls.waiting() == 1);
    m.bound();
    CHECK(m.lanes.usable() == 2);
  }
}

TEST_CASE("lanes: a connection that leads to where one session after the other is not known is left alone") {
  Laned m;
  m.connect_first();
  auto adding = m.lanes.add(m.second, m.deadline());
  m.calls.start(adding);
  m.calls.pass(10ms);
  unsigned sessions = 0;
  while (m.calls.waiting() != 0 && sessions < 100) {
    m.refused(NFS4ERR_BADSESSION);
    m.lanes.rebind_all(m.first);  // to the next session
    ++sessions;
  }
  CHECK(adding.done());
  CHECK(sessions > 2);
  CHECK(sessions < 20);
  CHECK(m.calls.recoveries.size() == sessions - 1);
  CHECK(m.calls.notices.size() == 1);
  CHECK(m.lanes.usable() == 1);
  CHECK(&m.lanes.route_alone() == &m.first);
}

TEST_CASE("lanes: what is said of an older session counts for nothing") {
  Laned m;
  m.connect_first();
  auto adding = m.lanes.add(m.second, m.deadline());
  m.calls.start(adding);
  m.calls.pass(10ms);
  m.calls.facts_now.session_id[0] = std::byte{2};
  m.lanes.rebind_all(m.first);
  CHECK(m.binds() == 1);  // one at a time
  m.bound();
  CHECK(m.lanes.usable() == 1);
  CHECK(m.binds() == 2);
  CHECK(m.calls.next_arguments<op::BIND_CONN_TO_SESSION>().bctsa_sessid == m.calls.facts_now.session_id);
  m.bound();
  CHECK(m.lanes.usable() == 2);
}

TEST_CASE("lanes: a new session knows the connection that it was made over, and no other") {
  Laned m;
  m.add_second();
  m.lanes.rebind_all(m.second);
  CHECK(m.lanes.usable() == 1);
  CHECK(&m.lanes.route() == &m.second);
  CHECK(m.calls.next().over == &m.first);
  m.bound();
  CHECK(m.lanes.usable() == 2);
}

TEST_CASE("lanes: one that the server does not take for the session's is bound before the call goes on") {
  Laned m;
  m.add_second();
  m.lanes.unbound(m.second);
  auto again = m.lanes.bind_again(m.second, 10ms, m.deadline());
  auto beside = m.lanes.bind_again(m.second, 10ms, m.deadline());
  m.calls.start(again);
  m.calls.start(beside);
  CHECK(m.calls.waiting() == 1);
  m.bound();
  REQUIRE(again.done());
  REQUIRE(beside.done());
  CHECK(again.await_resume());
  CHECK(beside.await_resume());
}

TEST_CASE("lanes: without any connection that can be had for it a session is of no use") {
  Laned m;
  m.connect_first();
  m.lanes.unbound(m.first);
  auto again = m.lanes.bind_again(m.first, 10ms, m.deadline());
  m.calls.start(again);
  m.refused(NFS4ERR_INVAL);
  REQUIRE(again.done());
  CHECK_FALSE(again.await_resume());
}

TEST_CASE("lanes: a connection that is down is waited for, during a recovery, too") {
  Laned m;
  auto again = m.lanes.bind_again(m.first, 10ms, m.deadline());
  m.calls.start(again);
  m.calls.pass(9ms);
  CHECK_FALSE(again.done());
  m.calls.pass(2ms);
  REQUIRE(again.done());
  CHECK(again.await_resume());
  m.calls.recovers = true;
  auto during = m.lanes.bind_again(m.first, 10ms, m.deadline());
  m.calls.start(during);
  m.calls.pass(11ms);
  REQUIRE(during.done());
  CHECK(during.await_resume());
}

TEST_CASE("lanes: a recovery does not keep a connection from being bound to the session that it replaces") {
  Laned m;
  m.add_second();
  m.lanes.unbound(m.second);
  m.calls.recovers = true;
  auto again = m.lanes.bind_again(m.second, 10ms, m.deadline());
  m.calls.start(again);
  m.bound();
  REQUIRE(again.done());
  CHECK(again.await_resume());
  CHECK(m.lanes.usable() == 2);
}

TEST_CASE(
    "lanes: a connection is bound to an earlier session without a backchannel, and stays the present one's") {
  Laned m;
  m.add_second();
  const sessionid4 earlier{std::byte{7}};
  auto bind = [&] { return m.lanes.bind_to_earlier(m.second, earlier, m.deadline()); };
  SUBCASE("the connection is not usable") {
    m.lanes.unbound(m.second);
    auto task = bind();
    m.calls.start(task);
    CHECK(m.calls.waiting() == 0);
    REQUIRE(task.done());
    CHECK(task.await_resume());
    return;
  }
  auto task = bind();
  m.calls.start(task);
  CHECK(m.calls.next().over == &m.second);
  const auto arguments = m.calls.next_arguments<op::BIND_CONN_TO_SESSION>();
  CHECK(arguments.bctsa_sessid == earlier);
  CHECK(arguments.bctsa_dir == CDFC4_FORE);
  SUBCASE("the server binds it") {
    m.bound();
  }
  SUBCASE("the connection ends before the answer") {
    m.calls.fail(ErrorKind::cancelled, ECANCELED);
  }
  SUBCASE("the server has trouble that may pass") {
    m.refused(NFS4ERR_SERVERFAULT);
  }
  SUBCASE("the earlier session is gone, which the next SEQUENCE says") {
    m.refused(NFS4ERR_BADSESSION);
  }
  bool taken = true;
  SUBCASE("the server refuses for good") {
    m.refused(NFS4ERR_INVAL);
    taken = false;
  }
  REQUIRE(task.done());
  CHECK(task.await_resume() == taken);
  CHECK(m.lanes.usable() == 2);
  CHECK(m.calls.recoveries.empty());
}

TEST_CASE("lanes: a backchannel that the server has lost sight of is announced anew, now and then") {
  Laned m;
  m.add_second();
  m.calls.pass(2s);
  m.lanes.mend_backchannel(false);
  m.lanes.mend_backchannel(false);
  CHECK(m.binds() == 3);
  m.bound();
  m.bound();
  m.calls.pass(990ms);
  m.lanes.mend_backchannel(false);
  CHECK(m.binds() == 3);
  m.calls.pass(20ms);
  m.lanes.mend_backchannel(false);
  CHECK(m.binds() == 5);
  m.bound();
  m.bound();
  CHECK(m.lanes.usable() == 2);
  m.calls.facts_now.backchannel = false;
  m.calls.pass(2s);
  m.lanes.mend_backchannel(false);
  CHECK(m.binds() == 5);
}

TEST_CASE("lanes: where the backchannel is beyond help the session is replaced while it works") {
  Laned m;
  m.connect_first();
  m.calls.pass(2s);
  m.lanes.mend_backchannel(true);
  m.lanes.mend_backchannel(true);
  REQUIRE(m.calls.recoveries.size() == 1);
  CHECK(m.calls.recoveries[0].second);
  CHECK(m.calls.all().empty());
}

TEST_CASE(
    "lanes: a call without a session is made again where the server is busy or the connection has ended") {
  Laned m;
  m.connect_first();
  Compound compound = m.calls.begin_alone("DESTROY_SESSION");
  compound.add<op::DESTROY_SESSION>({m.calls.facts_now.session_id});
  auto call = m.lanes.call_alone(std::move(compound), m.deadline());
  m.calls.start(call);
  CHECK(m.calls.next().over == &m.first);
  m.calls.answer(Script().refuse<op::DESTROY_SESSION>(NFS4ERR_DELAY));
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(49ms);
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(2ms);
  m.calls.fail(ErrorKind::cancelled, ECANCELED);
  REQUIRE(m.calls.waiting() == 1);
  m.calls.answer(Script().ok<op::DESTROY_SESSION>());
  REQUIRE(call.done());
  CHECK(call.await_resume());
}

TEST_CASE("lanes: a session that the server is calling back on is destroyed once it is not any more") {
  Laned m;
  m.connect_first();
  Compound compound = m.calls.begin_alone("DESTROY_SESSION");
  compound.add<op::DESTROY_SESSION>({m.calls.facts_now.session_id});
  auto call = m.lanes.call_alone(std::move(compound), m.deadline());
  m.calls.start(call);
  m.calls.answer(Script().refuse<op::DESTROY_SESSION>(NFS4ERR_BACK_CHAN_BUSY));
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(51ms);
  REQUIRE(m.calls.waiting() == 1);
  m.calls.answer(Script().ok<op::DESTROY_SESSION>());
  REQUIRE(call.done());
  CHECK(call.await_resume());
}

TEST_CASE("lanes: a call without a session ends by its deadline, with what the server said last") {
  Laned m;
  m.connect_first();
  auto call = m.lanes.call_alone(m.calls.begin_alone("EXCHANGE_ID"), m.calls.loop().now() + 40ms);
  m.calls.start(call);
  m.calls.answer(Script().refuse<op::EXCHANGE_ID>(NFS4ERR_DELAY));
  REQUIRE(call.done());
  auto reply = call.await_resume();
  REQUIRE(reply);
  CHECK(reply->status() == NFS4ERR_DELAY);
}

TEST_CASE(
    "lanes: the backchannel is announced with as many slots as there are, and one where there are none") {
  Laned with, without(0);
  CHECK(with.lanes.backchannel_attributes().ca_maxrequests == 4);
  CHECK(without.lanes.backchannel_attributes().ca_maxrequests == 1);
  with.connect_first();
  with.server.stop_listening();
  auto adding = with.lanes.add(with.second, with.deadline());
  with.calls.start(adding);  // of what is not there nobody knows what it can take
  const auto facts = with.first.facts();
  CHECK(with.second.facts().reply_threshold < facts.reply_threshold);
  CHECK(with.lanes.backchannel_attributes().ca_maxrequestsize ==
        back_channel(facts.reply_threshold, facts.call_threshold, 4).ca_maxrequestsize);
}

}  // namespace nfsrdma
