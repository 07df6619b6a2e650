// iWARP over real TCP on the loopback interface: Listener and connect() on one Loop, and peers that are none.
#include "fabric/iwarp/connection.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <cstring>
#include <functional>

#include "fabric/address.h"
#include "fabric/iwarp/listener.h"
#include "support/loopback.h"
#include "support/recorder.h"
#include "unit/fabric/iwarp/pair.h"

using namespace nfsrdma;
using namespace nfsrdma::fabric;
using namespace std::chrono_literals;

namespace {

using testing::loopback;
using testing::Recorder;

void run_until(async::Loop& loop, const std::function<bool()>& done) {
  CHECK(testing::runs_until(loop, done));
}

iwarp::ConnectOptions to(std::uint16_t port, async::Loop& loop, async::Clock::duration patience = 5s) {
  iwarp::ConnectOptions options;
  options.address = loopback(port);
  options.host = "here";
  options.private_data = {std::byte{1}, std::byte{2}};
  options.deadline = loop.now() + patience;
  return options;
}

/// A server that accepts everything.
struct Server {
  Server(async::Loop& loop, iwarp::AcceptOptions options) {
    auto made = iwarp::Listener::listen(
        loop, loopback(0), [this, options](std::unique_ptr<iwarp::Incoming> incoming) {
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
  std::unique_ptr<iwarp::Listener> listener;
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
  iwarp::Socket fd;
  std::vector<iwarp::Socket> accepted;
  std::uint16_t port = 0;
};

Error failure_to_connect(async::Loop& loop, iwarp::ConnectOptions options) {
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

}  // namespace

TEST_CASE("tcp: private data, messages, writes, reads and invalidation over a real socket") {
  for (const iwarp::CrcPolicy crc : {iwarp::CrcPolicy::automatic, iwarp::CrcPolicy::on}) {
    async::Loop loop;
    Server server(loop, {.private_data = {std::byte{7}}, .crc = crc, .depths = {}});
    Recorder client;
    const auto connection = iwarp::connect(loop, to(server.listener->port(), loop), client);
    connection->post_receive(ReceiveBuffer(4096));
    run_until(loop, [&] { return client.established && server.handler.established; });
    CHECK(server.seen.front() == std::vector<std::byte>{std::byte{1}, std::byte{2}});
    CHECK(client.established->private_data == std::vector<std::byte>{std::byte{7}});
    CHECK(client.established->crc == (crc == iwarp::CrcPolicy::on));
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
  Server strict(loop, {.private_data = {}, .crc = iwarp::CrcPolicy::off, .depths = {}});
  auto options = to(strict.listener->port(), loop);
  options.crc = iwarp::CrcPolicy::on;
  CHECK(failure_to_connect(loop, options).errno_value() == ECONNREFUSED);
  CHECK(strict.seen.size() == 2);

  int asked = 0;
  const auto never =
      iwarp::Listener::listen(loop, loopback(0), [&](std::unique_ptr<iwarp::Incoming> incoming) {
        ++asked;
        incoming->reject({});
      });
  REQUIRE(never);
  const Error refused = failure_to_connect(loop, to((*never)->port(), loop));
  CHECK(refused.errno_value() == ECONNREFUSED);
  CHECK(asked == 3);
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
    iwarp::Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
    const auto address = loopback(server.listener->port());
    REQUIRE(::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0);
    if (!bytes.empty()) REQUIRE(::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
    return socket;
  };
  const auto answer = [&](const iwarp::Socket& socket) {
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
  iwarp::MpaFrame markers;
  markers.markers = true;
  const auto reply = iwarp::decode(iwarp::MpaFrameKind::reply, answer(peer(iwarp::encode(markers))));
  CHECK(reply.frame.reject);
  CHECK(server.seen.empty());
  Recorder client;
  const auto connection = iwarp::connect(loop, to(server.listener->port(), loop), client);
  run_until(loop, [&] { return client.established.has_value(); });
}

TEST_CASE("tcp: pieces of FPDUs that come at bad moments, and an end behind them") {
  // Large memory is filled by polling, small memory by events and peeking: both find a header cut in two,
  // then nothing for a while, then the rest.
  using namespace iwarp::testing;
  for (const std::size_t size : {std::size_t{4096}, std::size_t{96 * 1024}}) {
    for (const bool whole : {true, false}) {
      CAPTURE(size);
      CAPTURE(whole);
      async::Loop loop;
      iwarp::MpaFrame accept;
      accept.kind = iwarp::MpaFrameKind::reply;
      accept.enhanced.emplace().ird = 16;
      const auto send = [](int fd, ConstBytes bytes) {
        CHECK(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
      };
      Impostor peer(loop, [&](int fd) {
        iwarp::Socket borrowed(::dup(fd));
        borrowed.set_options();
        send(fd, iwarp::encode(accept));
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
        add(fpdu(tagged(iwarp::Opcode::rdma_write, stag, at, at == 2000), std::span(data).subspan(at, 1000)));
      }
      add(fpdu(untagged(iwarp::Opcode::send, iwarp::queue_send, 1), std::span(data).first(100)));
      if (!whole) wire.resize(wire.size() - 10);
      // The cuts: inside the second header, inside the third payload, inside the Send's header.
      const std::size_t write = iwarp::fpdu_size(1000 + iwarp::ddp_tagged_size);
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
