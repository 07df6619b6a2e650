// iWARP over real TCP on the loopback interface: Listener and connect() on one Loop, the moments around the handshake, and
// peers that are none.
#include "fabric/iwarp/connection.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fabric/address.h"
#include "fabric/iwarp/listener.h"
#include "support/loopback.h"
#include "support/recorder.h"
#include "unit/fabric/iwarp/pair.h"

namespace nfsrdma::fabric::iwarp {
namespace {

using namespace std::chrono_literals;
using nfsrdma::testing::loopback;
using nfsrdma::testing::Recorder;
using nfsrdma::testing::runs_until;

void run_until(async::Loop& loop, const std::function<bool()>& done) {
  CHECK(runs_until(loop, done));
}

ConnectOptions to(std::uint16_t port, async::Loop& loop, async::Clock::duration patience = 5s) {
  ConnectOptions options;
  options.address = loopback(port);
  options.host = "here";
  options.private_data = {std::byte{1}, std::byte{2}};
  options.deadline = loop.now() + patience;
  return options;
}

/// A server that accepts everything.
struct Server {
  Server(async::Loop& loop, AcceptOptions options) {
    auto made = Listener::listen(loop, loopback(0), [this, options](std::unique_ptr<Incoming> incoming) {
      seen.emplace_back(incoming->private_data().begin(), incoming->private_data().end());
      auto accepted = incoming->accept(options, handler);
      if (accepted) connection = std::move(*accepted);
      if (connection && at_once) at_once();
    });
    REQUIRE(made);
    listener = std::move(*made);
  }
  std::vector<std::vector<std::byte>> seen;
  Recorder handler;
  std::unique_ptr<Connection> connection;
  std::unique_ptr<Listener> listener;
  std::function<void()> at_once;
};

/// A TCP server that is no iWARP server.
struct Impostor {
  Impostor(async::Loop& event_loop, std::function<void(int)> act)
      : loop(event_loop), fd(::socket(AF_INET, SOCK_STREAM, 0)) {
    const auto address = loopback(0);
    REQUIRE(::bind(fd.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0);
    REQUIRE(::listen(fd.fd(), 8) == 0);
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(fd.fd(), reinterpret_cast<sockaddr*>(&bound), &size);
    port = port_of(bound);
    loop.watch(fd.fd(), EPOLLIN, [this, act](std::uint32_t) {
      accepted.emplace_back(::accept(fd.fd(), nullptr, nullptr));
      if (act) act(accepted.back().fd());
    });
  }
  ~Impostor() { loop.unwatch(fd.fd()); }
  async::Loop& loop;
  Socket fd;
  std::vector<Socket> accepted;
  std::uint16_t port = 0;
};

Error failure_to_connect(async::Loop& loop, ConnectOptions options) {
  Recorder client;
  const auto connection = iwarp::connect(loop, std::move(options), client);
  CHECK_FALSE(client.closed);  // never from inside connect()
  run_until(loop, [&] { return client.closed.has_value(); });
  CHECK_FALSE(client.established);
  REQUIRE(client.closed);
  MESSAGE(client.closed->text());
  CHECK(client.closed->peer().find("here:") == 0);
  return *client.closed;
}

/// A server that has posted one Receive on the connection that it accepted last.
struct Host : Server {
  explicit Host(async::Loop& loop) : Server(loop, {}) {
    at_once = [this] { connection->post_receive(ReceiveBuffer(200)); };
  }
};

/// A TCP connection that says nothing by itself.
Socket plain_peer(std::uint16_t port) {
  Socket out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_storage address = loopback(port);
  REQUIRE(::connect(out.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0);
  return out;
}

void say(const Socket& socket, ConstBytes bytes) {
  REQUIRE(::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

/// So many octets as have come, at most `most`, which stay there.
std::vector<std::byte> heard(const Socket& socket, std::size_t most) {
  std::vector<std::byte> out(most);
  const ssize_t got = ::recv(socket.fd(), out.data(), out.size(), MSG_DONTWAIT | MSG_PEEK);
  out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return out;
}

/// As many silent peers as it takes at once.
std::vector<Socket> fill_up(async::Loop& loop, const Listener& listener) {
  std::vector<Socket> out;
  for (std::size_t i = 0; i < Listener::max_undecided; ++i) out.push_back(plain_peer(listener.port()));
  while (loop.turn(loop.now() + 2ms)) {
  }
  return out;
}

}  // namespace

TEST_CASE("tcp: private data, messages, writes, reads and invalidation over a real socket") {
  for (const CrcPolicy crc : {CrcPolicy::automatic, CrcPolicy::on}) {
    async::Loop loop;
    Server server(loop, {.private_data = {std::byte{7}}, .crc = crc, .depths = {}});
    Recorder client;
    const auto connection = iwarp::connect(loop, to(server.listener->port(), loop), client);
    connection->post_receive(ReceiveBuffer(4096));
    run_until(loop, [&] { return client.established && server.handler.established; });
    CHECK(server.seen.front() == std::vector<std::byte>{std::byte{1}, std::byte{2}});
    CHECK(client.established->private_data == std::vector<std::byte>{std::byte{7}});
    CHECK(client.established->crc == (crc == CrcPolicy::on));
    CHECK(client.established->fabric == "iwarp");
    CHECK(connection->peer_name().find("here:") == 0);

    std::vector<std::byte> memory(3 << 20);
    std::vector<std::byte> data(memory.size());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + (i >> 11));
    const auto sink = connection->expose(memory, Reach::remote_write);
    const auto source = connection->expose(data, Reach::remote_read);
    REQUIRE(sink);
    REQUIRE(source);
    // The client speaks first; before that the server must be silent.
    server.connection->post_receive(ReceiveBuffer(100));
    const ConstBytes greeting[] = {std::span(data).first(50)};
    connection->post_send({.cookie = 1, .pieces = greeting, .invalidate = {}, .solicited = true});
    server.connection->post_rdma_write(data, sink->front(), 10);
    const ConstBytes done[] = {std::span(data).first(3000)};
    server.connection->post_send(
        {.cookie = 11, .pieces = done, .invalidate = sink->front().handle, .solicited = false});
    run_until(loop, [&] { return client.messages.size() == 1; });
    CHECK(memory == data);
    CHECK(client.invalidated == sink->front().handle);
    CHECK(server.handler.completed == std::vector<std::uint64_t>{10, 11});

    std::vector<std::byte> fetched(data.size());
    server.connection->post_rdma_read(fetched, source->front(), 12);
    run_until(loop, [&] { return server.handler.completed.size() == 3; });
    CHECK(fetched == data);
    CHECK(connection->revoke(*source, 2));
    CHECK(client.completed == std::vector<std::uint64_t>{1, 2});

    server.connection->close();
    run_until(loop, [&] { return client.closed.has_value(); });
    CHECK(client.closed->kind() == ErrorKind::connection);
    CHECK_FALSE(server.handler.closed);
    CHECK_FALSE(connection->expose(memory, Reach::remote_read));
  }
}

TEST_CASE("tcp: a violation is told to the peer") {
  async::Loop loop;
  Server server(loop, {});
  Recorder client;
  const auto connection = iwarp::connect(loop, to(server.listener->port(), loop), client);
  run_until(loop, [&] { return client.established && server.handler.established; });
  const std::vector<std::byte> data(100);
  connection->post_rdma_write(data, {0x1234, 100, 0}, 1);
  run_until(loop, [&] { return client.closed && server.handler.closed; });
  CHECK(server.handler.closed->kind() == ErrorKind::protocol);
  CHECK(server.handler.closed->message().find("invalid STag") != std::string::npos);
  CHECK(client.closed->message().find("Terminate") != std::string::npos);
  CHECK(client.closed->message().find("invalid STag") != std::string::npos);
}

TEST_CASE("tcp: close() from inside every callback, and the owner destroying after it") {
  for (int where = 0; where < 2; ++where) {
    async::Loop loop;
    Server server(loop, {});
    Recorder client;
    std::unique_ptr<Connection> connection = iwarp::connect(loop, to(server.listener->port(), loop), client);
    for (int i = 0; i < 3; ++i) connection->post_receive(ReceiveBuffer(100));
    const std::vector<std::byte> data(10);
    const ConstBytes pieces[] = {data};
    client.then = [&] {
      connection->post_send({.cookie = 1, .pieces = pieces, .invalidate = {}, .solicited = false});
      if (where == 0) connection->close();
    };
    server.handler.on_message = [&] {
      for (int i = 0; i < 3; ++i)
        server.connection->post_send({.cookie = 2, .pieces = pieces, .invalidate = {}, .solicited = false});
    };
    client.on_message = [&] { connection->close(); };
    server.at_once = [&] { server.connection->post_receive(ReceiveBuffer(100)); };
    run_until(loop, [&] { return server.handler.closed.has_value(); });
    CHECK(client.messages.size() == static_cast<std::size_t>(where));
    CHECK_FALSE(client.closed);
  }
}

TEST_CASE("tcp: a server that forbids CRC, as Linux does, and one that rejects everybody") {
  async::Loop loop;
  Server strict(loop, {.private_data = {}, .crc = CrcPolicy::off, .depths = {}});
  auto options = to(strict.listener->port(), loop);
  options.crc = CrcPolicy::on;
  CHECK(failure_to_connect(loop, options).errno_value() == ECONNREFUSED);
  CHECK(strict.seen.size() == 2);

  int asked = 0;
  const auto never = Listener::listen(loop, loopback(0), [&](std::unique_ptr<Incoming> incoming) {
    ++asked;
    incoming->reject({});
  });
  REQUIRE(never);
  const Error refused = failure_to_connect(loop, to((*never)->port(), loop));
  CHECK(refused.errno_value() == ECONNREFUSED);
  CHECK(asked == 3);
}

TEST_CASE("tcp: a request is accepted on another loop than the listener's") {
  async::Loop loop, other;
  Recorder client, server;
  std::unique_ptr<Incoming> undecided;
  const auto listener = Listener::listen(loop, loopback(0), [&](std::unique_ptr<Incoming> incoming) {
    CHECK(incoming->move_to(other));
    undecided = std::move(incoming);
  });
  REQUIRE(listener);
  const auto connection = iwarp::connect(loop, to((*listener)->port(), loop), client);
  connection->post_receive(ReceiveBuffer(100));
  run_until(loop, [&] { return undecided != nullptr; });
  auto accepted = undecided->accept(AcceptOptions{}, server);
  REQUIRE(accepted);
  run_until(loop, [&] { return client.established.has_value(); });
  // The listener's loop does nothing for the connection.
  CHECK_FALSE(server.established);
  run_until(other, [&] { return server.established.has_value(); });
  (*accepted)->post_receive(ReceiveBuffer(100));
  const std::vector<std::byte> data(10, std::byte{5});
  const ConstBytes pieces[] = {data};
  connection->post_send({.cookie = 1, .pieces = pieces, .invalidate = {}, .solicited = false});
  loop.end_turn();
  run_until(other, [&] { return server.messages.size() == 1; });
  CHECK(server.messages.front() == data);
}

TEST_CASE("tcp: nobody listens") {
  async::Loop loop;
  std::uint16_t port = 0;
  {
    const Impostor gone(loop, {});
    port = gone.port;
  }
  const Error e = failure_to_connect(loop, to(port, loop));
  CHECK(e.kind() == ErrorKind::connection);
  CHECK(e.errno_value() == ECONNREFUSED);
}

TEST_CASE("tcp: a silent peer costs the deadline and no more") {
  async::Loop loop;
  Impostor silent(loop, {});
  const auto before = loop.now();
  const Error e = failure_to_connect(loop, to(silent.port, loop, 200ms));
  CHECK(e.kind() == ErrorKind::timeout);
  CHECK(e.errno_value() == ETIMEDOUT);
  CHECK(e.message().find("does not answer the MPA Request") != std::string::npos);
  CHECK(loop.now() - before < 2s);
}

TEST_CASE("tcp: a peer that speaks something else") {
  async::Loop loop;
  Impostor web(loop, [](int fd) { (void)!::write(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28); });
  const Error e = failure_to_connect(loop, to(web.port, loop));
  CHECK(e.kind() == ErrorKind::protocol);
  CHECK(e.message().find("does not speak iWARP") != std::string::npos);
}

TEST_CASE("tcp: a peer that closes at once") {
  async::Loop loop;
  Impostor closing(loop, [](int fd) { ::shutdown(fd, SHUT_RDWR); });
  const Error e = failure_to_connect(loop, to(closing.port, loop));
  CHECK(e.kind() == ErrorKind::connection);
  CHECK(e.message().find("no iWARP listener") != std::string::npos);
}

TEST_CASE("tcp: too much private data is the caller's mistake") {
  async::Loop loop;
  auto options = to(1, loop);
  options.private_data.resize(509);
  CHECK(failure_to_connect(loop, options).kind() == ErrorKind::usage);
}

TEST_CASE("tcp: a connection destroyed while it connects leaves nothing behind") {
  async::Loop loop;
  Impostor silent(loop, {});
  Recorder client;
  {
    const auto connection = iwarp::connect(loop, to(silent.port, loop, 50ms), client);
  }
  loop.turn(loop.now() + 100ms);
  loop.turn(loop.now() + 100ms);
  CHECK_FALSE(client.closed);
}

TEST_CASE("tcp: the listener lives through peers that send garbage, markers or nothing") {
  async::Loop loop;
  Server server(loop, {});
  const auto peer = [&](const std::vector<std::byte>& bytes) {
    Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
    const auto address = loopback(server.listener->port());
    REQUIRE(::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0);
    if (!bytes.empty()) REQUIRE(::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
    return socket;
  };
  const auto answer = [&](const Socket& socket) {
    std::vector<std::byte> bytes(1000);
    ssize_t got = -1;
    run_until(loop, [&] {
      loop.turn(loop.now() + 10ms);
      got = ::recv(socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      return got >= 0 || errno == ECONNRESET;
    });
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  };
  const auto silent = peer({});
  CHECK(answer(peer(std::vector<std::byte>(30, std::byte{'x'}))).empty());
  MpaFrame markers;
  markers.markers = true;
  const auto reply = decode(MpaFrameKind::reply, answer(peer(encode(markers))));
  CHECK(reply.frame.reject);
  CHECK(server.seen.empty());
  Recorder client;
  const auto connection = iwarp::connect(loop, to(server.listener->port(), loop), client);
  run_until(loop, [&] { return client.established.has_value(); });
}

TEST_CASE("tcp: pieces of FPDUs that come at bad moments, and an end behind them") {
  // Large memory is filled by polling, small memory by events and peeking: both find a header cut in two,
  // then nothing for a while, then the rest.
  using namespace testing;
  for (const std::size_t size : {std::size_t{4096}, std::size_t{96 * 1024}}) {
    for (const bool whole : {true, false}) {
      CAPTURE(size);
      CAPTURE(whole);
      async::Loop loop;
      MpaFrame accept;
      accept.kind = MpaFrameKind::reply;
      accept.enhanced.emplace().ird = 16;
      const auto send = [](int fd, ConstBytes bytes) {
        CHECK(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
      };
      Impostor peer(loop, [&](int fd) {
        Socket borrowed(::dup(fd));
        borrowed.set_options();
        send(fd, encode(accept));
      });
      Recorder client;
      const auto connection = iwarp::connect(loop, to(peer.port, loop), client);
      connection->post_receive(ReceiveBuffer(4096));
      run_until(loop, [&] { return client.established.has_value(); });
      std::vector<std::byte> target(size);
      const std::uint32_t stag = connection->expose(target, Reach::remote_write)->front().handle;

      const auto data = noise(3000, 7);
      std::vector<std::byte> wire;
      const auto add = [&](const std::vector<std::byte>& one) {
        wire.insert(wire.end(), one.begin(), one.end());
      };
      for (std::size_t at = 0; at < data.size(); at += 1000) {
        add(fpdu(tagged(Opcode::rdma_write, stag, at, at == 2000), std::span(data).subspan(at, 1000)));
      }
      add(fpdu(untagged(Opcode::send, queue_send, 1), std::span(data).first(100)));
      if (!whole) wire.resize(wire.size() - 10);
      // The cuts: inside the second header, inside the third payload, inside the Send's header.
      const std::size_t write = fpdu_size(1000 + ddp_tagged_size);
      std::size_t from = 0;
      for (const std::size_t end : {write + 7, 2 * write + 500, 3 * write + 5, wire.size()}) {
        send(peer.accepted.front().fd(), std::span(wire).subspan(from, end - from));
        from = end;
        const auto until = loop.now() + 4ms;
        while (loop.now() < until) loop.turn(until);
      }
      ::shutdown(peer.accepted.front().fd(), SHUT_WR);  // not close(): it has unread octets and would reset
      run_until(loop, [&] { return client.closed.has_value(); });
      INFO(client.closed->text());
      CHECK(std::ranges::equal(std::span(target).first(data.size()), data));
      CHECK(client.closed->text().contains("in the middle") == !whole);
      REQUIRE(client.messages.size() == (whole ? 1 : 0));
      if (whole) CHECK(std::ranges::equal(client.messages.front(), std::span(data).first(100)));
    }
  }
}

// ---- around the handshake ----

TEST_CASE("tcp: a listener that is full takes the next peer when one has left") {
  async::Loop loop;
  Host host(loop);
  std::vector<Socket> silent = fill_up(loop, *host.listener);
  Recorder client;
  const auto connection = iwarp::connect(loop, to(host.listener->port(), loop, 10s), client);
  CHECK_FALSE(runs_until(loop, [&] { return client.established.has_value(); }, 10ms));
  silent.pop_back();
  CHECK(runs_until(loop, [&] { return client.established.has_value(); }));
  // And so again: it has noticed each time.
  silent.push_back(plain_peer(host.listener->port()));
  while (loop.turn(loop.now() + 2ms)) {
  }
  silent.clear();
  Recorder second;
  const auto another = iwarp::connect(loop, to(host.listener->port(), loop, 10s), second);
  CHECK(runs_until(loop, [&] { return second.established.has_value(); }));
}

TEST_CASE("tcp: a listener that is full may end") {
  async::Loop loop;
  Host host(loop);
  const std::vector<Socket> silent = fill_up(loop, *host.listener);
  host.listener.reset();
  // All of them hear of it, none is left in the loop.
  while (loop.turn(loop.now() + 2ms)) {
  }
  CHECK(loop.next_timer() == async::TimePoint::max());
  for (const Socket& one : silent) {
    std::byte octet{};
    CHECK(::recv(one.fd(), &octet, 1, MSG_DONTWAIT) == 0);
  }
}

TEST_CASE("tcp: a message that comes along with the Request is the connection's first") {
  const std::vector<std::byte> hello = testing::noise(60, 1);
  std::vector<std::byte> wire = encode(MpaFrame{});
  const std::size_t request = wire.size();
  const std::vector<std::byte> message = testing::fpdu(testing::untagged(Opcode::send, queue_send, 1), hello);
  wire.insert(wire.end(), message.begin(), message.end());
  for (const std::size_t first : {wire.size(), request + 1, request + 30, wire.size() - 1}) {
    CAPTURE(first);
    async::Loop loop;
    Host host(loop);
    const Socket peer = plain_peer(host.listener->port());
    say(peer, std::span(wire).first(first));
    CHECK(runs_until(loop, [&] { return host.handler.established.has_value(); }));
    if (first < wire.size()) say(peer, std::span(wire).subspan(first));
    CHECK(runs_until(loop, [&] { return !host.handler.messages.empty(); }));
    CHECK(host.handler.messages == std::vector<std::vector<std::byte>>{hello});
    CHECK_FALSE(host.handler.closed);
  }
}

TEST_CASE("tcp: a violation that comes along with the Request ends the connection") {
  async::Loop loop;
  Host host(loop);
  const Socket peer = plain_peer(host.listener->port());
  std::vector<std::byte> wire = encode(MpaFrame{});
  const auto bad = testing::fpdu(testing::tagged(Opcode::rdma_write, 7, 0, true), testing::noise(10, 1));
  wire.insert(wire.end(), bad.begin(), bad.end());
  say(peer, wire);
  CHECK(runs_until(loop, [&] { return host.handler.closed.has_value(); }));
  CHECK(host.handler.established);
  REQUIRE(host.handler.closed);
  CHECK(host.handler.closed->kind() == ErrorKind::protocol);
}

TEST_CASE("tcp: the deadline to connect is over once the connection stands") {
  bool done = false;
  for (async::Clock::duration patience = 50ms; !done; patience *= 4) {
    REQUIRE(patience < 60s);  // a slow machine has another try
    async::Loop loop;
    Host host(loop);
    Recorder client;
    const async::TimePoint deadline = loop.now() + patience;
    const auto connection = iwarp::connect(loop, to(host.listener->port(), loop, patience), client);
    CHECK(runs_until(loop, [&] { return client.established || client.closed; }, 60s));
    if (!client.established) continue;
    while (loop.now() <= deadline) loop.turn(deadline + 1ms);
    loop.turn(async::TimePoint::min());
    CHECK_FALSE(client.closed);
    done = true;
  }
}

TEST_CASE("tcp: a peer that stays silent after the handshake is sent a Write of nothing") {
  // Linux's siw may leave the first FPDU in its socket until more comes.
  async::Loop loop;
  const Socket listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address = loopback(0);
  socklen_t size = sizeof address;
  REQUIRE(::bind(listening.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0);
  REQUIRE(::listen(listening.fd(), 1) == 0);
  REQUIRE(::getsockname(listening.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  Recorder client;
  const auto connection = iwarp::connect(loop, to(port_of(address), loop, 10s), client);
  const Socket peer(::accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(peer.valid());
  const auto octets = [&] { return heard(peer, 1000).size(); };
  REQUIRE(runs_until(loop, [&] { return octets() != 0; }));
  const std::size_t request = octets();
  MpaFrame reply;
  reply.kind = MpaFrameKind::reply;
  reply.enhanced = MpaEnhanced{.ird = 1, .ord = 1};
  say(peer, encode(reply));
  REQUIRE(runs_until(loop, [&] { return client.established.has_value(); }));
  CHECK(octets() == request);
  const std::vector<std::byte> nothing = testing::fpdu(testing::tagged(Opcode::rdma_write, 0, 0, true), {});
  CHECK(runs_until(loop, [&] { return octets() >= request + nothing.size(); }));
  const std::vector<std::byte> all = heard(peer, 1000);
  CHECK(std::ranges::equal(std::span(all).subspan(request), nothing));
  CHECK(client.completed.empty());
  CHECK_FALSE(client.closed);
}

}  // namespace nfsrdma::fabric::iwarp
