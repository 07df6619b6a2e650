// The frames of a trace: their bytes, and that each kind is read as it was written.
#include "trace/format/frames.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "support/loopback.h"

namespace nfsrdma::trace {
namespace {

Ends two_ends() {
  Ends out;
  out.addresses = {gid_of(testing::loopback(1)), gid_of(testing::loopback(2))};
  out.queue_pairs = {0x100, 0x101};
  out.port = 20049;
  out.exchange = 7;
  return out;
}
Octets pattern_of(std::size_t size) {
  Octets out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i + 1);
  return out;
}

/// Writes the frame and reads it. `bytes` must outlive the result.
Frame there_and_back(const Draft& draft, Octets& bytes, std::uint32_t& size) {
  size = encode(two_ends(), draft, bytes);
  const auto frame = parse_frame(bytes, size);
  REQUIRE(frame);
  return *frame;
}

}  // namespace

TEST_CASE("trace: the bytes of a Send with Invalidate") {
  Draft draft;
  draft.to_server = false;
  draft.opcode = Opcode::send_invalidate;
  draft.psn = 0x01000005;  // 24 bits count
  draft.invalidated = 0xa1b2c3d4;
  const Octets payload = pattern_of(5);
  draft.payload = payload;
  Octets out;
  const std::uint32_t claimed = encode(two_ends(), draft, out);
  CHECK(claimed == out.size());
  REQUIRE(out.size() == 14 + 40 + 12 + 4 + 5 + 3 + 4);
  const auto at = [&](std::size_t i) { return std::to_integer<int>(out[i]); };
  CHECK(at(5) == 1);  // to the client
  CHECK(at(11) == 2);
  CHECK(at(12) * 256 + at(13) == 0x8915);
  CHECK(at(14) == 0x60);
  CHECK(at(18) * 256 + at(19) == 12 + 4 + 5 + 3 + 4);
  CHECK(at(20) == 0x1b);
  CHECK(at(54) == 0x17);
  CHECK(at(55) == (0x40 | 3 << 4));  // three bytes of pad
  CHECK(at(56) * 256 + at(57) == 0xffff);
  CHECK((at(59) << 16 | at(60) << 8 | at(61)) == 0x100);
  CHECK((at(63) << 16 | at(64) << 8 | at(65)) == 5);
  CHECK(at(66) == 0xa1);
  CHECK(at(69) == 0xd4);
  CHECK(at(70) == 1);
}

TEST_CASE("trace: each kind of frame is read as it was written") {
  for (const Opcode opcode : {Opcode::send, Opcode::send_invalidate, Opcode::rdma_write, Opcode::read_request,
                              Opcode::read_response}) {
    CAPTURE(static_cast<int>(opcode));
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{64}}) {
      Draft draft;
      draft.opcode = opcode;
      draft.target = {0x11, 64, 0x1234567890};
      draft.invalidated = 0x22;
      const Octets payload = pattern_of(size);
      draft.payload = payload;
      Octets bytes;
      std::uint32_t claimed = 0;
      const Frame frame = there_and_back(draft, bytes, claimed);
      CHECK(frame.opcode == opcode);
      CHECK(frame.queue_pair == 0x101);
      CHECK(frame.from == two_ends().addresses[0]);
      CHECK(frame.to == two_ends().addresses[1]);
      CHECK(std::ranges::equal(frame.payload, payload));
      CHECK(frame.whole);
      CHECK(frame.invalidated.has_value() == (opcode == Opcode::send_invalidate));
      const bool has_target = opcode == Opcode::rdma_write || opcode == Opcode::read_request;
      CHECK((frame.target == draft.target) == has_target);
      // Cut anywhere in its headers it is none.
      for (std::size_t i = 0; i < bytes.size() - size; ++i)
        static_cast<void>(parse_frame(ConstBytes(bytes).first(i), claimed));
      CHECK_FALSE(parse_frame(ConstBytes(bytes).first(65), 65));
    }
  }
}

TEST_CASE("trace: a frame that is cut claims a size that tshark takes for a short capture") {
  Draft draft;
  const Octets payload = pattern_of(10);
  draft.payload = payload;
  for (const std::uint64_t cut : {1ULL, 65532ULL, 65533ULL, 1048576ULL, 1ULL << 40}) {
    CAPTURE(cut);
    draft.cut = cut;
    Octets bytes;
    std::uint32_t claimed = 0;
    const Frame frame = there_and_back(draft, bytes, claimed);
    CHECK(claimed % 65536 == bytes.size() % 65536);
    CHECK(claimed > bytes.size());
    if (cut < 1ULL << 32) CHECK(claimed - bytes.size() >= cut);
    CHECK_FALSE(frame.whole);
    CHECK(std::ranges::equal(frame.payload, payload));
  }
}

TEST_CASE("trace: the set-up of a connection has the queue pairs and the private data") {
  const Octets data = pattern_of(8);
  Octets bytes;
  const auto read = [&](Setup kind) {
    const std::uint32_t size = encode(two_ends(), kind, data, bytes);
    const auto frame = parse_frame(bytes, size);
    REQUIRE(frame);
    const auto message = parse_setup(*frame);
    REQUIRE(message);
    CHECK(message->kind == kind);
    CHECK(message->exchange == 7);
    return *message;
  };
  const SetupMessage request = read(Setup::request);
  CHECK(request.queue_pair == 0x100);
  CHECK(std::ranges::equal(request.private_data.first(8), data));
  const SetupMessage reply = read(Setup::reply);
  CHECK(reply.queue_pair == 0x101);
  CHECK(std::ranges::equal(reply.private_data.first(8), data));
  read(Setup::ready);
  read(Setup::disconnect);
  // More than there is room for is cut, and no frame is longer than the others.
  const Octets much = pattern_of(1000);
  const std::size_t usual = bytes.size();
  encode(two_ends(), Setup::request, much, bytes);
  CHECK(bytes.size() == usual);
}

TEST_CASE("trace: addresses as GIDs") {
  CHECK(text_of(gid_of(testing::loopback(1))) == "127.0.0.1");
  sockaddr_storage storage{};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  v6.sin6_family = AF_INET6;
  REQUIRE(::inet_pton(AF_INET6, "2001:db8::7", &v6.sin6_addr) == 1);
  CHECK(text_of(gid_of(storage)) == "2001:db8::7");
}

}  // namespace nfsrdma::trace
