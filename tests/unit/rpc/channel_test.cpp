// Calls on a Channel whose connections come and go as the test says: which xids they have, how long the Channel tries to
// have a connection, and what a caller learns of a call that was refused or sent more than once.
#include "rpc/channel.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "calling/procedure_calls.h"
#include "nfs3/types/procedures.h"
#include "nfs4/compound.h"
#include "reply_sizing/reply_size.h"
#include "rpc/make_call.h"
#include "security/sys.h"
#include "support/rpcrdma_driver.h"
#include "support/wired.h"

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

}  // namespace nfsrdma::rpc
