// A Channel on connections that do what the test says, on virtual time and without a network.
//
//     Wired w;
//     Wire& wire = w.establish();                        // a connection with a grant
//     auto call = Wired::made(w.channel, plain_call());
//     w.start(call);                                     // wire.sends.back() is the Call
//     w.answer(wire);                                    // or w.lose(wire)
//
// Each connection that the Channel dials is a Wire, the newest one last. A Wire has neither connected nor failed until the
// test says so: connect(), lose(). Confined to one thread.
#pragma once

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

#include "rpc/channel.h"
#include "support/loopback.h"
#include "support/rpcrdma_driver.h"
#include "support/virtual_world.h"

namespace nfsrdma::testing {

/// What was asked of one connection, and how it is to answer. The test's: it is there when the connection is not.
struct Wire {
  fabric::DialOptions asked;
  fabric::Handler* hears = nullptr;
  std::vector<std::pair<std::uint64_t, rpcrdma::testing::Octets>> sends;  // by cookie
  std::vector<std::uint64_t> revoked, abandoned;                          // cookies
  bool takes_back_at_once = false, takes_back = true, settles = true;
  unsigned settled = 0;
  bool closed = false;

  /// The newest Call on it.
  [[nodiscard]] rpcrdma::testing::CallView last_call() const {
    REQUIRE_FALSE(sends.empty());
    rpcrdma::testing::CallView call{sends.back().first, sends.back().second, {}, 0};
    call.header_size = rpcrdma::decode(call.bytes, call.header).size;
    return call;
  }
};

class WiredConnection final : public fabric::Connection {
 public:
  explicit WiredConnection(Wire& wire) : wire_(wire) {}
  void post_receive(fabric::ReceiveBuffer /*buffer*/) override {}
  void post_send(const fabric::SendWork& work) override {
    REQUIRE(work.pieces.size() == 1);
    const fabric::ConstBytes bytes = work.pieces.front();
    wire_.sends.emplace_back(work.cookie, rpcrdma::testing::Octets(bytes.begin(), bytes.end()));
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
  VirtualWorld world;
  std::deque<Wire> wires;
  std::vector<bool> links;  // as the sink heard of them
  async::Loop loop{world};
  rpc::Channel channel;

  explicit Wired(rpc::ChannelOptions options = {}, unsigned addresses = 1)
      : channel(loop, completed(std::move(options), addresses), {}) {
    channel.set_link_sink([this](bool up) { links.push_back(up); });
  }
  ~Wired() {
    channel.shut_down();
    loop.end_turn();
  }
  Wired(const Wired&) = delete;
  Wired& operator=(const Wired&) = delete;

  /// Why a connection could not be had, or has ended.
  static Error lost(const char* text, int errno_value = ECONNRESET) {
    return {ErrorKind::connection, errno_value, "connect", "server", text};
  }
  /// What becomes of one call.
  static async::Task<rpc::Outcome> made(rpc::Channel& channel, rpcrdma::Call call) {
    co_return co_await channel.call(std::move(call));
  }
  /// The options of a Channel whose connections are Wires.
  rpc::ChannelOptions completed(rpc::ChannelOptions options, unsigned addresses) {
    options.server = "server";
    for (unsigned i = 1; i <= addresses; ++i) {
      rpc::Address address;
      address.storage = loopback(static_cast<std::uint16_t>(i));
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
  /// The connection has come about.
  void connect(const Wire& wire) {
    wire.hears->on_established({});
    loop.end_turn();
  }
  /// The connection cannot be had, or has ended.
  void lose(const Wire& wire, const Error& why = lost("reset by peer")) {
    wire.hears->on_closed(why);
    loop.end_turn();
  }
  /// A connection, with a grant by the Reply to one call.
  Wire& establish() {
    auto connecting = channel.connect(loop.now() + std::chrono::seconds(5));
    start(connecting);
    REQUIRE(wires.size() == 1);
    Wire& wire = wires.front();
    connect(wire);
    REQUIRE(connecting.done());
    REQUIRE(connecting.await_resume());
    auto first = made(channel, rpcrdma::testing::plain_call());
    start(first);
    answer(wire);
    REQUIRE(first.done());
    return wire;
  }
  /// Answers the newest Call on the wire: it has been executed, without results.
  void answer(const Wire& wire) { answer(wire, rpcrdma::testing::ReplyMaker(wire.last_call())); }
  void answer(const Wire& wire, const rpcrdma::testing::ReplyMaker& reply) {
    const rpcrdma::testing::Octets bytes = reply.bytes();
    fabric::ReceiveBuffer buffer(4096);
    std::ranges::copy(bytes, buffer.storage().begin());
    buffer.set_length(bytes.size());
    wire.hears->on_received(std::move(buffer), std::nullopt);
    loop.end_turn();
  }
  /// Answers it with AUTH_ERROR (RFC 5531 9): the server has not looked at it.
  void refuse_credential(const Wire& wire, std::uint32_t auth_stat) {
    rpcrdma::testing::ReplyMaker reply(wire.last_call());
    reply.payload.resize(20);
    std::byte* at = reply.payload.data();
    for (const std::uint32_t word : {reply.header.rdma_xid, 1U, 1U, 1U, auth_stat}) {
      xdr::store_u32(at, word);
      at += 4;
    }
    answer(wire, reply);
  }
};

}  // namespace nfsrdma::testing
