#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "sim/fabric/network.h"

using namespace nfsrdma;
using namespace nfsrdma::sim;
using namespace std::chrono_literals;
using fabric::Reach;
using fabric::RemoteSegment;

namespace {

std::vector<std::byte> octets(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(fabric::ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// One end, and all that it was told.
struct End final : fabric::Handler {
  explicit End(Host& host_in) : host(host_in) {}
  void on_established(const fabric::Established& how) override {
    established = true;
    peers_private_data = text_of(how.private_data);
  }
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> handle) override {
    received.push_back(text_of(buffer.message()));
    invalidated = handle;
    if (on_message) on_message();
  }
  void on_completed(std::uint64_t cookie) override { completed.push_back(cookie); }
  void on_closed(const Error& error) override {
    ++closed;
    why = error;
  }

  void receive(unsigned count, std::size_t size = 4096) const {
    for (unsigned i = 0; i < count; ++i) connection->post_receive(fabric::ReceiveBuffer(size));
  }
  void send(const std::string& text, std::uint64_t cookie = 1,
            std::optional<std::uint32_t> handle = {}) const {
    const auto bytes = fabric::ConstBytes(std::as_bytes(std::span(text)));
    fabric::SendWork work;
    work.cookie = cookie;
    work.pieces = {&bytes, 1};
    work.invalidate = handle;
    connection->post_send(work);
    connection->flush();
  }
  void write(const std::string& text, const RemoteSegment& to, std::uint64_t cookie = 2) const {
    connection->post_rdma_write(std::as_bytes(std::span(text)), to, cookie);
    connection->flush();
  }
  RemoteSegment expose(std::string& memory, Reach reach) const {
    auto segments = connection->expose(std::as_writable_bytes(std::span(memory)), reach);
    REQUIRE(segments);
    REQUIRE(segments->size() == 1);
    return segments->front();
  }

  Host& host;
  std::unique_ptr<fabric::Connection> connection;
  bool established = false;
  std::string peers_private_data;
  std::vector<std::string> received;
  std::optional<std::uint32_t> invalidated;
  std::vector<std::uint64_t> completed;
  std::function<void()> on_message;
  int closed = 0;
  std::optional<Error> why;
};

struct Two {
  explicit Two(std::uint64_t seed = 1) : world(seed) {
    listener = network.listen(server_host, 20049, [this](std::unique_ptr<fabric::Incoming> incoming) {
      request = text_of(incoming->private_data());
      auto accepted = incoming->accept(octets("answer"), server);
      if (!accepted) return;
      server.connection = std::move(*accepted);
      server.receive(16);
    });
  }
  ~Two() {
    client.connection.reset();
    server.connection.reset();
  }
  void dial(Duration patience = 10s, std::uint16_t port = 20049) {
    fabric::DialOptions options;
    options.address = Network::address(server_host, port).storage;
    options.host = "server";
    options.private_data = [](const fabric::Traits&) { return octets("request"); };
    options.deadline = client_host.loop().now() + patience;
    client.connection = network.dialer(client_host)(client_host.loop(), std::move(options), client);
    client.receive(16);
  }
  Two& connect() {
    dial();
    settle();
    REQUIRE(client.established);
    REQUIRE(server.established);
    return *this;
  }
  void settle(Duration time = 1ms) { world.run_for(time); }

  Simulation world;
  Network network{world};
  Host& client_host = world.add_host("client");
  Host& server_host = world.add_host("server");
  End client{client_host}, server{server_host};
  std::string request;
  std::unique_ptr<fabric::Listener> listener;
};

}  // namespace

TEST_CASE("sim fabric: a connection with private data both ways, messages in their order") {
  Two two;
  two.connect();
  CHECK(two.request == "request");
  CHECK(two.client.peers_private_data == "answer");
  two.client.send("one", 11);
  two.client.send("two", 12);
  two.server.send("three", 13);
  CHECK(two.client.completed.empty());
  two.settle();
  CHECK(two.server.received == std::vector<std::string>{"one", "two"});
  CHECK(two.client.received == std::vector<std::string>{"three"});
  CHECK(two.client.completed == std::vector<std::uint64_t>{11, 12});
  CHECK(two.network.connections(two.client_host, two.server_host).size() == 1);
  two.client.connection->close();
  two.settle();
  CHECK(two.client.closed == 0);
  CHECK(two.server.closed == 1);
  CHECK(two.server.why->kind() == ErrorKind::connection);
  CHECK(two.network.problems() == "");
}

TEST_CASE("sim fabric: what is posted leaves at the end of the turn, not before") {
  Two two;
  two.connect();
  two.client_host.loop().post([&] {
    const std::string text = "late";
    const auto bytes = fabric::ConstBytes(std::as_bytes(std::span(text)));
    fabric::SendWork work;
    work.pieces = {&bytes, 1};
    two.client.connection->post_send(work);
  });
  two.settle();
  CHECK(two.server.received == std::vector<std::string>{"late"});
}

TEST_CASE("sim fabric: a Send without a Receive, or with one that is too small, ends the connection") {
  for (const bool none : {true, false}) {
    CAPTURE(none);
    Two two;
    two.connect();
    if (none) {
      for (int i = 0; i < 17; ++i) two.client.send("x");
    } else {
      two.client.send(std::string(5000, 'x'));
    }
    two.settle();
    CHECK(two.server.received.size() == (none ? 16U : 0U));
    CHECK(two.server.closed == 1);
    CHECK(two.server.why->kind() == ErrorKind::protocol);
    CHECK(two.client.closed == 1);
    CHECK(two.network.problems() != "");
    two.client.send("y");
    two.settle();
    CHECK(two.client.closed == 1);
  }
}

TEST_CASE("sim fabric: a Send never overtakes the RDMA Writes before it, whatever their size") {
  Two two(7);
  two.network.between(two.client_host, two.server_host).piece = 100;
  two.connect();
  std::string memory(10'000, '.');
  const RemoteSegment segment = two.client.expose(memory, Reach::remote_write);
  const std::string data(10'000, 'd');
  bool whole = false;
  two.client.on_message = [&] { whole = memory == data; };
  two.server.write(data, segment);
  two.server.send("done");
  bool partly = false;
  while (two.client.received.empty() && two.world.step()) {
    partly = partly || (memory.front() == 'd' && memory.back() == '.');
  }
  CHECK(partly);
  CHECK(whole);
}

TEST_CASE("T28 T30 sim fabric: handle, bounds and direction of each access are checked") {
  enum class Wrong : std::uint8_t { nothing, handle, beyond, before, direction, other_connection, revoked };
  for (const auto wrong : {Wrong::nothing, Wrong::handle, Wrong::beyond, Wrong::before, Wrong::direction,
                           Wrong::other_connection, Wrong::revoked}) {
    CAPTURE(static_cast<int>(wrong));
    Two two;
    two.connect();
    std::string memory(100, '.');
    RemoteSegment segment = two.client.expose(memory, Reach::remote_write);
    CHECK(segment.handle != 0);
    if (wrong == Wrong::handle) segment.handle ^= 1;
    if (wrong == Wrong::beyond) segment.offset += 1;
    if (wrong == Wrong::before) segment.offset -= 1;
    if (wrong == Wrong::direction) segment = two.client.expose(memory, Reach::remote_read);
    if (wrong == Wrong::revoked) REQUIRE(two.client.connection->revoke({&segment, 1}, 5));
    std::unique_ptr<fabric::Connection> old;
    if (wrong == Wrong::other_connection) {
      two.dial();
      two.settle();
    }
    two.server.write(std::string(100, 'd'), segment);
    two.settle();
    CHECK(memory == std::string(100, wrong == Wrong::nothing ? 'd' : '.'));
    CHECK(two.client.closed == (wrong == Wrong::nothing ? 0 : 1));
    CHECK(two.server.closed == two.client.closed);
  }
}

TEST_CASE("sim fabric: an RDMA Read is answered by the device, while the owner's loop does nothing") {
  Two two;
  two.connect();
  std::string memory = "what is read";
  const RemoteSegment segment = two.client.expose(memory, Reach::remote_read);
  std::string into(memory.size(), '.');
  const auto begin = two.world.steps();
  bool turned = false;
  two.client_host.loop().at(two.client_host.loop().now() + 1h, [&] { turned = true; });
  two.server.connection->post_rdma_read(std::as_writable_bytes(std::span(into)), segment, 21);
  two.server.connection->flush();
  two.settle();
  CHECK(two.world.steps() > begin);
  CHECK(!turned);
  CHECK(into == memory);
  CHECK(two.server.completed == std::vector<std::uint64_t>{21});
}

TEST_CASE("sim fabric: segments are as large as the device takes them") {
  Two two;
  two.network.habits(two.client_host).largest_segment = 64;
  two.connect();
  CHECK(two.client.connection->segments_for(0) == 1);
  CHECK(two.client.connection->segments_for(64) == 1);
  CHECK(two.client.connection->segments_for(65) == 2);
  std::string memory(150, '.');
  auto segments =
      two.client.connection->expose(std::as_writable_bytes(std::span(memory)), Reach::remote_write);
  REQUIRE(segments);
  REQUIRE(segments->size() == 3);
  CHECK((*segments)[2].length == 22);
  for (const RemoteSegment& one : *segments) two.server.write(std::string(one.length, 'd'), one);
  two.settle();
  CHECK(memory == std::string(150, 'd'));
}

TEST_CASE("sim fabric: a Send may invalidate a handle, where the device can") {
  for (const bool can : {true, false}) {
    CAPTURE(can);
    Two two;
    two.network.habits(two.client_host).remote_invalidation = can;
    two.connect();
    std::string memory(10, '.');
    const RemoteSegment segment = two.client.expose(memory, Reach::remote_write);
    two.server.send("take it", 1, segment.handle);
    two.settle();
    CHECK(two.client.closed == (can ? 0 : 1));
    if (!can) continue;
    CHECK(two.client.invalidated == segment.handle);
    two.server.write("x", segment);
    two.settle();
    CHECK(two.client.closed == 1);
  }
}

TEST_CASE(
    "T26 T27 sim fabric: a revocation is done at once, late, or never; until then the peer reaches the "
    "memory") {
  for (const std::string how : {"at once", "late", "never", "failed"}) {
    CAPTURE(how);
    Two two;
    DeviceHabits& habits = two.network.habits(two.client_host);
    habits.revokes_late = how == "late" ? 1000 : 0;
    habits.revokes_never = how == "never" ? 1000 : 0;
    habits.revokes_failed = how == "failed" ? 1000 : 0;
    habits.longest_revoke = 1s;
    two.connect();
    std::string memory(10, '.');
    const RemoteSegment segment = two.client.expose(memory, Reach::remote_write);
    const auto status = two.client.connection->revoke({&segment, 1}, 31);
    CHECK(status.has_value() == (how != "failed"));
    CHECK(two.client.completed.size() == (how == "at once" ? 1U : 0U));
    if (how == "at once") continue;
    two.server.write("d", segment);
    two.settle();
    CHECK(memory == "d.........");
    two.settle(10s);
    CHECK(two.client.completed.size() == (how == "late" ? 1U : 0U));
    two.client.connection->close();
    CHECK(two.client.completed.size() == (how == "late" ? 1U : 0U));
    two.server.write("xx", segment);
    two.settle();
    CHECK(memory == "d.........");
  }
}

TEST_CASE("sim fabric: a cut tells both sides, one, or none until it sends something") {
  enum class Who : std::uint8_t { both, client, server, nobody };
  for (const auto who : {Who::both, Who::client, Who::server, Who::nobody}) {
    CAPTURE(static_cast<int>(who));
    Two two;
    two.connect();
    Told told;
    if (who == Who::server || who == Who::nobody) told.dialer.reset();
    if (who == Who::client || who == Who::nobody) told.listener.reset();
    two.network.cut(two.client_host, two.server_host, told);
    two.settle(10min);
    CHECK(two.client.closed == (told.dialer ? 1 : 0));
    CHECK(two.server.closed == (told.listener ? 1 : 0));
    two.client.send("anybody there?");
    two.server.send("anybody there?");
    two.settle();
    CHECK(two.client.closed == 1);
    CHECK(two.server.closed == 1);
    CHECK(two.client.received.empty());
    CHECK(two.server.received.empty());
    CHECK(two.network.problems() == "");
  }
}

TEST_CASE("sim fabric: what is under way when the connection is cut arrives up to some byte") {
  std::array<int, 3> seen{};
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Two two(seed);
    two.connect();
    std::string memory(1000, '.');
    const RemoteSegment segment = two.client.expose(memory, Reach::remote_write);
    two.server.write(std::string(1000, 'd'), segment);
    two.server.send("done");
    two.network.cut(two.client_host, two.server_host, {1s, 1s});
    two.settle(2s);
    const auto placed = static_cast<std::size_t>(std::ranges::count(memory, 'd'));
    CHECK(memory == std::string(placed, 'd') + std::string(1000 - placed, '.'));
    const bool told = !two.client.received.empty();
    CHECK((!told || placed == 1000));
    ++seen[placed == 0 ? 0 : placed < 1000 ? 1 : 2];
    CHECK(two.client.closed == 1);
    CHECK(two.client.completed.empty());
  }
  CHECK(seen[1] > 30);
}

TEST_CASE("sim fabric: a watch cuts just before or just behind the piece that it chooses") {
  for (const Fate fate : {Fate::cut_before, Fate::cut_after}) {
    Two two;
    two.connect();
    two.network.set_watch([&](const Passing& piece) {
      const bool chosen = piece.kind == Passing::Kind::send && text_of(piece.bytes) == "two";
      return chosen ? fate : Fate::arrives;
    });
    for (const char* text : {"one", "two", "three"}) two.client.send(text);
    two.settle();
    CHECK(two.server.received.size() == (fate == Fate::cut_before ? 1U : 2U));
    CHECK(two.server.closed == 1);
    CHECK(two.client.closed == 1);
  }
}

TEST_CASE("sim fabric: parted hosts hear nothing; what was sent arrives when they are healed in time") {
  Two two;
  two.connect();
  two.network.part(two.client_host, two.server_host);
  two.client.send("one");
  two.settle(5s);
  CHECK(two.server.received.empty());
  two.network.heal();
  two.settle();
  CHECK(two.server.received.size() == 1);
  two.network.part(two.client_host, two.server_host);
  two.client.send("two");
  two.settle(60s);
  CHECK(two.client.closed == 1);
  CHECK(two.client.why->errno_value() == ETIMEDOUT);
  CHECK(two.server.closed == 0);
  two.network.heal();
  two.settle();
  CHECK(two.server.closed == 0);  // half open: it knows nothing
  two.server.send("hello?");
  two.settle();
  CHECK(two.server.closed == 1);
  CHECK(two.server.received.size() == 1);
}

TEST_CASE("sim fabric: a dial is refused, or hangs until its deadline") {
  Two two;
  SUBCASE("nobody listens") {
    two.dial(10s, 111);
    two.settle();
    CHECK(two.client.why->errno_value() == ECONNREFUSED);
  }
  SUBCASE("the listener has gone") {
    two.listener.reset();
    two.dial();
    two.settle();
    CHECK(two.client.why->errno_value() == ECONNREFUSED);
  }
  SUBCASE("parted") {
    two.network.part(two.client_host, two.server_host);
    two.dial();
    two.settle(9s);
    CHECK(two.client.closed == 0);
    two.settle(2s);
    CHECK(two.client.why->errno_value() == ETIMEDOUT);
  }
  SUBCASE("lost") {
    two.network.between(two.client_host, two.server_host).dials_lost = 1000;
    two.dial();
    two.settle(11s);
    CHECK(two.client.why->errno_value() == ETIMEDOUT);
  }
  SUBCASE("refused") {
    two.network.between(two.client_host, two.server_host).dials_refused = 1000;
    two.dial();
    two.settle();
    CHECK(two.client.why->errno_value() == ECONNREFUSED);
  }
  SUBCASE("reset in the middle") {
    two.network.between(two.client_host, two.server_host).dials_reset = 1000;
    two.dial();
    two.settle();
    CHECK(two.client.closed == 1);
  }
  SUBCASE("closed before it was answered") {
    two.dial();
    two.client.connection->close();
    two.settle();
    CHECK(two.client.closed == 0);
    CHECK(two.network.open() == 0);
    return;
  }
  CHECK(two.client.closed == 1);
  CHECK(two.network.connections(two.client_host, two.server_host).empty());
}

TEST_CASE("sim fabric: a machine that vanishes tells nobody") {
  Two two;
  two.connect();
  two.network.vanish(two.client_host);
  two.client.connection.reset();
  two.settle(10min);
  CHECK(two.client.closed == 0);
  CHECK(two.server.closed == 0);
  two.server.send("hello?");
  two.settle();
  CHECK(two.server.closed == 1);
}

TEST_CASE("sim fabric: a host that sleeps takes in what came when it wakes, unless its peer gave up") {
  for (const Duration time : {Duration(5s), Duration(100s)}) {
    Two two;
    two.connect();
    two.server_host.sleep();
    two.client.send("one");
    two.settle(time);
    CHECK(two.server.received.empty());
    two.server_host.wake();
    two.settle();
    CHECK(two.server.received.size() == (time == 5s ? 1U : 0U));
    CHECK(two.client.closed == (time == 5s ? 0 : 1));
  }
}

TEST_CASE("sim fabric: completions wait for the peer and come late where the device is so") {
  Two two;
  two.network.habits(two.client_host).completes_when_received = true;
  two.network.between(two.client_host, two.server_host).latency = 10ms;
  two.dial();
  two.settle(1s);
  REQUIRE(two.client.established);
  two.client.send("one", 41);
  two.settle(15ms);
  CHECK(two.server.received.size() == 1);
  CHECK(two.client.completed.empty());
  two.settle(10ms);
  CHECK(two.client.completed == std::vector<std::uint64_t>{41});
}

TEST_CASE(
    "T28 sim fabric: RDMA Writes to what was abandoned go nowhere, until it is forgotten; a Read ends it "
    "all") {
  Two two;
  two.connect();
  std::string memory(10, '.');
  const RemoteSegment target = two.client.expose(memory, Reach::remote_write);
  const RemoteSegment source = two.client.expose(memory, Reach::remote_read);
  REQUIRE(two.client.connection->abandon({&target, 1}, 51));
  CHECK(two.client.completed == std::vector<std::uint64_t>{51});
  two.server.write(std::string(10, 'd'), target);
  two.settle();
  CHECK(memory == std::string(10, '.'));
  CHECK(two.client.closed == 0);
  SUBCASE("beyond its bounds it is a fault as ever") {
    two.server.write(std::string(11, 'd'), target);
  }
  SUBCASE("forgotten") {
    two.client.connection->forget({&target, 1});
    two.server.write("d", target);
  }
  SUBCASE("read") {
    REQUIRE(two.client.connection->abandon({&source, 1}, 52));
    std::string into(10, '.');
    two.server.connection->post_rdma_read(std::as_writable_bytes(std::span(into)), source, 53);
    two.server.connection->flush();
    two.settle();
    REQUIRE(two.client.closed == 1);
    CHECK(two.client.why->kind() == ErrorKind::cancelled);
    CHECK(two.network.problems() == "");
    return;
  }
  two.settle();
  REQUIRE(two.client.closed == 1);
  CHECK(two.client.why->kind() == ErrorKind::protocol);
}
