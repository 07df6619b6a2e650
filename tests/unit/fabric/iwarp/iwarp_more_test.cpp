// The iWARP stream and its handshake at their borders: what a Terminate carries, FPDUs that left in part, the ends of
// messages, many regions, and Replies with peculiarities.
#include <doctest/doctest.h>

#include "fabric/iwarp/handshake.h"
#include "unit/fabric/iwarp/pair.h"

namespace nfsrdma::fabric::iwarp {
namespace {

using Octets = std::vector<std::byte>;
using testing::End;
using testing::fpdu;
using testing::noise;
using testing::stream_config;
using testing::tagged;
using testing::untagged;

void append(Octets& to, const Octets& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// What follows the Terminate's own DDP header is this, and that header is right.
void check_terminate(const Octets& wire, const Terminate& expected) {
  const Octets payload = encode(expected);
  REQUIRE(wire.size() == fpdu_size(ddp_untagged_size + payload.size()));
  CHECK(std::size_t{load_be<std::uint16_t>(wire.data())} == ddp_untagged_size + payload.size());
  CHECK(decode_ddp(wire.data() + fpdu_length_size) == untagged(Opcode::terminate, queue_terminate, 1));
  CHECK(std::ranges::equal(std::span(wire).subspan(fpdu_length_size + ddp_untagged_size, payload.size()),
                           payload));
}

Octets header_of(const DdpHeader& header) {
  Octets out(header.size());
  encode(header, out.data());
  return out;
}

}  // namespace

// ---- What a Terminate carries (RFC 5040 4.8) ----

TEST_CASE("iwarp more: a Terminate carries the header in error, and a Read Request that was looked at") {
  for (const bool crc : {false, true}) {
    CAPTURE(crc);
    Octets memory(100);
    Octets request(read_request_size);
    const auto begin = [&](End& victim) {
      const auto readable = victim.stream.expose(memory, Reach::remote_read).front();
      encode(ReadRequest{1, 2, 10, readable.handle, 95}, request.data());
      return readable.handle;
    };
    constexpr std::uint16_t kRequest = ddp_untagged_size + read_request_size, kTagged = ddp_tagged_size + 9;
    {  // past the end of what may be read
      End victim(7, stream_config(crc, 1442));
      begin(victim);
      const DdpHeader header = untagged(Opcode::read_request, queue_read_request, 1);
      victim.give_all(fpdu(header, request, crc));
      const Octets ddp = header_of(header);
      check_terminate(victim.take_all(), {remote_bounds, kRequest, ddp, request});
    }
    {  // refused by its header: nobody has looked at the request
      End victim(7, stream_config(crc, 1442));
      begin(victim);
      DdpHeader header = untagged(Opcode::read_request, queue_read_request, 1);
      header.rdmap_version = 2;
      victim.give_all(fpdu(header, request, crc));
      const Octets ddp = header_of(header);
      check_terminate(victim.take_all(), {operation_version, kRequest, ddp, {}});
    }
    {  // tagged
      End victim(7, stream_config(crc, 1442));
      const std::uint32_t other = begin(victim) ^ 1U;
      const DdpHeader header = tagged(Opcode::rdma_write, other, 40, true);
      victim.give_all(fpdu(header, Octets(9), crc));
      const Octets ddp = header_of(header);
      check_terminate(victim.take_all(), {tagged_invalid_stag, kTagged, ddp, {}});
    }
  }
}

// ---- Sending ----

TEST_CASE("iwarp more: an FPDU that left in part keeps its size, whatever becomes of the path's segments") {
  for (const bool crc : {false, true}) {
    for (const std::size_t later : {std::size_t{128}, std::size_t{1000}, std::size_t{8934}}) {
      CAPTURE(crc);
      CAPTURE(later);
      End a(1, stream_config(crc, 1442));
      End b(2, stream_config(crc, 1442));
      b.receives(1, 8192);
      const Octets data = noise(20'000, 3);
      Octets target(data.size());
      const auto segment = b.stream.expose(target, Reach::remote_write).front();
      a.stream.post_rdma_write(data, segment, 1);
      a.send(std::span(data).first(5000), 2);
      Octets wire = a.take(fpdu_size(1442) + 700);  // one, and a part of the next
      a.stream.set_mulpdu(later);
      append(wire, a.take_all());
      b.give_all(wire);
      REQUIRE_FALSE(b.stream.failure());
      CHECK(target == data);
      REQUIRE(b.messages.size() == 1);
      CHECK(std::ranges::equal(b.messages[0].bytes, std::span(data).first(5000)));
      CHECK(a.completed == std::vector<std::uint64_t>{1, 2});
    }
  }
}

TEST_CASE("iwarp more: after a change of the path's segments no FPDU is larger than they are") {
  End a(1, stream_config(false, 8934));
  a.stream.set_mulpdu(1000);
  const Octets data = noise(5000, 3);
  a.stream.post_rdma_write(data, {5, 5000, 0}, 1);
  const Octets wire = a.take_all();
  std::size_t count = 0;
  for (std::size_t at = 0; at < wire.size(); ++count) {
    const std::size_t ulpdu = load_be<std::uint16_t>(&wire[at]);
    REQUIRE(ulpdu <= 1000);
    at += fpdu_size(ulpdu);
  }
  CHECK(count == 6);  // of 986 octets each
}

TEST_CASE(
    "iwarp more: Read Responses of memory that is revoked keep its contents, those of other memory go on") {
  for (const bool crc : {false, true}) {
    CAPTURE(crc);
    End a(1, stream_config(crc, 1442));
    End b(2, stream_config(crc, 1442));
    Octets first = noise(9000, 3), second = noise(9000, 4);
    const Octets first_then = first, second_then = second;
    const auto of_first = b.stream.expose(first, Reach::remote_read).front();
    const auto of_second = b.stream.expose(second, Reach::remote_read).front();
    std::vector<Octets> fetched(3, Octets(9000));
    a.stream.post_rdma_read(fetched[0], of_first, 1);
    a.stream.post_rdma_read(fetched[1], of_second, 2);
    a.stream.post_rdma_read(fetched[2], of_first, 3);
    b.give_all(a.take_all());
    Octets wire = b.take(2000);
    b.stream.revoke(of_first.handle);
    std::ranges::fill(first, std::byte{0});
    append(wire, b.take(12'000));  // the second is under way now
    b.stream.abandon(of_second.handle);
    std::ranges::fill(second, std::byte{0});
    append(wire, b.take_all());
    a.give_all(wire);
    REQUIRE_FALSE(a.stream.failure());
    CHECK(a.completed == std::vector<std::uint64_t>{1, 2, 3});
    CHECK(fetched[0] == first_then);
    CHECK(fetched[1] == second_then);
    CHECK(fetched[2] == first_then);
  }
}

// ---- Receiving ----

TEST_CASE("iwarp more: a peer has finished where a message has, and nowhere else") {
  End b(2);
  b.receives(2, 100);
  Octets memory(5000);
  const auto segment = b.stream.expose(memory, Reach::remote_write).front();
  CHECK_FALSE(b.stream.mid_message());
  b.give_all(fpdu(tagged(Opcode::rdma_write, segment.handle, 0, false), noise(1000, 1)));
  CHECK(b.stream.mid_message());
  // More of the memory could be written, and need not.
  b.give_all(fpdu(tagged(Opcode::rdma_write, segment.handle, 1000, true), noise(500, 2)));
  CHECK_FALSE(b.stream.mid_message());
  b.give_all(fpdu(untagged(Opcode::send, queue_send, 1, 0, false), noise(10, 3)));
  CHECK(b.stream.mid_message());
  b.give_all(fpdu(untagged(Opcode::send, queue_send, 1, 10, true), noise(10, 4)));
  CHECK_FALSE(b.stream.mid_message());
  const Octets next = fpdu(untagged(Opcode::send, queue_send, 2), noise(10, 5));
  b.give_all(std::span(next).first(1));
  CHECK(b.stream.mid_message());
  b.give_all(std::span(next).subspan(1));
  CHECK_FALSE(b.stream.mid_message());
  CHECK(b.messages.size() == 2);
  CHECK_FALSE(b.stream.failure());
}

TEST_CASE("iwarp more: Read Responses come in the order of their requests, and no longer than asked for") {
  End reader(3);
  Octets sink(100), other(100);
  const auto next_request = [&reader] {
    const Octets wire = reader.take(fpdu_size(ddp_untagged_size + read_request_size));
    REQUIRE(wire.size() == fpdu_size(ddp_untagged_size + read_request_size));
    return decode_read_request(wire.data() + fpdu_length_size + ddp_untagged_size);
  };
  Reason expected{};
  SUBCASE("the second before the first") {
    reader.stream.post_rdma_read(sink, {5, 100, 0}, 1);
    reader.stream.post_rdma_read(other, {5, 100, 0}, 2);
    const ReadRequest first = next_request(), second = next_request();
    CHECK(first.sink_stag != second.sink_stag);
    reader.give_all(fpdu(tagged(Opcode::read_response, second.sink_stag, 0, true), noise(100, 1)));
    expected = tagged_invalid_stag;
  }
  SUBCASE("octets for a Read of none") {
    reader.stream.post_rdma_read({}, {5, 0, 0}, 1);
    const ReadRequest asked = next_request();
    CHECK(asked.size == 0);
    reader.give_all(fpdu(tagged(Opcode::read_response, asked.sink_stag, 0, true), noise(4, 1)));
    expected = tagged_bounds;
  }
  SUBCASE("more after the last") {
    reader.stream.post_rdma_read(sink, {5, 100, 0}, 1);
    const ReadRequest asked = next_request();
    reader.give_all(fpdu(tagged(Opcode::read_response, asked.sink_stag, 0, true), noise(100, 1)));
    CHECK(reader.completed == std::vector<std::uint64_t>{1});
    reader.completed.clear();
    reader.give_all(fpdu(tagged(Opcode::read_response, asked.sink_stag, 0, true), noise(100, 2)));
    CHECK(sink == noise(100, 1));
    expected = operation_opcode;
  }
  REQUIRE(reader.stream.failure());
  CHECK(reader.stream.failure()->message().find(text(expected)) != std::string::npos);
  CHECK(reader.completed.empty());
  CHECK(other == Octets(100));
}

TEST_CASE("iwarp more: memory that a Send invalidates in the middle of a Write is not written any more") {
  for (const bool crc : {false, true}) {
    CAPTURE(crc);
    End b(2, stream_config(crc, 1442));
    b.receives(1, 100);
    Octets memory(50'000);
    const auto segment = b.stream.expose(memory, Reach::remote_write).front();
    const Octets ones(1000, std::byte{1});
    b.give_all(fpdu(tagged(Opcode::rdma_write, segment.handle, 0, false), ones, crc));
    b.give_all(fpdu(untagged(Opcode::send_invalidate, queue_send, 1, 0, true, segment.handle), {}, crc));
    REQUIRE(b.messages.size() == 1);
    CHECK(b.messages[0].invalidated == segment.handle);
    CHECK(b.stream.awaited() == 0);
    std::ranges::fill(memory, std::byte{9});  // it is the caller's again
    b.give_all(fpdu(tagged(Opcode::rdma_write, segment.handle, 1000, true), ones, crc));
    REQUIRE(b.stream.failure());
    CHECK(b.stream.failure()->message().find(text(tagged_invalid_stag)) != std::string::npos);
    CHECK(memory == Octets(memory.size(), std::byte{9}));
  }
}

TEST_CASE("regions: of thousands each is found, and those that went are not") {
  std::mt19937 random(3);
  RegionTable table([&random] { return static_cast<std::uint32_t>(random()); });
  Octets memory(16);
  std::vector<std::uint32_t> stags;
  const auto add = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) stags.push_back(table.add(memory, Use::remote_write).stag);
  };
  const auto found = [&] {
    return static_cast<std::size_t>(
        std::ranges::count_if(stags, [&](std::uint32_t stag) { return table.find(stag) != nullptr; }));
  };
  add(3000);
  CHECK(found() == 3000);
  CHECK(table.awaited() == 3000 * memory.size());
  for (std::size_t i = 0; i < 3000; i += 2) CHECK(table.remove(stags[i]));
  for (std::size_t i = 0; i < 3000; ++i) REQUIRE((table.find(stags[i]) != nullptr) == (i % 2 == 1));
  CHECK(table.awaited() == 1500 * memory.size());
  add(2000);
  CHECK(found() == 3500);
  table.withdraw(*table.find(stags.back()));
  CHECK(table.awaited() == 3499 * memory.size());
  CHECK(table.find(stags.back())->memory.empty());
  CHECK(table.check(stags.back(), 0, 16, Use::remote_write).region != nullptr);
  CHECK(table.check(stags.back(), 1, 16, Use::remote_write).refusal == Denial::out_of_bounds);
  table.clear();
  CHECK(found() == 0);
  CHECK(table.awaited() == 0);
  add(1);
  CHECK(found() == 1);
}

// ---- The handshake ----

namespace {

const Octets kPrivate{std::byte{1}, std::byte{2}, std::byte{3}};

Initiator asking(CrcPolicy policy) {
  return {policy, Depths{.ird = 16, .ord = 8}, kPrivate, "server:20049"};
}
MpaFrame request_now(const Initiator& from) {
  return decode(MpaFrameKind::request, from.request()).frame;
}
MpaFrame answer_with(std::uint8_t revision, std::optional<MpaEnhanced> enhanced = std::nullopt) {
  MpaFrame frame;
  frame.kind = MpaFrameKind::reply;
  frame.revision = revision;
  frame.enhanced = enhanced;
  return frame;
}

}  // namespace

TEST_CASE("handshake: who asked for CRC has it, whether the Reply says so or not") {
  // RFC 5044 7.1.1: one C bit of the two is enough.
  Initiator from = asking(CrcPolicy::on);
  REQUIRE(request_now(from).crc);
  CHECK(from.received(encode(answer_with(2))).verdict == Initiator::Verdict::established);
  CHECK(from.agreement().crc);
}

TEST_CASE("handshake: crc=on asks with CRC in every attempt, crc=off in none") {
  for (const CrcPolicy policy : {CrcPolicy::on, CrcPolicy::off}) {
    const bool crc = policy == CrcPolicy::on;
    CAPTURE(crc);
    Initiator from = asking(policy);
    CHECK(request_now(from).revision == 2);
    CHECK(request_now(from).crc == crc);
    CHECK(from.closed().verdict == Initiator::Verdict::again);
    CHECK(request_now(from).revision == 1);
    CHECK(request_now(from).crc == crc);
    CHECK(request_now(from).private_data == kPrivate);
    CHECK(from.closed().verdict == Initiator::Verdict::failed);
  }
}

TEST_CASE("handshake: a Request of revision 1 is not answered in revision 2") {
  Initiator from = asking(CrcPolicy::automatic);
  CHECK(from.closed().verdict == Initiator::Verdict::again);
  REQUIRE(request_now(from).revision == 1);
  CHECK(from.received(encode(answer_with(2))).verdict == Initiator::Verdict::failed);
  CHECK(from.failure().kind() == ErrorKind::protocol);
  CHECK(from.failure().errno_value() == EPROTO);
}

TEST_CASE("handshake: a peer that wants to read deeper than was offered may, up to 128") {
  struct Row {
    std::uint16_t wanted;
    std::uint32_t ird;  // 0: refused
  };
  for (const Row& row : {Row{1, 16}, Row{16, 16}, Row{64, 64}, Row{128, 128}, Row{129, 0}}) {
    CAPTURE(row.wanted);
    Initiator from = asking(CrcPolicy::automatic);
    const auto outcome = from.received(encode(answer_with(2, MpaEnhanced{.ird = 4, .ord = row.wanted})));
    if (row.ird == 0) {
      CHECK(outcome.verdict == Initiator::Verdict::failed);
      continue;
    }
    REQUIRE(outcome.verdict == Initiator::Verdict::established);
    CHECK(from.agreement().ird == row.ird);
    CHECK(from.agreement().ord == 4);
  }
}

TEST_CASE("handshake: a rejection without room for IRD and ORD is a rejection all the same") {
  MpaFrame frame = answer_with(2);
  frame.reject = true;
  Octets bytes = encode(frame);
  bytes[16] |= std::byte{0x10};  // S: enhanced
  Initiator from = asking(CrcPolicy::automatic);
  CHECK(from.received(bytes).verdict == Initiator::Verdict::again);
  CHECK(request_now(from).revision == 2);
  CHECK(request_now(from).crc);
}

TEST_CASE("handshake: a rejection in revision 1 ends the attempts in revision 2, with CRC and without") {
  Initiator from = asking(CrcPolicy::on);
  MpaFrame frame = answer_with(1);
  frame.reject = true;
  CHECK(from.received(encode(frame)).verdict == Initiator::Verdict::again);
  CHECK(request_now(from).revision == 1);
  CHECK(from.received(encode(frame)).verdict == Initiator::Verdict::failed);
  CHECK(from.failure().errno_value() == ECONNREFUSED);
}

TEST_CASE("handshake: the responder has the depths that it offers where the Request names none") {
  const Depths own{.ird = 3, .ord = 5};
  for (const bool enhanced : {false, true}) {
    CAPTURE(enhanced);
    MpaFrame frame;
    frame.revision = static_cast<std::uint8_t>(enhanced ? 2 : 1);
    if (enhanced) frame.enhanced = MpaEnhanced{.ird = mpa_max_depth, .ord = mpa_max_depth};
    Responder to;
    REQUIRE(to.received(encode(frame)) == Responder::Verdict::request);
    const auto agreement = to.agree(CrcPolicy::automatic, own);
    REQUIRE(agreement);
    CHECK(agreement->ird == 3);
    CHECK(agreement->ord == 5);
  }
}

TEST_CASE("handshake: a peer-to-peer initiator that can only begin with a Read is told to") {
  MpaFrame frame;
  frame.enhanced = MpaEnhanced{.peer_to_peer = true, .rtr_read = true};
  Responder to;
  REQUIRE(to.received(encode(frame)) == Responder::Verdict::request);
  const auto agreement = to.agree(CrcPolicy::automatic, {});
  REQUIRE(agreement);
  const MpaFrame got = decode(MpaFrameKind::reply, to.accept(*agreement, {})).frame;
  REQUIRE(got.enhanced);
  CHECK(got.enhanced->rtr_read);
  CHECK_FALSE(got.enhanced->rtr_write);
}

}  // namespace nfsrdma::fabric::iwarp
