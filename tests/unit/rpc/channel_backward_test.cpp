// Calls of the server's through a Channel (RFC 8167): a real connection on the loopback interface, and a
// server that calls.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "fabric/iwarp/listener.h"
#include "rpc/channel.h"
#include "rpcrdma/header.h"
#include "support/loopback.h"
#include "support/recorder.h"

namespace nfsrdma::rpc {
namespace {

using namespace std::chrono_literals;
using Octets = std::vector<std::byte>;

constexpr std::uint32_t kCredits = 3;

void add_word(Octets& to, std::uint32_t word) {
  to.resize(to.size() + 4);
  xdr::store_u32(&to[to.size() - 4], word);
}

/// Accepts one connection after another, answers each Call at once, and calls.
struct Server final : fabric::Handler {
  explicit Server(async::Loop& l) : loop(l) {
    auto made = fabric::iwarp::Listener::listen(loop, testing::loopback(0),
                                                [this](std::unique_ptr<fabric::Incoming> incoming) {
                                                  auto accepted = incoming->accept({}, *this);
                                                  REQUIRE(accepted);
                                                  gone.push_back(std::move(connection));
                                                  connection = std::move(*accepted);
                                                  for (int i = 0; i < 40; ++i)
                                                    connection->post_receive(fabric::ReceiveBuffer(1024));
                                                  ++connections;
                                                });
    REQUIRE(made);
    listener = std::move(*made);
  }
  void on_established(const fabric::Established&) override {}
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t>) override {
    rpcrdma::rdma_msg header;
    const auto decoded = rpcrdma::decode(buffer.message(), header);
    REQUIRE(decoded.fault == rpcrdma::HeaderFault::none);
    const auto payload = buffer.message().subspan(decoded.size);
    if (header.proc == rpcrdma::rdma_proc::RDMA_MSG && xdr::load_u32(&payload[4]) == 0) {
      reply(header.rdma_xid);
    } else {
      credits = header.rdma_credit;
      answers[header.rdma_xid] = Octets(payload.begin(), payload.end());
    }
    connection->post_receive(std::move(buffer));
  }
  void on_completed(std::uint64_t cookie) override { out.erase(cookie); }
  void on_closed(const Error&) override {}

  void reply(std::uint32_t xid) {
    Octets message;
    for (const std::uint32_t word : {xid, 1U, 32U, 0U, 0U, 0U, 0U, xid, 1U, 0U, 0U, 0U, 0U}) {
      add_word(message, word);
    }
    send(std::move(message));
  }
  void call(std::uint32_t xid, std::uint32_t argument) {
    Octets message;
    for (const std::uint32_t word :
         {xid, 1U, 1U, 0U, 0U, 0U, 0U, xid, 0U, 2U, 0x40000000U, 1U, 1U, 0U, 0U, 0U, 0U, argument}) {
      add_word(message, word);
    }
    send(std::move(message));
  }
  void send(Octets message) {
    Octets& kept = out[++last] = std::move(message);
    const fabric::ConstBytes piece = kept;
    fabric::SendWork work;
    work.cookie = last;
    work.pieces = {&piece, 1};
    connection->post_send(work);
    connection->flush();
  }

  async::Loop& loop;
  std::unique_ptr<fabric::iwarp::Listener> listener;
  std::unique_ptr<fabric::Connection> connection;
  std::vector<std::unique_ptr<fabric::Connection>> gone;
  std::map<std::uint64_t, Octets> out;
  std::uint64_t last = 0;
  unsigned connections = 0;
  std::uint32_t credits = 0;
  std::map<std::uint32_t, Octets> answers;
};

/// Answers with twice the argument: at once, or when the test says so.
struct Doubler final : BackwardService {
  explicit Doubler(Channel& c) : channel(c) {}
  void on_backward_call(rpcrdma::BackwardId id, fabric::ConstBytes message) override {
    REQUIRE(message.size() == 44);
    const std::uint32_t result = 2 * xdr::load_u32(&message[40]);
    if (later) {
      waiting.emplace_back(id, result);
    } else {
      answer(id, result);
    }
  }
  void answer(rpcrdma::BackwardId id, std::uint32_t result) {
    xdr::Message reply = channel.take_message();
    xdr::Encoder encoder(reply);
    for (const std::uint32_t word : {0U, 1U, 0U, 0U, 0U, 0U, result}) encoder.u32(word);
    channel.answer(id, std::move(reply));
  }
  Channel& channel;
  bool later = false;
  std::vector<std::pair<rpcrdma::BackwardId, std::uint32_t>> waiting;
};

struct Fixture {
  async::Loop loop;
  Server server{loop};
  Channel channel{loop, options(), {}};
  Doubler doubler{channel};

  Fixture() {
    channel.set_backward(&doubler);
    REQUIRE(loop.run(channel.connect(loop.now() + 5s)));
    until([&] { return server.connections == 1; });
  }
  ~Fixture() {
    channel.shut_down();
    loop.turn(loop.now());
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  ChannelOptions options() {
    Address address;
    address.storage = testing::loopback(server.listener->port());
    address.length = sizeof(sockaddr_in);
    ChannelOptions out;
    out.server = "server";
    out.addresses = {address};
    out.rdma.backward_credits = kCredits;
    return out;
  }
  void until(const std::function<bool()>& so) { CHECK(testing::runs_until(loop, so, 5s)); }
  void check_answer(std::uint32_t xid, std::uint32_t result) {
    until([&] { return server.answers.contains(xid); });
    const Octets& answer = server.answers[xid];
    REQUIRE(answer.size() == 28);
    CHECK(xdr::load_u32(answer.data()) == xid);
    CHECK(xdr::load_u32(&answer[24]) == result);
  }
};

async::Task<Outcome> call_server(Channel& channel) {
  rpcrdma::Call call;
  std::memset(call.message.stream.extend(40), 0, 40);
  call.reply_max_inline = call.reply_max_reduced = 24;
  co_return co_await channel.call(std::move(call));
}

}  // namespace

TEST_CASE("channel: a Call of the server's is answered from inside the callback, many times over") {
  Fixture f;
  for (std::uint32_t i = 0; i < 100; ++i) {
    f.server.call(1000 + i, i);
    f.check_answer(1000 + i, 2 * i);
    if (i % 10 != 0) continue;
    CHECK(f.loop.run(call_server(f.channel)).failure == rpcrdma::Failure::none);
  }
  CHECK(f.server.credits == kCredits);
  CHECK(f.channel.facts().backward_replies == 100);
  CHECK(f.channel.facts().discarded == 0);
  CHECK(f.server.connections == 1);
}

TEST_CASE("channel: Calls are answered later, in any order, with calls of ours in between") {
  Fixture f;
  f.doubler.later = true;
  for (std::uint32_t i = 0; i < kCredits; ++i) f.server.call(i, 100 + i);
  f.until([&] { return f.doubler.waiting.size() == kCredits; });
  CHECK(f.loop.run(call_server(f.channel)).failure == rpcrdma::Failure::none);
  CHECK(f.server.answers.empty());
  while (!f.doubler.waiting.empty()) {
    const auto [id, result] = f.doubler.waiting.back();
    f.doubler.waiting.pop_back();
    f.doubler.answer(id, result);
  }
  for (std::uint32_t i = 0; i < kCredits; ++i) f.check_answer(i, 200 + 2 * i);
}

TEST_CASE("channel: without a service a Call of the server's is refused, and the connection goes on") {
  Fixture f;
  f.channel.set_backward(nullptr);
  for (std::uint32_t i = 0; i < 10; ++i) f.server.call(i, i);
  f.until([&] { return f.server.answers.size() == 10; });
  CHECK(f.channel.facts().backward_refused == 10);
  f.server.answers.clear();
  f.channel.set_backward(&f.doubler);
  f.server.call(100, 21);
  f.check_answer(100, 42);
  CHECK(f.server.answers.size() == 1);
  CHECK(f.server.connections == 1);
}

TEST_CASE("channel: a held connection is made anew, and the server calls on it; late answers go nowhere") {
  Fixture f;
  f.doubler.later = true;
  f.channel.hold(true);
  f.server.call(1, 5);
  f.until([&] { return f.doubler.waiting.size() == 1; });
  f.server.connection->close();
  f.until([&] { return f.server.connections == 2 && f.channel.generation() == 2; });
  f.doubler.answer(f.doubler.waiting[0].first, 10);
  f.doubler.later = false;
  f.server.call(2, 6);
  f.check_answer(2, 12);
  CHECK(f.server.answers.size() == 1);
  CHECK(f.channel.facts().discarded == 1);
}

TEST_CASE("channel: a device is asked for room for all Receives, also where credits are few") {
  async::Loop loop;
  const auto receives = [&loop](std::uint32_t credits) {
    std::uint32_t out = 0;
    Address nobody;
    nobody.storage = testing::loopback(1);
    nobody.length = sizeof(sockaddr_in);
    ChannelOptions options;
    options.server = "server";
    options.addresses = {nobody};
    options.fabric = Fabric::iwarp;
    options.rdma.credits_wanted = credits;
    options.rdma.backward_credits = kCredits;
    options.dial = [&out, dial = fabric::system_dialer()](async::Loop& on, fabric::DialOptions asked,
                                                          fabric::Handler& hears) {
      out = asked.queues.receive_count;
      return dial(on, std::move(asked), hears);
    };
    Channel channel(loop, options, {});
    CHECK_FALSE(loop.run(channel.connect(loop.now() + 5s)));
    channel.shut_down();
    loop.turn(loop.now());
    return out;
  };
  CHECK(receives(1) == 1 + kCredits + rpcrdma::kSpareReceives);
  CHECK(receives(5) == 10);
  CHECK(receives(64) == 128);
}

}  // namespace nfsrdma::rpc
