// What the iWARP fabric owes for the memory that it exposes (RFC 8166 4.4.1, 8.1): the requester's part is in
// rpcrdma_memory_test.cpp.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "async/loop.h"
#include "fabric/iwarp/connection.h"
#include "unit/fabric/iwarp/pair.h"

namespace nfsrdma::fabric::iwarp {
namespace {

struct Deaf final : Handler {
  void on_established(const Established&) override {}
  void on_received(ReceiveBuffer, std::optional<std::uint32_t>) override {}
  void on_completed(std::uint64_t) override {}
  void on_closed(const Error&) override {}
};

/// A connection under way to nowhere: memory can be exposed before it stands.
std::unique_ptr<Connection> some_connection(async::Loop& loop, Handler& handler) {
  ConnectOptions options;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(1);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memcpy(&options.address, &address, sizeof address);
  return connect(loop, std::move(options), handler);
}

}  // namespace

TEST_CASE("T29 handles are unpredictable: all 32 bits, no order, none twice") {
  async::Loop loop;
  Deaf deaf;
  const auto first = some_connection(loop, deaf);
  const auto second = some_connection(loop, deaf);
  std::array<std::byte, 64> memory{};
  std::set<std::uint32_t> seen;
  std::array<unsigned, 32> ones{};
  constexpr unsigned kEach = 2000;
  unsigned rising = 0;
  std::uint32_t before = 0;
  for (unsigned i = 0; i < 2 * kEach; ++i) {
    const auto exposed = (i % 2 == 0 ? first : second)->expose(memory, Reach::remote_write);
    REQUIRE(exposed);
    const std::uint32_t handle = exposed->front().handle;
    CHECK(handle != 0);
    seen.insert(handle);
    rising += handle > before ? 1 : 0;
    before = handle;
    for (unsigned bit = 0; bit < 32; ++bit) ones[bit] += handle >> bit & 1U;
  }
  // By chance alone two of 4,000 numbers of 32 bits agree in one run of 500; three pairs never do.
  CHECK(seen.size() >= 2 * kEach - 2);
  // A counter rises always, a random number half of the time; 10 standard deviations are 316.
  CHECK(rising > kEach - 316);
  CHECK(rising < kEach + 316);
  for (const unsigned count : ones) {
    CHECK(count > kEach - 316);
    CHECK(count < kEach + 316);
  }
}

TEST_CASE("T30 a handle of one connection does not work on another") {
  testing::End client_a(1), server_a(2), client_b(3), server_b(4);
  std::vector<std::byte> memory(5000, std::byte{7});
  const std::vector<std::byte> untouched = memory;
  const auto exposed_on_a = client_a.stream.expose(memory, Reach::remote_write).front();
  // The server of connection B knows it, and tries.
  const std::vector<std::byte> data(5000, std::byte{9});
  server_b.stream.post_rdma_write(data, exposed_on_a, 1);
  client_b.give_all(server_b.take_all());
  REQUIRE(client_b.stream.failure());
  CHECK(client_b.stream.failure()->kind() == ErrorKind::protocol);
  CHECK(memory == untouched);
  // On its own connection it works.
  server_a.stream.post_rdma_write(data, exposed_on_a, 1);
  client_a.give_all(server_a.take_all());
  CHECK_FALSE(client_a.stream.failure());
  CHECK(memory == data);
}

TEST_CASE("T26 T28 memory that was taken back is out of reach, also for a message that is under way") {
  testing::End client(1), server(2);
  std::vector<std::byte> memory(100000, std::byte{7});
  const auto exposed = client.stream.expose(memory, Reach::remote_write).front();
  const std::vector<std::byte> data(100000, std::byte{9});
  server.stream.post_rdma_write(data, exposed, 1);
  const auto wire = server.take_all();
  // Half of it has come when the RPC ends.
  std::size_t at = 0;
  while (at < wire.size() / 2) at += client.give(std::span(wire).subspan(at), 5000);
  client.stream.revoke(exposed.handle);
  const std::vector<std::byte> then = memory;
  client.give_all(std::span(wire).subspan(at));
  CHECK(memory == then);
  CHECK(client.stream.failure());  // the peer is told: an STag that is not exposed
}

namespace {

testing::End with_crc(bool crc, unsigned seed) {
  return testing::End(seed, {.crc = crc, .peer = {}});
}

}  // namespace

TEST_CASE("T28 RDMA Writes for a call that was given up go nowhere, and the connection lives") {
  for (const bool crc : {false, true}) {
    // Before the first octet, within an FPDU's header, within its payload, among predicted ones, at the end.
    for (const std::size_t arrived : {0U, 7U, 700U, 40'000U, 90'000U, 99'000U}) {
      CAPTURE(crc);
      CAPTURE(arrived);
      testing::End client = with_crc(crc, 1), server = with_crc(crc, 2);
      client.receives(2, 100);
      std::vector<std::byte> memory(100'000), other(50'000);
      const auto given_up = client.stream.expose(memory, Reach::remote_write).front();
      const auto kept = client.stream.expose(other, Reach::remote_write).front();
      const std::vector<std::byte> data(100'000, std::byte{9}), more = testing::noise(50'000, 3);
      const std::vector<std::byte> text = testing::noise(60, 4);
      server.stream.post_rdma_write(data, given_up, 1);
      server.stream.post_rdma_write(more, kept, 2);
      server.send(text, 3);
      const auto wire = server.take_all();
      std::size_t at = 0;
      while (at < arrived)
        at += client.give(std::span(wire).subspan(at), std::min<std::size_t>(5000, arrived - at));
      client.stream.abandon(given_up.handle);
      std::ranges::fill(memory, std::byte{7});  // it is the caller's again
      CHECK(client.stream.awaited() <= other.size());
      while (at < wire.size()) {
        const std::size_t taken = client.give(std::span(wire).subspan(at), 5000);
        REQUIRE(taken != 0);
        at += taken;
      }
      REQUIRE_FALSE(client.stream.failure());
      CHECK(testing::all_are(memory, 7));
      CHECK(other == more);
      REQUIRE(client.messages.size() == 1);
      CHECK(client.messages[0].bytes == text);

      // Once the server has said that it is done, the handle is nobody's.
      client.stream.forget(given_up.handle);
      server.stream.post_rdma_write(data, given_up, 4);
      client.give_all(server.take_all());
      REQUIRE(client.stream.failure());
      CHECK(client.stream.failure()->kind() == ErrorKind::protocol);
      CHECK(testing::all_are(memory, 7));
    }
  }
}

TEST_CASE("T28 what goes nowhere is taken many FPDUs at a time") {
  testing::End client(1), server(2);
  std::vector<std::byte> memory(1'000'000);
  const auto segment = client.stream.expose(memory, Reach::remote_write).front();
  client.stream.abandon(segment.handle);
  server.stream.post_rdma_write(memory, segment, 1);
  const auto wire = server.take_all();
  std::size_t reads = 0;
  for (std::size_t at = 0; at < wire.size(); ++reads) {
    const std::size_t taken = client.give(std::span(wire).subspan(at));
    REQUIRE(taken != 0);
    at += taken;
  }
  CHECK(reads < 20);
  CHECK_FALSE(client.stream.failure());
}

TEST_CASE("T28 a handle that was given up allows no more than it did") {
  testing::End client(1), server(2);
  std::vector<std::byte> memory(5000);
  const std::vector<std::byte> data(5001);
  std::vector<std::byte> fetched(100);
  auto segment = client.stream.expose(memory, Reach::remote_write).front();
  SUBCASE("beyond its end") {
    client.stream.abandon(segment.handle);
    ++segment.length;
    server.stream.post_rdma_write(data, segment, 1);
  }
  SUBCASE("the other way") {
    client.stream.abandon(segment.handle);
    server.stream.post_rdma_read(fetched, segment, 1);
  }
  SUBCASE("after it was revoked for good") {
    client.stream.revoke(segment.handle);
    client.stream.abandon(segment.handle);
    server.stream.post_rdma_write(std::span(data).first(100), segment, 1);
  }
  client.give_all(server.take_all());
  REQUIRE(client.stream.failure());
  CHECK(client.stream.failure()->kind() == ErrorKind::protocol);
}

TEST_CASE("T28 an RDMA Read of a call that was given up ends the connection and accuses nobody") {
  testing::End client(1), server(2);
  std::vector<std::byte> memory(5000, std::byte{9}), fetched(5000);
  const auto segment = client.stream.expose(memory, Reach::remote_read).front();
  server.stream.post_rdma_read(std::span(fetched).first(2000), segment, 1);
  client.give_all(server.take_all());
  client.stream.abandon(segment.handle);
  std::ranges::fill(memory, std::byte{7});
  // What was asked for before is answered with what was there then.
  server.give_all(client.take_all());
  CHECK(testing::all_are(std::span(fetched).first(2000), 9));
  RemoteSegment rest = segment;
  rest.offset += 2000;
  rest.length -= 2000;
  server.stream.post_rdma_read(std::span(fetched).last(3000), rest, 2);
  client.give_all(server.take_all());
  REQUIRE(client.stream.failure());
  CHECK(client.stream.failure()->kind() == ErrorKind::cancelled);
  const std::string text = client.stream.failure()->message();
  CHECK(text.find("report") == std::string::npos);
  CHECK(text.find("broke") == std::string::npos);
  // The peer is told what the specification has for it, and nothing of the memory.
  server.give_all(client.take_all());
  REQUIRE(server.stream.failure());
  CHECK(server.stream.failure()->message().find("invalid STag") != std::string::npos);
  CHECK(server.completed == std::vector<std::uint64_t>{1});
  CHECK(testing::all_are(std::span(fetched).last(3000), 0));
}

TEST_CASE("T28 P6 a late Reply may invalidate a handle that was given up") {
  testing::End client(1), server(2);
  client.receives(2, 100);
  std::vector<std::byte> memory(5000);
  const auto segment = client.stream.expose(memory, Reach::remote_write).front();
  client.stream.abandon(segment.handle);
  const std::vector<std::byte> text = testing::noise(60, 4);
  server.send(text, 1, segment.handle);
  client.give_all(server.take_all());
  REQUIRE_FALSE(client.stream.failure());
  REQUIRE(client.messages.size() == 1);
  CHECK(client.messages[0].invalidated == segment.handle);
  client.stream.forget(segment.handle);  // as the requester does
  server.send(text, 2);
  client.give_all(server.take_all());
  CHECK_FALSE(client.stream.failure());
}

TEST_CASE("T28 what is awaited does not count memory that was given up") {
  testing::End client(1);
  std::vector<std::byte> memory(100'000);
  const auto first = client.stream.expose(memory, Reach::remote_write).front();
  const auto second = client.stream.expose(memory, Reach::remote_write).front();
  CHECK(client.stream.awaited() == 200'000);
  client.stream.abandon(first.handle);
  client.stream.abandon(first.handle);
  CHECK(client.stream.awaited() == 100'000);
  client.stream.forget(first.handle);
  client.stream.forget(second.handle);  // not abandoned: stays
  CHECK(client.stream.awaited() == 100'000);
  client.stream.revoke(second.handle);
  CHECK(client.stream.awaited() == 0);
}

}  // namespace nfsrdma::fabric::iwarp
