// The wire formats of MPA, DDP, RDMAP and Terminate: golden bytes, round trips, every truncation.
#include <doctest/doctest.h>

#include <random>
#include <string>

#include "fabric/iwarp/ddp.h"
#include "fabric/iwarp/mpa.h"
#include "fabric/iwarp/terminate.h"

using namespace nfsrdma::fabric::iwarp;

namespace {

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> out;
  std::string digits;
  for (const char c : text) {
    if (c != ' ') digits += c;
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return out;
}

const std::string request_key = "4d504120494420526571204672616d65";  // "MPA ID Req Frame"
const std::string reply_key = "4d504120494420526570204672616d65";    // "MPA ID Rep Frame"

}  // namespace

TEST_CASE("MPA: the Request that Linux accepts, octet by octet") {
  MpaFrame frame;
  frame.enhanced = MpaEnhanced{.ird = 16, .ord = 16};
  frame.private_data = from_hex("f6ab0e18 01000303");
  const auto golden = from_hex(request_key + "10 02 000c 0010 0010 f6ab0e18 01000303");
  CHECK(encode(frame) == golden);
  const MpaDecoded back = decode(MpaFrameKind::request, golden);
  CHECK(back.state == MpaDecoded::State::ok);
  CHECK(back.frame == frame);
  CHECK(back.consumed == golden.size());
}

TEST_CASE("MPA: every flag has its bit") {
  MpaFrame frame;
  frame.kind = MpaFrameKind::reply;
  frame.markers = frame.crc = frame.reject = true;
  frame.enhanced = MpaEnhanced{true, true, true, true, 0x1234, 0x0fff};
  CHECK(encode(frame) == from_hex(reply_key + "f0 02 0004 d234 cfff"));
  frame.enhanced = MpaEnhanced{.peer_to_peer = true, .rtr_read = true, .ird = 1, .ord = 2};
  frame.markers = frame.reject = false;
  CHECK(encode(frame) == from_hex(reply_key + "50 02 0004 8001 4002"));
  CHECK(decode(MpaFrameKind::reply, encode(frame)).frame == frame);
}

TEST_CASE("MPA: revision 1 has no enhanced octets, whatever its reserved bits say") {
  const auto bytes = from_hex(request_key + "5f 01 0004 8001 4002");
  const MpaDecoded got = decode(MpaFrameKind::request, bytes);
  REQUIRE(got.state == MpaDecoded::State::ok);
  CHECK_FALSE(got.frame.enhanced);
  CHECK(got.frame.private_data.size() == 4);
  CHECK(got.frame.crc);
}

TEST_CASE("MPA: every truncation asks for more, and what follows is left alone") {
  MpaFrame frame;
  frame.enhanced = MpaEnhanced{.ird = 1, .ord = 1};
  frame.private_data.assign(mpa_private_data_room(true), std::byte{7});
  auto bytes = encode(frame);
  CHECK(bytes.size() == mpa_max_frame);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    REQUIRE(decode(MpaFrameKind::request, std::span(bytes).first(length)).state == MpaDecoded::State::more);
  }
  bytes.resize(bytes.size() + 100);
  CHECK(decode(MpaFrameKind::request, bytes).consumed == mpa_max_frame);
}

TEST_CASE("MPA: what is wrong is told apart, as early as it shows") {
  const auto state = [](const std::string& hex) { return decode(MpaFrameKind::reply, from_hex(hex)).state; };
  CHECK(state("48") == MpaDecoded::State::not_mpa);  // "H", as of HTTP
  CHECK(state(request_key) == MpaDecoded::State::not_mpa);
  CHECK(state(reply_key + "00 03 0000") == MpaDecoded::State::bad_revision);
  CHECK(state(reply_key + "00 00 0000") == MpaDecoded::State::bad_revision);
  CHECK(state(reply_key + "00 02 0201") == MpaDecoded::State::bad);
  CHECK(state(reply_key + "10 02 0003 000000") == MpaDecoded::State::bad);
}

TEST_CASE("FPDU sizes") {
  for (std::size_t ulpdu = 14; ulpdu < 2000; ++ulpdu) {
    REQUIRE(fpdu_size(ulpdu) % 4 == 0);
    REQUIRE(fpdu_size(ulpdu) >= ulpdu + 6);
    REQUIRE(fpdu_size(ulpdu) <= ulpdu + 9);
  }
  for (std::size_t emss = 140; emss < 70000; ++emss) {
    const std::size_t ulpdu = mulpdu_for(emss);
    REQUIRE(ulpdu >= min_mulpdu);
    REQUIRE(ulpdu <= max_ulpdu);
    REQUIRE(fpdu_size(ulpdu) <= emss);
  }
}

TEST_CASE("DDP: golden headers") {
  DdpHeader write;
  write.tagged = write.last = true;
  write.opcode = Opcode::rdma_write;
  write.stag = 0x01020304;
  write.to = 0x1112131415161718;
  std::vector<std::byte> bytes(ddp_tagged_size);
  encode(write, bytes.data());
  CHECK(bytes == from_hex("c1 40 01020304 1112131415161718"));
  CHECK(decode_ddp(bytes.data()) == write);

  DdpHeader send;
  send.opcode = Opcode::send_solicited_invalidate;
  send.stag = 0xaabbccdd;
  send.msn = 9;
  send.mo = 0x100;
  bytes.resize(ddp_untagged_size);
  encode(send, bytes.data());
  CHECK(bytes == from_hex("01 46 aabbccdd 00000000 00000009 00000100"));
  CHECK(decode_ddp(bytes.data()) == send);
  CHECK(ddp_header_size(std::byte{0x41}) == 18);
  CHECK(ddp_header_size(std::byte{0x81}) == 14);
}

TEST_CASE("RDMAP: the Read Request's payload") {
  const ReadRequest request{1, 2, 3, 4, 5};
  std::vector<std::byte> bytes(read_request_size);
  encode(request, bytes.data());
  CHECK(bytes == from_hex("00000001 0000000000000002 00000003 00000004 0000000000000005"));
  CHECK(decode_read_request(bytes.data()) == request);
}

TEST_CASE("Terminate: golden bytes and texts") {
  CHECK(
      encode(Terminate{.reason = mpa_crc_error, .segment_length = 0, .ddp_header = {}, .rdma_header = {}}) ==
      from_hex("20 02 0000"));
  const auto header = from_hex("c1 40 01020304 1112131415161718");
  const Terminate bounds{
      .reason = tagged_bounds, .segment_length = 100, .ddp_header = header, .rdma_header = {}};
  CHECK(encode(bounds) == from_hex("11 01 c000 0064 c1 40 01020304 1112131415161718"));
  const std::vector<std::byte> read(28, std::byte{3});
  const std::vector<std::byte> untagged(18, std::byte{4});
  const auto whole = encode(
      Terminate{.reason = remote_access, .segment_length = 46, .ddp_header = untagged, .rdma_header = read});
  CHECK(whole.size() == max_terminate);
  CHECK(whole[2] == std::byte{0xe0});
  CHECK(decode_terminate(whole) == remote_access);
  CHECK_FALSE(decode_terminate(std::span(whole).first(3)));
  CHECK(text(remote_access) == "RDMAP remote protection error: access rights violation (0/1/2)");
  CHECK(text({5, 5, 5}) == "an unknown reason (5/5/5)");
  CHECK(text({2, 1, 3}).find("DDP untagged buffer error: message sequence number") == 0);  // siw's order
}

TEST_CASE("codecs: any bytes are decoded or refused") {
  std::mt19937 random(4);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes(random() % 64);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    if (random() % 2 == 0) {
      auto key = from_hex(reply_key);
      bytes.insert(bytes.begin(), key.begin(), key.end());
    }
    const MpaDecoded got = decode(MpaFrameKind::reply, bytes);
    if (got.state == MpaDecoded::State::ok) REQUIRE(got.consumed <= bytes.size());
    (void)decode_terminate(bytes);
  }
}
