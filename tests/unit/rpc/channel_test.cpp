// A Channel on connections that do what the test says: dialling, xids, how long it tries to have a connection, what a caller
// learns of a call that was refused or sent more than once, and what becomes of a call whose caller goes or whose memory
// can be taken back late or not at all.
#include "rpc/channel.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calling/procedure_calls.h"
#include "fabric/address.h"
#include "nfs4/compound/compound.h"
#include "reply_sizing/reply_size.h"
#include "rpc/make_call.h"
#include "security/sys.h"
#include "support/rpcrdma_driver.h"
#include "support/wired.h"
#include "wire/nfs3/procedures.h"

namespace nfsrdma::rpc {
namespace {

using namespace std::chrono_literals;
namespace rt = rpcrdma::testing;
using testing::Wire;
using testing::Wired;

/// Changes nothing in a message, and has another security context whenever the server refuses one.
class Renewing final : public Protection {
 public:
  Result<const xdr::Message*> seal(const xdr::Message& message) override { return &message; }
  [[nodiscard]] bool covers_data() const override { return false; }
  [[nodiscard]] std::size_t reply_growth() const override { return 0; }
  [[nodiscard]] bool outdated(std::optional<std::uint32_t> auth_stat) override {
    return auth_stat.has_value();
  }
  Result<xdr::ConstBytes> open(const ReplyHeader& /*header*/, xdr::ConstBytes results) override {
    return results;
  }
};

async::Task<Outcome> made_under(Protection& protection, Channel& channel, rpcrdma::Call call) {
  co_return co_await make_call(channel, std::move(call), &protection);
}

/// Whether the wire had been closed when the call came to its end.
async::Task<bool> ends_behind_close(Channel& channel, rpcrdma::Call call, const Wire& wire) {
  (void)co_await channel.call(std::move(call));
  co_return wire.closed;
}

}  // namespace

// A server recognizes a retransmitted request by its xid (in its duplicate request cache). It may answer another request
// with the same xid from there, without executing it.
TEST_CASE("channel: the xids of two connections of one client begin at different numbers") {
  Wired w;
  Channel second(w.loop, w.completed({}, 1), {});
  const auto first_xid = [&w](Channel& channel) {
    auto call = Wired::made(channel, rt::plain_call());
    w.start(call);
    const Wire& wire = w.wires.back();
    w.connect(wire);
    const std::uint32_t xid = wire.last_call().xid();
    w.answer(wire);
    REQUIRE(call.done());
    return xid;
  };
  const std::uint32_t one = first_xid(w.channel);
  const std::uint32_t other = first_xid(second);
  CHECK(w.wires.size() == 2);
  CHECK(one != other);
  second.shut_down();
  w.loop.end_turn();
}

TEST_CASE("channel: connect_timeout bounds each attempt to connect, however much time its caller has") {
  ChannelOptions options;
  options.connect_timeout = 7s;
  Wired w(std::move(options));
  SUBCASE("the first connection") {
    auto connecting = w.channel.connect(w.loop.now() + 1h);
    w.start(connecting);
    REQUIRE(w.wires.size() == 1);
    CHECK(w.wires.back().asked.deadline == w.loop.now() + 7s);
  }
  SUBCASE("one that replaces another, for which nobody has set a time") {
    const Wire& wire = w.establish();
    w.channel.hold(true);
    w.lose(wire);
    REQUIRE(w.wires.size() == 2);
    CHECK(w.wires.back().asked.deadline == w.loop.now() + 7s);
  }
}

TEST_CASE(
    "U15 channel: a health check whose connection is lost ends in time, and no connection is made for it") {
  Wired w;
  const Wire& wire = w.establish();
  w.channel.check_health(1s, 4);
  w.pass(1100ms);
  REQUIRE(wire.sends.size() == 2);
  CHECK(w.channel.calls() == 1);
  w.lose(wire);
  const auto refuse_connections_for = [&w](async::Clock::duration time) {
    for (const async::TimePoint end = w.loop.now() + time; w.loop.now() < end; w.pass(50ms)) {
      if (const Wire& newest = w.wires.back(); !newest.closed)
        w.lose(newest, Wired::lost("refused", ECONNREFUSED));
    }
  };
  refuse_connections_for(10s);
  CHECK(w.channel.calls() == 0);
  const std::size_t attempts = w.wires.size();
  CHECK(attempts > 2);
  refuse_connections_for(60s);
  CHECK(w.wires.size() == attempts);
}

TEST_CASE(
    "S10 channel: protection: a Reply counts what was sent under a context that the server has forgotten") {
  constexpr std::uint32_t kContextProblem = 14;  // RPCSEC_GSS_CTXPROBLEM, RFC 2203 5.3.3.3
  Wired w;
  const Wire& first = w.establish();
  Renewing protection;
  auto call = made_under(protection, w.channel, rt::plain_call());
  w.start(call);
  REQUIRE(first.sends.size() == 2);
  // The server may have executed the call. It has forgotten the context, as it does when it restarts.
  w.lose(first);
  REQUIRE(w.wires.size() == 2);
  const Wire& second = w.wires.back();
  w.connect(second);
  REQUIRE(second.sends.size() == 1);
  w.refuse_credential(second, kContextProblem);
  CHECK_FALSE(call.done());
  REQUIRE(second.sends.size() == 2);
  w.answer(second);
  REQUIRE(call.done());
  const Outcome outcome = call.await_resume();
  REQUIRE(outcome.reply);
  // The server has not executed what it refused, so the first sending and the last one count.
  CHECK(outcome.sends == 2);
  CHECK(outcome.reply->trip.sends == 2);
}

TEST_CASE(
    "rpc: the refusal of a credential is the server's error EACCES with its auth_stat, and leaves no doubt") {
  constexpr std::uint32_t kTooWeak = 5;  // AUTH_TOOWEAK, RFC 5531 9
  Wired w;
  const Wire& wire = w.establish();
  std::optional<Error> error;
  SUBCASE("version 3, of what must not be done twice") {
    calling::ProcedureCalls calls(
        {&w.channel}, {std::make_shared<security::Sys>("test", security::Identity()), 30s, std::nullopt, 64});
    auto call = calls.call<nfs3::proc::REMOVE>(security::Caller(), nfs3::REMOVE3args(), {},
                                               reply_sizing::result_of_type<nfs3::REMOVE3res>);
    w.start(call);
    w.refuse_credential(wire, kTooWeak);
    REQUIRE(call.done());
    const auto answer = call.await_resume();
    REQUIRE_FALSE(answer);
    error = answer.error();
  }
  SUBCASE("version 4") {
    auto call = Wired::made(w.channel, rt::plain_call());
    w.start(call);
    w.refuse_credential(wire, kTooWeak);
    REQUIRE(call.done());
    Outcome outcome = call.await_resume();
    REQUIRE(outcome.reply);
    nfs4::CompoundReply reply(w.channel, std::move(*outcome.reply));
    const Status begun = reply.begin(nullptr, "OPEN", "server");
    REQUIRE_FALSE(begun);
    error = begun.error();
  }
  CHECK(error->kind() == ErrorKind::server);
  CHECK(error->errno_value() == EACCES);
  CHECK(error->status() == kTooWeak);
  CHECK(error->message().find("refused the credential (auth_stat 5)") != std::string::npos);
  CHECK(error->message().find("sec=") != std::string::npos);  // what to look at
}

// ---- connections ----

TEST_CASE("channel: to connect where there is a connection is done at once, and so it is behind the end") {
  Wired w;
  const Wire& wire = w.establish();
  auto again = w.channel.connect(w.loop.now() + 5s);
  w.start(again);
  REQUIRE(again.done());
  CHECK(again.await_resume());
  CHECK(w.wires.size() == 1);
  CHECK_FALSE(wire.closed);
  w.channel.shut_down();
  auto late = w.channel.connect(w.loop.now() + 5s);
  w.start(late);
  REQUIRE(late.done());
  const Status refused = late.await_resume();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().errno_value() == ESHUTDOWN);
}

TEST_CASE("channel: a connect() that its caller gave up leaves no deadline behind") {
  Wired w;
  {
    auto connecting = w.channel.connect(w.loop.now() + 1s);
    w.start(connecting);
    REQUIRE(w.wires.size() == 1);
    CHECK(w.wires.front().asked.deadline == w.loop.now() + 1s);
  }
  w.pass(2s);
  w.wires.front().hears->on_closed(Wired::lost("no answer", ETIMEDOUT));
  w.pass(1s);
  REQUIRE(w.wires.size() == 2);
  CHECK(w.wires.back().asked.deadline > w.loop.now());
}

TEST_CASE(
    "channel: addresses are tried in their order, share the time, and the last one's error is the answer") {
  Wired w({}, 2);
  auto connecting = w.channel.connect(w.loop.now() + 4s);
  w.start(connecting);
  REQUIRE(w.wires.size() == 1);
  CHECK(fabric::port_of(w.wires[0].asked.address) == 1);
  CHECK(w.wires[0].asked.deadline == w.loop.now() + 2s);
  CHECK(w.wires[0].asked.host == "server");
  w.wires[0].hears->on_closed(Wired::lost("the first one's reason"));
  w.loop.end_turn();
  REQUIRE(w.wires.size() == 2);
  CHECK_FALSE(connecting.done());
  CHECK(fabric::port_of(w.wires[1].asked.address) == 2);
  CHECK(w.wires[1].asked.deadline == w.loop.now() + 4s);
  SUBCASE("none of them answers, and nothing is tried behind the user's back") {
    w.wires[1].hears->on_closed(Wired::lost("the second one's reason", EHOSTUNREACH));
    w.loop.end_turn();
    REQUIRE(connecting.done());
    const Status ended = connecting.await_resume();
    REQUIRE_FALSE(ended);
    CHECK(ended.error().errno_value() == EHOSTUNREACH);
    CHECK(ended.error().message() == "the second one's reason");
    w.pass(20s);
    CHECK(w.wires.size() == 2);
  }
  SUBCASE("the second does; a connection that is lost is looked for at the first again") {
    w.wires[1].hears->on_established({});
    w.loop.end_turn();
    REQUIRE(connecting.done());
    CHECK(connecting.await_resume());
    w.channel.hold(true);
    w.wires[1].hears->on_closed(Wired::lost("reset by peer"));
    w.pass(1s);
    REQUIRE(w.wires.size() == 3);
    CHECK(fabric::port_of(w.wires[2].asked.address) == 1);
    CHECK(w.wires[2].asked.deadline > w.loop.now() + 3s);  // half of connect_timeout
  }
}

TEST_CASE("channel: what the user has chosen is what is dialled") {
  const std::pair<Crc, fabric::iwarp::CrcPolicy> crcs[] = {
      {Crc::automatic, fabric::iwarp::CrcPolicy::automatic},
      {Crc::on, fabric::iwarp::CrcPolicy::on},
      {Crc::off, fabric::iwarp::CrcPolicy::off}};
  const std::pair<Fabric, fabric::Choice> fabrics[] = {{Fabric::automatic, fabric::Choice::automatic},
                                                       {Fabric::verbs, fabric::Choice::verbs},
                                                       {Fabric::iwarp, fabric::Choice::iwarp}};
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    ChannelOptions options;
    options.crc = crcs[i].first;
    options.fabric = fabrics[i].first;
    options.busy_poll = 17us;
    options.rdma.receive_size = 8192;
    options.rdma.send_size = 2048;
    Wired w(std::move(options));
    const Wire& wire = w.establish();
    CHECK(wire.asked.crc == crcs[i].second);
    CHECK(wire.asked.choice == fabrics[i].second);
    CHECK(wire.asked.queues.busy_poll == 17us);
    CHECK(wire.asked.queues.receive_size == 8192);
    CHECK(wire.asked.queues.send_size == 2048);
  }
}

TEST_CASE("channel: the sink hears once of each beginning and each end, whoever ended it") {
  Wired w;
  Wire& wire = w.establish();
  CHECK(w.links == std::vector<bool>{true});
  CHECK(w.channel.generation() == 1);
  SUBCASE("the peer") {
    wire.hears->on_closed(Wired::lost("reset by peer"));
  }
  SUBCASE("the requester, whose peer invalidates what is not its own") {
    wire.hears->on_received(fabric::ReceiveBuffer(100), 0xdead);
  }
  w.loop.end_turn();
  CHECK(w.links == std::vector<bool>{true, false});
  CHECK(wire.closed);
  CHECK_FALSE(w.channel.up());
  auto call = Wired::made(w.channel, rt::plain_call());
  w.start(call);
  w.pass(1s);
  REQUIRE(w.wires.size() == 2);
  w.wires.back().hears->on_established({});
  w.loop.end_turn();
  CHECK(w.links == std::vector<bool>{true, false, true});
  CHECK(w.channel.generation() == 2);
  w.answer(w.wires.back());
  REQUIRE(call.done());
  CHECK(call.await_resume().failure == rpcrdma::Failure::none);
}

// ---- memory, and callers that go ----

TEST_CASE("T27 channel: where memory cannot be taken back the connection is closed before the call ends") {
  Wired w;
  Wire& wire = w.establish();
  wire.takes_back = false;
  rt::Octets destination(5000);
  auto call = ends_behind_close(w.channel, rt::read_call(destination), wire);
  w.start(call);
  w.answer(wire);
  REQUIRE(call.done());
  CHECK(call.await_resume());
  CHECK(wire.revoked.size() == 1);
  CHECK(w.links == std::vector<bool>{true, false});
}

TEST_CASE("T28 channel: the memory of a call whose task goes is its owner's when that returns") {
  Wired w;
  Wire& wire = w.establish();
  rt::Octets destination(5000);
  SUBCASE("taken back at once") {
    wire.takes_back_at_once = true;
  }
  SUBCASE("taken back in no time") {}
  SUBCASE("by the end of the connection, where the fabric needs time") {
    wire.settles = false;
  }
  SUBCASE("or cannot") {
    wire.takes_back = false;
  }
  {
    auto call = Wired::made(w.channel, rt::read_call(destination));
    w.start(call);
    REQUIRE(wire.sends.size() == 2);
    CHECK(wire.abandoned.empty());
  }
  CHECK(wire.abandoned.size() == 1);  // the server has not answered, and may go on using it
  CHECK(wire.revoked.empty());
  const bool settles = !wire.takes_back_at_once && wire.takes_back;
  CHECK(wire.settled == (settles ? 1U : 0U));
  CHECK(wire.closed == !(wire.settles && wire.takes_back));
  w.loop.end_turn();
  CHECK(w.channel.up() == !wire.closed);
  CHECK(w.links.size() == (wire.closed ? 2U : 1U));
  // Others go on, here or on the next connection.
  auto next = Wired::made(w.channel, rt::plain_call());
  w.start(next);
  w.pass(1s);
  if (wire.closed) {
    REQUIRE(w.wires.size() == 2);
    w.wires.back().hears->on_established({});
    w.loop.end_turn();
  }
  w.answer(w.wires.back());
  REQUIRE(next.done());
  CHECK(next.await_resume().failure == rpcrdma::Failure::none);
}

TEST_CASE("channel: where calls are seldom no clock runs between them, but one for each that waits") {
  Wired w;
  Wire& wire = w.establish();
  w.pass(4s);  // what was set for the first call has run down
  CHECK(w.loop.next_timer() == async::TimePoint::max());
  auto answered = Wired::made(w.channel, rt::plain_call());
  w.start(answered);
  CHECK(w.loop.next_timer() != async::TimePoint::max());
  w.answer(wire);
  REQUIRE(answered.done());
  CHECK(w.loop.next_timer() == async::TimePoint::max());
  rpcrdma::Call due = rt::plain_call();
  due.deadline = w.loop.now() + 5s;
  auto forgotten = Wired::made(w.channel, std::move(due));
  w.start(forgotten);
  w.pass(5s);
  REQUIRE(forgotten.done());
  CHECK(forgotten.await_resume().failure == rpcrdma::Failure::timed_out);
}

TEST_CASE("channel: calls that are handed back end as cancelled, but those whose answer is there") {
  Wired w;
  Wire& wire = w.establish();
  rt::Octets destination(5000);
  auto answered = Wired::made(w.channel, rt::read_call(destination));
  w.start(answered);
  const std::uint64_t send = wire.sends.back().first;
  w.answer(wire);
  REQUIRE(wire.revoked.size() == 1);
  CHECK_FALSE(answered.done());
  auto waiting = Wired::made(w.channel, rt::plain_call());
  w.start(waiting);
  CHECK(w.channel.calls() == 2);
  w.channel.hand_calls_back();
  w.loop.end_turn();
  REQUIRE(waiting.done());
  const Outcome outcome = waiting.await_resume();
  CHECK(outcome.failure == rpcrdma::Failure::cancelled);
  CHECK(outcome.sends == 1);
  CHECK_FALSE(answered.done());
  // That its Send is done says nothing of its memory.
  wire.hears->on_completed(send);
  CHECK_FALSE(answered.done());
  wire.hears->on_completed(wire.revoked.front());
  REQUIRE(answered.done());
  CHECK(answered.await_resume().failure == rpcrdma::Failure::none);
  CHECK(w.channel.calls() == 0);
}

}  // namespace nfsrdma::rpc
