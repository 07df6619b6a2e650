// A Channel on connections that do what the test says: dialling, what becomes of a call whose caller goes, and whose
// memory can be taken back late or not at all.
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fabric/address.h"
#include "rpc/channel.h"
#include "support/loopback.h"
#include "support/rpcrdma_driver.h"
#include "support/virtual_world.h"

namespace nfsrdma::rpc {
namespace {

using namespace std::chrono_literals;
namespace rt = rpcrdma::testing;

Error lost(const char* text, int errno_value = ECONNRESET) {
  return {ErrorKind::connection, errno_value, "connect", "server", text};
}

/// What was asked of one connection, and how it is to answer. The test's: it is there when the connection is not.
struct Wire {
  fabric::DialOptions asked;
  fabric::Handler* hears = nullptr;
  std::vector<std::pair<std::uint64_t, rt::Octets>> sends;  // by cookie
  std::vector<std::uint64_t> revoked, abandoned;            // cookies
  bool takes_back_at_once = false, takes_back = true, settles = true;
  unsigned settled = 0;
  bool closed = false;
};

class WiredConnection final : public fabric::Connection {
 public:
  explicit WiredConnection(Wire& wire) : wire_(wire) {}
  void post_receive(fabric::ReceiveBuffer /*buffer*/) override {}
  void post_send(const fabric::SendWork& work) override {
    REQUIRE(work.pieces.size() == 1);
    const fabric::ConstBytes bytes = work.pieces.front();
    wire_.sends.emplace_back(work.cookie, rt::Octets(bytes.begin(), bytes.end()));
  }
  Status expose(fabric::Bytes memory, fabric::Reach /*reach*/,
                std::vector<fabric::RemoteSegment>& to) override {
    to.push_back({++last_handle_, static_cast<std::uint32_t>(memory.size()), 0});
    return {};
  }
  Status revoke(std::span<const fabric::RemoteSegment> /*segments*/, std::uint64_t cookie) override {
    wire_.revoked.push_back(cookie);
    return take_back(cookie);
  }
  Status abandon(std::span<const fabric::RemoteSegment> /*segments*/, std::uint64_t cookie) override {
    wire_.abandoned.push_back(cookie);
    return take_back(cookie);
  }
  bool settle() override {
    ++wire_.settled;
    return wire_.settles;
  }
  void forget(std::span<const fabric::RemoteSegment> /*segments*/) override {}
  void post_rdma_write(fabric::ConstBytes, const fabric::RemoteSegment&, std::uint64_t) override {}
  void post_rdma_read(fabric::Bytes, const fabric::RemoteSegment&, std::uint64_t) override {}
  void flush() override {}
  [[nodiscard]] std::size_t segments_for(std::size_t /*length*/) const override { return 1; }
  void close() override { wire_.closed = true; }
  [[nodiscard]] std::string peer_name() const override { return "server"; }

 private:
  Status take_back(std::uint64_t cookie) {
    if (!wire_.takes_back) return Error(ErrorKind::local, EIO, "revoke", "server", "the device is stuck");
    if (wire_.takes_back_at_once) wire_.hears->on_completed(cookie);
    return {};
  }
  Wire& wire_;
  std::uint32_t last_handle_ = 0x100;
};

struct Wired {
  testing::VirtualWorld world;
  std::deque<Wire> wires;
  std::vector<bool> links;  // as the sink heard of them
  async::Loop loop{world};
  Channel channel;

  explicit Wired(ChannelOptions options = {}, unsigned addresses = 1)
      : channel(loop, completed(std::move(options), addresses), {}) {
    channel.set_link_sink([this](bool up) { links.push_back(up); });
  }
  ~Wired() {
    channel.shut_down();
    loop.end_turn();
  }
  Wired(const Wired&) = delete;
  Wired& operator=(const Wired&) = delete;

  ChannelOptions completed(ChannelOptions options, unsigned addresses) {
    options.server = "server";
    for (unsigned i = 1; i <= addresses; ++i) {
      Address address;
      address.storage = testing::loopback(static_cast<std::uint16_t>(i));
      address.length = sizeof(sockaddr_in);
      options.addresses.push_back(address);
    }
    options.dial = [this](async::Loop& /*on*/, fabric::DialOptions asked, fabric::Handler& hears) {
      Wire& wire = wires.emplace_back();
      wire.asked = std::move(asked);
      wire.hears = &hears;
      return std::make_unique<WiredConnection>(wire);
    };
    return options;
  }
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    loop.end_turn();
  }
  void pass(async::Clock::duration time) {
    const async::TimePoint until = loop.now() + time;
    while (loop.now() < until) loop.turn(until);
  }
  /// A connection, with a grant by the Reply to one call.
  Wire& establish();
  /// Answers the last Send of the wire.
  void answer(Wire& wire) {
    const rt::CallView call = last_call(wire);
    const rt::Octets bytes = rt::ReplyMaker(call).bytes();
    fabric::ReceiveBuffer buffer(4096);
    std::copy(bytes.begin(), bytes.end(), buffer.storage().begin());
    buffer.set_length(bytes.size());
    wire.hears->on_received(std::move(buffer), std::nullopt);
    loop.end_turn();
  }
  static rt::CallView last_call(const Wire& wire) {
    REQUIRE_FALSE(wire.sends.empty());
    rt::CallView call{wire.sends.back().first, wire.sends.back().second, {}, 0};
    call.header_size = rpcrdma::decode(call.bytes, call.header).size;
    return call;
  }
};

async::Task<Outcome> make(Channel& channel, rpcrdma::Call call) {
  co_return co_await channel.call(std::move(call));
}

/// Whether the wire had been closed when the call came to its end.
async::Task<bool> ends_behind_close(Channel& channel, rpcrdma::Call call, const Wire& wire) {
  (void)co_await channel.call(std::move(call));
  co_return wire.closed;
}

Wire& Wired::establish() {
  auto connecting = channel.connect(loop.now() + 5s);
  start(connecting);
  REQUIRE(wires.size() == 1);
  Wire& wire = wires.front();
  wire.hears->on_established({});
  loop.end_turn();
  REQUIRE(connecting.done());
  REQUIRE(connecting.await_resume());
  auto first = make(channel, rt::plain_call());
  start(first);
  answer(wire);
  REQUIRE(first.done());
  return wire;
}

}  // namespace

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
  w.wires.front().hears->on_closed(lost("no answer", ETIMEDOUT));
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
  w.wires[0].hears->on_closed(lost("the first one's reason"));
  w.loop.end_turn();
  REQUIRE(w.wires.size() == 2);
  CHECK_FALSE(connecting.done());
  CHECK(fabric::port_of(w.wires[1].asked.address) == 2);
  CHECK(w.wires[1].asked.deadline == w.loop.now() + 4s);
  SUBCASE("none of them answers, and nothing is tried behind the user's back") {
    w.wires[1].hears->on_closed(lost("the second one's reason", EHOSTUNREACH));
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
    w.wires[1].hears->on_closed(lost("reset by peer"));
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
    wire.hears->on_closed(lost("reset by peer"));
  }
  SUBCASE("the requester, whose peer invalidates what is not its own") {
    wire.hears->on_received(fabric::ReceiveBuffer(100), 0xdead);
  }
  w.loop.end_turn();
  CHECK(w.links == std::vector<bool>{true, false});
  CHECK(wire.closed);
  CHECK_FALSE(w.channel.up());
  auto call = make(w.channel, rt::plain_call());
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
    auto call = make(w.channel, rt::read_call(destination));
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
  auto next = make(w.channel, rt::plain_call());
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
  auto answered = make(w.channel, rt::plain_call());
  w.start(answered);
  CHECK(w.loop.next_timer() != async::TimePoint::max());
  w.answer(wire);
  REQUIRE(answered.done());
  CHECK(w.loop.next_timer() == async::TimePoint::max());
  rpcrdma::Call due = rt::plain_call();
  due.deadline = w.loop.now() + 5s;
  auto forgotten = make(w.channel, std::move(due));
  w.start(forgotten);
  w.pass(5s);
  REQUIRE(forgotten.done());
  CHECK(forgotten.await_resume().failure == rpcrdma::Failure::timed_out);
}

TEST_CASE("channel: calls that are handed back end as cancelled, but those whose answer is there") {
  Wired w;
  Wire& wire = w.establish();
  rt::Octets destination(5000);
  auto answered = make(w.channel, rt::read_call(destination));
  w.start(answered);
  const std::uint64_t send = wire.sends.back().first;
  w.answer(wire);
  REQUIRE(wire.revoked.size() == 1);
  CHECK_FALSE(answered.done());
  auto waiting = make(w.channel, rt::plain_call());
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
