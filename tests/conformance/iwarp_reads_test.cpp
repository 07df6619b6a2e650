// RDMA Reads of the peer's on the project's own iWARP (RFC 8166 3.3.1, RFC 5040 6.5, RFC 6581 9): how many are announced,
// agreed and let be under way, on a real connection to a peer whose frames are written by hand.
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "fabric/address.h"
#include "fabric/iwarp/connection.h"
#include "fabric/iwarp/socket.h"
#include "fabric/iwarp/terminate.h"
#include "support/loopback.h"
#include "support/recorder.h"
#include "unit/fabric/iwarp/pair.h"

namespace nfsrdma::fabric::iwarp {
namespace {

using namespace std::chrono_literals;
using nfsrdma::testing::Recorder;
using nfsrdma::testing::runs_until;

/// What a peer has received, taken apart.
struct Heard {
  std::size_t responses = 0;  ///< Read Responses that are complete
  std::size_t bytes = 0;      ///< of their data
  std::optional<Reason> terminate;
};

/// A client's connection, and the server at its other end, which is this test.
struct Dialogue {
  explicit Dialogue(const std::optional<MpaEnhanced>& answer, Depths depths = {}) {
    const Socket listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage address = nfsrdma::testing::loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listening.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) == 0);
    const int little = 65536;
    REQUIRE(::setsockopt(listening.fd(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little) == 0);
    REQUIRE(::listen(listening.fd(), 1) == 0);
    REQUIRE(::getsockname(listening.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    ConnectOptions options;
    options.address = nfsrdma::testing::loopback(port_of(address));
    options.depths = depths;
    connection = iwarp::connect(loop, std::move(options), client);
    peer = Socket(::accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(peer.valid());
    MpaDecoded request;
    REQUIRE(runs_until(loop, [&] {
      hear();
      request = decode(MpaFrameKind::request, wire);
      return request.state == MpaDecoded::State::ok;
    }));
    wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(request.consumed));
    asked = request.frame.enhanced;
    MpaFrame reply;
    reply.kind = MpaFrameKind::reply;
    reply.revision = answer ? 2 : 1;
    reply.enhanced = answer;
    say(encode(reply));
    REQUIRE(runs_until(loop, [&] { return client.established || client.closed; }));
  }
  void say(ConstBytes bytes) const {
    REQUIRE(::send(peer.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  /// Receives what is there.
  void hear() {
    std::vector<std::byte> part(1 << 20);
    ssize_t got = 0;
    while ((got = ::recv(peer.fd(), part.data(), part.size(), MSG_DONTWAIT)) > 0)
      wire.insert(wire.end(), part.begin(), part.begin() + got);
  }
  /// Takes apart what has come since the handshake.
  const Heard& heard() {
    hear();
    std::size_t at = 0;
    while (wire.size() - at >= fpdu_length_size) {
      const std::size_t ulpdu = load_be<std::uint16_t>(&wire[at]);
      if (wire.size() - at < fpdu_size(ulpdu)) break;
      const ConstBytes segment = ConstBytes(wire).subspan(at + fpdu_length_size, ulpdu);
      const DdpHeader header = decode_ddp(segment.data());
      const ConstBytes payload = segment.subspan(header.size());
      if (header.opcode == Opcode::read_response) {
        sum.bytes += payload.size();
        sum.responses += header.last ? 1 : 0;
      }
      if (header.opcode == Opcode::terminate) sum.terminate = decode_terminate(payload);
      at += fpdu_size(ulpdu);
    }
    wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(at));
    return sum;
  }
  /// `count` Read Requests at once, each for all of the memory.
  void ask(std::size_t count, const RemoteSegment& memory) {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::byte> payload(read_request_size);
      encode(ReadRequest{1, 0, memory.length, memory.handle, memory.offset}, payload.data());
      const auto one =
          testing::fpdu(testing::untagged(Opcode::read_request, queue_read_request, ++msn), payload);
      all.insert(all.end(), one.begin(), one.end());
    }
    say(all);
  }
  [[nodiscard]] RemoteSegment expose(std::vector<std::byte>& memory) const {
    const auto exposed = connection->expose(memory, Reach::remote_read);
    REQUIRE(exposed);
    REQUIRE(exposed->size() == 1);
    return exposed->front();
  }

  async::Loop loop;
  Recorder client;
  std::unique_ptr<Connection> connection;
  Socket peer;
  std::optional<MpaEnhanced> asked;  ///< of the client's Request
  std::vector<std::byte> wire;       ///< what the peer has received and not taken apart
  Heard sum;
  std::uint32_t msn = 0;
};

}  // namespace

TEST_CASE(
    "T38 iwarp: the IRD is announced, and so many Reads are agreed on as the peer says that it may need") {
  struct Row {
    std::optional<MpaEnhanced> answer;
    std::uint32_t agreed;  ///< 0: none, the connection is refused
  };
  const auto peer_that_reads = [](std::uint16_t ord) { return MpaEnhanced{.ird = 4, .ord = ord}; };
  for (const Row& row :
       {Row{peer_that_reads(1), 16}, Row{peer_that_reads(16), 16}, Row{peer_that_reads(17), 17},
        Row{peer_that_reads(128), 128}, Row{peer_that_reads(129), 0}, Row{peer_that_reads(mpa_max_depth), 16},
        Row{std::nullopt, 16}}) {
    CAPTURE(row.agreed);
    Dialogue m(row.answer);
    REQUIRE(m.asked);
    CHECK(m.asked->ird == 16);
    CHECK(m.client.established.has_value() == (row.agreed != 0));
    if (!m.client.established) continue;
    CHECK(m.client.established->ird == row.agreed);
    // All of them at once are answered.
    std::vector<std::byte> memory(100, std::byte{7});
    const RemoteSegment exposed = m.expose(memory);
    m.ask(row.agreed, exposed);
    CHECK(runs_until(m.loop, [&] { return m.heard().responses == row.agreed; }));
    CHECK_FALSE(m.client.closed);
  }
  const Dialogue fewer(peer_that_reads(1), {.ird = 3, .ord = 2});
  CHECK(fewer.asked->ird == 3);
  CHECK(fewer.asked->ord == 2);
  CHECK(fewer.client.established->ird == 3);
}

TEST_CASE(
    "T38 iwarp: one Read more than the agreed IRD ends the connection, with a Terminate and no answer") {
  for (const std::uint16_t ord : {std::uint16_t{16}, std::uint16_t{24}}) {
    CAPTURE(ord);
    Dialogue m(MpaEnhanced{.ird = 4, .ord = ord});
    std::vector<std::byte> memory(100, std::byte{7});
    const RemoteSegment exposed = m.expose(memory);
    m.ask(ord + 1U, exposed);
    REQUIRE(runs_until(m.loop, [&] { return m.client.closed.has_value(); }));
    CHECK(m.client.closed->kind() == ErrorKind::protocol);
    CHECK(m.client.closed->message().find("than the " + std::to_string(ord) + " agreed (IRD)") !=
          std::string::npos);
    const Heard heard = m.heard();
    CHECK(heard.responses <= ord);
    REQUIRE(heard.terminate);
    CHECK(*heard.terminate == untagged_no_buffer);
  }
}

TEST_CASE("T38 iwarp: a Read is under way until its answer has left, and then makes room for another") {
  Dialogue m(MpaEnhanced{.ird = 4, .ord = 3}, {.ird = 3, .ord = 4});
  // More than the sockets hold, so that no answer has left before the peer receives some of it.
  std::vector<std::byte> memory(std::size_t{8} << 20, std::byte{7});
  const RemoteSegment exposed = m.expose(memory);
  m.ask(3, exposed);
  CHECK_FALSE(runs_until(m.loop, [&] { return m.client.closed.has_value(); }, 50ms));
  SUBCASE("another while all are") {
    m.ask(1, exposed);
    REQUIRE(runs_until(m.loop, [&] { return m.client.closed.has_value(); }));
    CHECK(m.client.closed->kind() == ErrorKind::protocol);
    CHECK(m.client.closed->message().find("(IRD)") != std::string::npos);
  }
  SUBCASE("another when one is answered") {
    REQUIRE(runs_until(m.loop, [&] { return m.heard().responses != 0; }));
    m.ask(1, exposed);
    CHECK(runs_until(m.loop, [&] { return m.heard().responses == 4; }));
    CHECK(m.heard().bytes == 4 * memory.size());
    CHECK_FALSE(m.client.closed);
  }
}

}  // namespace nfsrdma::fabric::iwarp
