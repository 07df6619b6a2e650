// What the iWARP fabric owes for the memory that it exposes (RFC 8166 4.4.1, 8.1): the requester's part is in
// rpcrdma_memory_test.cpp.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <array>
#include <cstring>
#include <set>

#include "async/loop.h"
#include "fabric/iwarp/connection.h"
#include "unit/iwarp_pair.h"

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
    const auto exposed = (i % 2 == 0 ? first : second)->expose(memory, Access::remote_write);
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
  const auto exposed_on_a = client_a.stream.expose(memory, Access::remote_write).front();
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
  const auto exposed = client.stream.expose(memory, Access::remote_write).front();
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

}  // namespace nfsrdma::fabric::iwarp
