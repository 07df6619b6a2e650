// The MPA negotiation of both sides against each other, and against peers with peculiarities.
#include "fabric/iwarp/handshake.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

using namespace nfsrdma;
using namespace nfsrdma::fabric;
using namespace nfsrdma::fabric::iwarp;
using Verdict = Initiator::Verdict;

namespace {

const std::vector<std::byte> hello{std::byte{1}, std::byte{2}, std::byte{3}};
const std::vector<std::byte> answer(20, std::byte{9});

Initiator initiator(CrcPolicy policy = CrcPolicy::automatic) {
  return {policy, Depths{.ird = 16, .ord = 8}, hello, "server:20049"};
}

MpaFrame request_of(const Initiator& from) {
  return decode(MpaFrameKind::request, from.request()).frame;
}

MpaFrame reply(bool reject = false, std::uint8_t revision = 2) {
  MpaFrame frame;
  frame.kind = MpaFrameKind::reply;
  frame.reject = reject;
  frame.revision = revision;
  if (revision == 2) frame.enhanced = MpaEnhanced{.ird = 4, .ord = 4};
  frame.private_data = answer;
  return frame;
}

/// Both sides exchange their frames; the responder accepts what it can.
struct Both {
  Verdict initiator = Verdict::more;
  std::optional<Agreement> responder;
};
Both meet(Initiator& from, CrcPolicy policy, Depths depths = {}) {
  Responder to;
  const auto request = from.request();
  REQUIRE(to.received(request) == Responder::Verdict::request);
  CHECK(to.consumed() == request.size());
  CHECK(to.request().private_data == hello);
  Both out;
  out.responder = to.agree(policy, depths);
  const auto frame = out.responder ? to.accept(*out.responder, answer) : to.reject({});
  out.initiator = from.received(frame).verdict;
  return out;
}

/// A Reply without private data.
MpaFrame answer_with(std::uint8_t revision, std::optional<MpaEnhanced> enhanced = std::nullopt) {
  MpaFrame frame;
  frame.kind = MpaFrameKind::reply;
  frame.revision = revision;
  frame.enhanced = enhanced;
  return frame;
}

}  // namespace

TEST_CASE("handshake: revision 2 with read depths") {
  Initiator from = initiator();
  const Both both = meet(from, CrcPolicy::automatic, {.ird = 3, .ord = 5});
  CHECK(both.initiator == Verdict::established);
  const Agreement& agreement = from.agreement();
  CHECK(agreement.revision == 2);
  CHECK_FALSE(agreement.crc);
  CHECK(agreement.ord == 3);  // what the responder takes
  CHECK(agreement.ird == 16);
  CHECK(agreement.private_data == answer);
  REQUIRE(both.responder);
  CHECK(both.responder->ird == 3);
  CHECK(both.responder->ord == 5);
  CHECK(established(agreement).detail == "MPA revision 2, CRC off, markers off, IRD 16, ORD 3");
}

TEST_CASE("handshake: CRC is on for both as soon as one side wants it") {
  struct Case {
    CrcPolicy ours, theirs;
    bool crc;
  };
  for (const Case& c :
       {Case{CrcPolicy::automatic, CrcPolicy::automatic, false},
        Case{CrcPolicy::on, CrcPolicy::automatic, true}, Case{CrcPolicy::automatic, CrcPolicy::on, true},
        Case{CrcPolicy::on, CrcPolicy::on, true}, Case{CrcPolicy::off, CrcPolicy::off, false}}) {
    Initiator from = initiator(c.ours);
    const Both both = meet(from, c.theirs);
    REQUIRE(both.initiator == Verdict::established);
    REQUIRE(both.responder);
    CHECK(from.agreement().crc == c.crc);
    CHECK(both.responder->crc == c.crc);
  }
}

TEST_CASE("handshake: CRC demanded of one who forbids it") {
  Initiator never = initiator(CrcPolicy::off);
  CHECK(meet(never, CrcPolicy::on).initiator == Verdict::failed);
  CHECK(never.failure().message().find("crc=auto") != std::string::npos);
  Initiator always = initiator(CrcPolicy::on);
  CHECK(meet(always, CrcPolicy::off).initiator == Verdict::again);
}

TEST_CASE("handshake: a refusal leads to CRC, then to revision 1, then to an error that tells of all") {
  Initiator from = initiator();
  CHECK_FALSE(request_of(from).crc);
  CHECK(from.received(encode(reply(true))).verdict == Verdict::again);
  CHECK(request_of(from).crc);
  CHECK(request_of(from).revision == 2);
  CHECK(from.received(encode(reply(true))).verdict == Verdict::again);
  CHECK(request_of(from).revision == 1);
  CHECK_FALSE(request_of(from).enhanced);
  CHECK(from.received(encode(reply(true, 1))).verdict == Verdict::failed);
  CHECK(from.failure().kind() == ErrorKind::connection);
  CHECK(from.failure().errno_value() == ECONNREFUSED);
  CHECK(from.failure().message().find(
            "revision 2 without CRC (refused), revision 2 with CRC (refused), revision 1 "
            "without CRC (refused)") != std::string::npos);
}

TEST_CASE("handshake: a peer that closes, or refuses with revision 1, is asked in revision 1") {
  Initiator closed = initiator();
  CHECK(closed.closed().verdict == Verdict::again);
  CHECK(request_of(closed).revision == 1);
  CHECK(closed.received(encode(reply(false, 1))).verdict == Verdict::established);
  CHECK(closed.agreement().revision == 1);
  CHECK(closed.agreement().ord == 8);

  Initiator refused = initiator();
  CHECK(refused.received(encode(reply(true, 1))).verdict == Verdict::again);
  CHECK(request_of(refused).revision == 1);

  Initiator nobody = initiator();
  CHECK(nobody.closed().verdict == Verdict::again);
  CHECK(nobody.closed().verdict == Verdict::failed);
  CHECK(nobody.failure().errno_value() == ECONNRESET);
  CHECK(nobody.failure().message().find("no iWARP listener") != std::string::npos);
}

TEST_CASE("handshake: a peer that answers revision 2 with revision 1 is taken at its word") {
  Initiator from = initiator();
  CHECK(from.received(encode(reply(false, 1))).verdict == Verdict::established);
  CHECK(from.agreement().revision == 1);
}

TEST_CASE("handshake: Replies in pieces, and FPDUs right behind") {
  Initiator from = initiator();
  auto bytes = encode(reply());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    REQUIRE(from.received(std::span(bytes).first(length)).verdict == Verdict::more);
  }
  const std::size_t size = bytes.size();
  bytes.resize(size + 40);
  const auto outcome = from.received(bytes);
  CHECK(outcome.verdict == Verdict::established);
  CHECK(outcome.consumed == size);
}

TEST_CASE("handshake: Replies that cannot be used, each with its sentence") {
  const auto failure = [](const std::vector<std::byte>& bytes) {
    Initiator from = initiator();
    REQUIRE(from.received(bytes).verdict == Verdict::failed);
    return from.failure();
  };
  MpaFrame markers = reply();
  markers.markers = true;
  CHECK(failure(encode(markers)).message().find("markers") != std::string::npos);
  MpaFrame future = reply();
  future.revision = 3;
  CHECK(failure(encode(future)).message().find("revision 3") != std::string::npos);
  CHECK(failure({std::byte{'H'}, std::byte{'T'}}).message().find("does not speak iWARP") !=
        std::string::npos);
  auto too_much = encode(reply());
  too_much[18] = std::byte{0x40};
  CHECK(failure(too_much).message().find("512") != std::string::npos);
  MpaFrame greedy = reply();
  greedy.enhanced = MpaEnhanced{.ird = 1, .ord = 5000};
  CHECK(failure(encode(greedy)).message().find("5000") != std::string::npos);
  for (const auto& bytes : {encode(markers), encode(future), too_much})
    CHECK(failure(bytes).peer() == "server:20049");
}

TEST_CASE("handshake: 0x3fff leaves the depth to us") {
  Initiator from = initiator();
  MpaFrame frame = reply();
  frame.enhanced = MpaEnhanced{.ird = mpa_max_depth, .ord = mpa_max_depth};
  CHECK(from.received(encode(frame)).verdict == Verdict::established);
  CHECK(from.agreement().ird == 16);
  CHECK(from.agreement().ord == 8);
}

TEST_CASE("handshake: the responder answers in the initiator's revision") {
  MpaFrame old;
  old.revision = 1;
  old.private_data = hello;
  Responder to;
  REQUIRE(to.received(encode(old)) == Responder::Verdict::request);
  const auto agreement = to.agree(CrcPolicy::automatic, {});
  REQUIRE(agreement);
  const MpaFrame got = decode(MpaFrameKind::reply, to.accept(*agreement, answer)).frame;
  CHECK(got.revision == 1);
  CHECK_FALSE(got.enhanced);
  CHECK(got.private_data == answer);
}

TEST_CASE("handshake: the responder refuses markers and drops what is not MPA") {
  MpaFrame frame;
  frame.markers = true;
  frame.enhanced.emplace();
  Responder to;
  CHECK(to.received(encode(frame)) == Responder::Verdict::refuse);
  const MpaFrame got = decode(MpaFrameKind::reply, to.reject({})).frame;
  CHECK(got.reject);
  CHECK_FALSE(got.markers);
  CHECK(Responder().received(std::vector<std::byte>(3)) == Responder::Verdict::drop);
  MpaFrame future;
  future.revision = 7;
  CHECK(Responder().received(encode(future)) == Responder::Verdict::drop);
}

TEST_CASE("handshake: a peer-to-peer initiator is told which first frame to send") {
  MpaFrame frame;
  frame.enhanced = MpaEnhanced{.peer_to_peer = true, .rtr_send = true, .rtr_write = true, .rtr_read = true};
  Responder to;
  REQUIRE(to.received(encode(frame)) == Responder::Verdict::request);
  const MpaFrame got = decode(MpaFrameKind::reply, to.accept(*to.agree(CrcPolicy::automatic, {}), {})).frame;
  REQUIRE(got.enhanced);
  CHECK(got.enhanced->peer_to_peer);
  CHECK(got.enhanced->rtr_write);
  CHECK_FALSE(got.enhanced->rtr_send);
  CHECK_FALSE(got.enhanced->rtr_read);
}

TEST_CASE("handshake: who asked for CRC has it, whether the Reply says so or not") {
  // RFC 5044 7.1.1: one C bit of the two is enough.
  Initiator from = initiator(CrcPolicy::on);
  REQUIRE(request_of(from).crc);
  CHECK(from.received(encode(answer_with(2))).verdict == Initiator::Verdict::established);
  CHECK(from.agreement().crc);
}

TEST_CASE("handshake: crc=on asks with CRC in every attempt, crc=off in none") {
  for (const CrcPolicy policy : {CrcPolicy::on, CrcPolicy::off}) {
    const bool crc = policy == CrcPolicy::on;
    CAPTURE(crc);
    Initiator from = initiator(policy);
    CHECK(request_of(from).revision == 2);
    CHECK(request_of(from).crc == crc);
    CHECK(from.closed().verdict == Initiator::Verdict::again);
    CHECK(request_of(from).revision == 1);
    CHECK(request_of(from).crc == crc);
    CHECK(request_of(from).private_data == hello);
    CHECK(from.closed().verdict == Initiator::Verdict::failed);
  }
}

TEST_CASE("handshake: a Request of revision 1 is not answered in revision 2") {
  Initiator from = initiator(CrcPolicy::automatic);
  CHECK(from.closed().verdict == Initiator::Verdict::again);
  REQUIRE(request_of(from).revision == 1);
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
    Initiator from = initiator(CrcPolicy::automatic);
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
  auto bytes = encode(frame);
  bytes[16] |= std::byte{0x10};  // S: enhanced
  Initiator from = initiator(CrcPolicy::automatic);
  CHECK(from.received(bytes).verdict == Initiator::Verdict::again);
  CHECK(request_of(from).revision == 2);
  CHECK(request_of(from).crc);
}

TEST_CASE("handshake: a rejection in revision 1 ends the attempts in revision 2, with CRC and without") {
  Initiator from = initiator(CrcPolicy::on);
  MpaFrame frame = answer_with(1);
  frame.reject = true;
  CHECK(from.received(encode(frame)).verdict == Initiator::Verdict::again);
  CHECK(request_of(from).revision == 1);
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
