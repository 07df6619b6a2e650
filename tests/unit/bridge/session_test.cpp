// The bridge between a client on iWARP and a server on TCP, both played by the test, on one loop.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <cstring>
#include <functional>

#include "bridge/bridge.h"
#include "fabric/iwarp/connection.h"
#include "support/loopback.h"
#include "support/recorder.h"
#include "unit/bridge/messages.h"

namespace nfsrdma::bridge {
namespace {

using namespace std::chrono_literals;
using testing::Octets;
using testing::words;

using testing::loopback;

/// A server that keeps what it gets, record by record.
struct TcpServer {
  explicit TcpServer(async::Loop& loop_in) : loop(loop_in), listening(::socket(AF_INET, SOCK_STREAM, 0)) {
    const auto address = loopback(0);
    REQUIRE(::bind(listening.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0);
    REQUIRE(::listen(listening.fd(), 8) == 0);
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(listening.fd(), reinterpret_cast<sockaddr*>(&bound), &size);
    address_of_it = bound;
    loop.watch(listening.fd(), EPOLLIN, [this](std::uint32_t) {
      peer = fabric::iwarp::Socket(::accept4(listening.fd(), nullptr, nullptr, SOCK_NONBLOCK));
      loop.watch(peer.fd(), EPOLLIN, [this](std::uint32_t) { receive(); });
    });
  }
  ~TcpServer() {
    loop.unwatch(listening.fd());
    close();
  }
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;
  void receive() {
    std::vector<std::byte> bytes(65536);
    const ssize_t count = ::recv(peer.fd(), bytes.data(), bytes.size(), 0);
    if (count <= 0) {
      ended = true;
      return close();
    }
    CHECK(reader.feed(ConstBytes(bytes).first(static_cast<std::size_t>(count)), [this](xdr::Buffer record) {
      records.emplace_back(record.bytes().begin(), record.bytes().end());
    }));
  }
  void send(const Octets& message) const {
    Octets record = words({kLastFragment | static_cast<std::uint32_t>(message.size())});
    testing::append(record, message);
    CHECK(::send(peer.fd(), record.data(), record.size(), 0) == static_cast<ssize_t>(record.size()));
  }
  void close() {
    if (!peer.valid()) return;
    loop.unwatch(peer.fd());
    peer.reset();
  }
  async::Loop& loop;
  fabric::iwarp::Socket listening, peer;
  sockaddr_storage address_of_it{};
  RecordReader reader{1U << 20};
  std::vector<Octets> records;
  bool ended = false;
};

struct Client : fabric::Handler {
  void on_established(const fabric::Established& e) override { established = e; }
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> handle) override {
    const ConstBytes m = buffer.message();
    messages.emplace_back(m.begin(), m.end());
    invalidated = handle;
  }
  void on_completed(std::uint64_t) override {}
  void on_closed(const Error& why) override { closed = why; }

  void send(const rdma_msg& header, const Octets& payload) {
    xdr::Buffer bytes;
    rpcrdma::encode(header, bytes);
    Octets& all = sent.emplace_back(bytes.bytes().begin(), bytes.bytes().end());
    testing::append(all, payload);
    const ConstBytes piece = all;
    connection->post_send({.cookie = 1, .pieces = {&piece, 1}, .invalidate = {}, .solicited = false});
  }
  /// The header of the n-th message; what is behind it.
  rdma_msg header(std::size_t n) const {
    rdma_msg out;
    CHECK(rpcrdma::decode(messages.at(n), out).fault == rpcrdma::HeaderFault::none);
    return out;
  }
  Octets payload(std::size_t n) const {
    const auto size = rpcrdma::encoded_size(header(n));
    return {messages[n].begin() + static_cast<std::ptrdiff_t>(size), messages[n].end()};
  }
  std::unique_ptr<fabric::Connection> connection;
  std::optional<fabric::Established> established;
  std::optional<std::uint32_t> invalidated;
  std::vector<Octets> messages;
  std::deque<Octets> sent;
  std::optional<Error> closed;
};

struct Setup {
  explicit Setup(const std::function<void(BridgeOptions&)>& change = {}) : server(loop) {
    BridgeOptions options;
    options.listen = loopback(0);
    options.server = server.address_of_it;
    if (change) change(options);
    bridge = std::make_unique<Bridge>(loop, options, [](const std::string&) {});
    REQUIRE(bridge->start());
    fabric::iwarp::ConnectOptions to;
    to.address = loopback(bridge->port());
    const auto octets = rpcrdma::encode(rpcrdma::PrivateData{true, 4096, 4096});
    to.private_data.assign(octets.begin(), octets.end());
    to.deadline = loop.now() + 5s;
    client.connection = fabric::iwarp::connect(loop, to, client);
    for (int i = 0; i < 20; ++i) client.connection->post_receive(fabric::ReceiveBuffer(4096));
    run([&] { return client.established.has_value(); });
  }
  void run(const std::function<bool()>& done) { REQUIRE(testing::runs_until(loop, done)); }
  /// A Call that the server does not answer yet.
  void call(std::uint32_t xid) {
    rdma_msg header;
    header.rdma_xid = xid;
    const std::size_t before = server.records.size();
    client.send(header, testing::rpc_call(xid, 100003, 4, 0, {}));
    run([&] { return server.records.size() == before + 1; });
  }
  void wait_for_messages(std::size_t count) {
    run([&] { return client.messages.size() == count; });
  }
  async::Loop loop;
  TcpServer server;
  Client client;
  std::unique_ptr<Bridge> bridge;
};

Octets null_reply(std::uint32_t xid) {
  return words({xid, 1, 0, 0, 0, 0});
}

}  // namespace

TEST_CASE("bridge: a Call and its Reply, and the end of either side ends the other") {
  for (const bool server_ends : {false, true}) {
    Setup s;
    s.call(7);
    CHECK(s.server.records.front() == testing::rpc_call(7, 100003, 4, 0, {}));
    s.server.send(null_reply(7));
    s.wait_for_messages(1);
    CHECK(s.client.header(0).rdma_credit == 64);
    CHECK(s.client.payload(0) == null_reply(7));
    CHECK_FALSE(s.client.invalidated);
    CHECK(s.bridge->sessions() == 1);
    if (server_ends) {
      s.server.close();
      s.run([&] { return s.client.closed.has_value(); });
    } else {
      s.client.connection->close();
      s.run([&] { return s.server.ended; });
    }
    s.run([&] { return s.bridge->sessions() == 0; });
  }
}

TEST_CASE("bridge: the server's Calls go to the client within its credits, the answers back (RFC 8167)") {
  Setup s;
  s.call(7);
  const Octets callback = testing::rpc_call(7, 0x40000000, 1, 1, {5});  // the same xid the other way (2.4)
  s.server.send(callback);
  s.server.send(testing::rpc_call(8, 0x40000000, 1, 1, {6}));
  s.wait_for_messages(1);
  CHECK(s.client.payload(0) == callback);
  CHECK(s.client.header(0).rdma_credit > 0);
  // One until the first grant; then both that are left.
  s.server.send(testing::rpc_call(9, 0x40000000, 1, 1, {6}));
  s.server.send(null_reply(7));
  s.wait_for_messages(2);
  CHECK(s.client.payload(1) == null_reply(7));
  rdma_msg answer;
  answer.rdma_xid = 7;
  answer.rdma_credit = 2;
  s.client.send(answer, words({7, 1, 0, 0, 0, 0, 77}));
  s.wait_for_messages(4);
  CHECK(s.client.header(2).rdma_xid == 8);
  CHECK(s.client.header(3).rdma_xid == 9);
  s.run([&] { return s.server.records.size() == 2; });
  CHECK(s.server.records[1] == words({7, 1, 0, 0, 0, 0, 77}));

  // A client that cannot take it, and a Call that does not fit: SYSTEM_ERR.
  s.client.send(error_header(8, 1, 2, rpcrdma::rpc_rdma_errcode::ERR_CHUNK), {});
  s.run([&] { return s.server.records.size() == 3; });
  CHECK(s.server.records[2] == words({8, 1, 0, 0, 0, 5}));
  Octets large = callback;
  large.resize(5000);
  s.server.send(large);
  s.run([&] { return s.server.records.size() == 4; });
  CHECK(s.server.records[3] == words({7, 1, 0, 0, 0, 5}));
  // An answer that nobody waits for goes nowhere.
  s.client.send(answer, words({7, 1, 0, 0, 0, 0}));
  s.call(10);
  CHECK(s.server.records.size() == 5);
}

TEST_CASE("bridge: P6 remote invalidation where both want it") {
  Setup s([](BridgeOptions& o) { o.session.remote_invalidation = true; });
  std::vector<std::byte> memory(100);
  const auto exposed = s.client.connection->expose(memory, fabric::Reach::remote_write);
  REQUIRE(exposed);
  rdma_msg header;
  header.rdma_xid = 7;
  header.has_rdma_reply = true;
  header.rdma_reply = *exposed;
  s.client.send(header, testing::rpc_call(7, 100003, 4, 0, {}));
  s.run([&] { return s.server.records.size() == 1; });
  s.server.send(null_reply(7));
  s.wait_for_messages(1);
  CHECK(s.client.invalidated == exposed->front().handle);
}

TEST_CASE("bridge: a long Call is pulled, a long Reply pushed") {
  Setup s;
  Octets call = testing::rpc_call(7, 100003, 4, 1, {});
  call.resize(300'000, std::byte{0x33});
  std::vector<std::byte> room(200'000);
  const auto from = s.client.connection->expose(call, fabric::Reach::remote_read);
  const auto to = s.client.connection->expose(room, fabric::Reach::remote_write);
  REQUIRE(from);
  REQUIRE(to);
  rdma_msg header;
  header.rdma_xid = 7;
  header.proc = rdma_proc::RDMA_NOMSG;
  header.rdma_reads = {{0, from->front()}};
  header.has_rdma_reply = true;
  header.rdma_reply = *to;
  s.client.send(header, {});
  s.run([&] { return s.server.records.size() == 1; });
  CHECK(s.server.records.front() == call);
  Octets reply = null_reply(7);
  reply.resize(100'000, std::byte{0x44});
  s.server.send(reply);
  s.wait_for_messages(1);
  CHECK(s.client.header(0).proc == rdma_proc::RDMA_NOMSG);
  CHECK(s.client.header(0).rdma_reply.front().length == reply.size());
  CHECK(std::memcmp(room.data(), reply.data(), reply.size()) == 0);
}

TEST_CASE("bridge: ERR_VERS, ERR_CHUNK, and what is too short; the connection lives on") {
  Setup s;
  rdma_msg header;
  header.rdma_xid = 7;
  header.rdma_vers = 3;
  s.client.send(header, testing::rpc_call(7, 100003, 4, 0, {}));
  s.wait_for_messages(1);
  CHECK(s.client.messages[0] == words({7, 3, 64, 4, 1, 1, 1}));
  header.rdma_vers = 1;
  s.client.send(header, testing::rpc_call(8, 100003, 4, 0, {}));  // another xid in the RPC header
  s.wait_for_messages(2);
  CHECK(s.client.messages[1] == words({7, 1, 64, 4, 2}));
  s.call(9);
  s.server.send(null_reply(9));
  s.wait_for_messages(3);
}

}  // namespace nfsrdma::bridge
