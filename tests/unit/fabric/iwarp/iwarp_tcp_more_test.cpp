// iWARP over real TCP, the moments around the handshake: a listener that is full, what comes along with a frame, a
// deadline that has done its work, a peer that has not noticed the first FPDU.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "fabric/address.h"
#include "fabric/iwarp/connection.h"
#include "fabric/iwarp/listener.h"
#include "support/loopback.h"
#include "support/recorder.h"
#include "unit/fabric/iwarp/pair.h"

namespace nfsrdma::fabric::iwarp {
namespace {

using namespace std::chrono_literals;
using nfsrdma::testing::Recorder;
using nfsrdma::testing::runs_until;

/// Accepts everybody; the last one stays.
struct Host {
  explicit Host(async::Loop& loop) {
    auto made =
        Listener::listen(loop, nfsrdma::testing::loopback(0), [this](std::unique_ptr<Incoming> incoming) {
          auto accepted = incoming->accept(AcceptOptions{}, hears);
          REQUIRE(accepted);
          connection = std::move(*accepted);
          connection->post_receive(ReceiveBuffer(200));
        });
    REQUIRE(made);
    listener = std::move(*made);
  }
  Recorder hears;
  std::unique_ptr<Connection> connection;
  std::unique_ptr<Listener> listener;
};

/// A TCP connection that says nothing by itself.
Socket plain_peer(std::uint16_t port) {
  Socket out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_storage address = nfsrdma::testing::loopback(port);
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

ConnectOptions options_to(std::uint16_t port, async::TimePoint deadline) {
  ConnectOptions out;
  out.address = nfsrdma::testing::loopback(port);
  out.host = "here";
  out.deadline = deadline;
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

TEST_CASE("tcp: a listener that is full takes the next peer when one has left") {
  async::Loop loop;
  Host host(loop);
  std::vector<Socket> silent = fill_up(loop, *host.listener);
  Recorder client;
  const auto connection = iwarp::connect(loop, options_to(host.listener->port(), loop.now() + 10s), client);
  CHECK_FALSE(runs_until(loop, [&] { return client.established.has_value(); }, 10ms));
  silent.pop_back();
  CHECK(runs_until(loop, [&] { return client.established.has_value(); }));
  // And so again: it has noticed each time.
  silent.push_back(plain_peer(host.listener->port()));
  while (loop.turn(loop.now() + 2ms)) {
  }
  silent.clear();
  Recorder second;
  const auto another = iwarp::connect(loop, options_to(host.listener->port(), loop.now() + 10s), second);
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
    CHECK(runs_until(loop, [&] { return host.hears.established.has_value(); }));
    if (first < wire.size()) say(peer, std::span(wire).subspan(first));
    CHECK(runs_until(loop, [&] { return !host.hears.messages.empty(); }));
    CHECK(host.hears.messages == std::vector<std::vector<std::byte>>{hello});
    CHECK_FALSE(host.hears.closed);
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
  CHECK(runs_until(loop, [&] { return host.hears.closed.has_value(); }));
  CHECK(host.hears.established);
  REQUIRE(host.hears.closed);
  CHECK(host.hears.closed->kind() == ErrorKind::protocol);
}

TEST_CASE("tcp: the deadline to connect is over once the connection stands") {
  bool done = false;
  for (async::Clock::duration patience = 50ms; !done; patience *= 4) {
    REQUIRE(patience < 60s);  // a slow machine has another try
    async::Loop loop;
    Host host(loop);
    Recorder client;
    const async::TimePoint deadline = loop.now() + patience;
    const auto connection = iwarp::connect(loop, options_to(host.listener->port(), deadline), client);
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
  sockaddr_storage address = nfsrdma::testing::loopback(0);
  socklen_t size = sizeof address;
  REQUIRE(::bind(listening.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0);
  REQUIRE(::listen(listening.fd(), 1) == 0);
  REQUIRE(::getsockname(listening.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  Recorder client;
  const auto connection = iwarp::connect(loop, options_to(port_of(address), loop.now() + 10s), client);
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
