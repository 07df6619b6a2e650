// Whatever a peer does wrong ends in the right Terminate on the wire and an Error at both ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "unit/fabric/iwarp/pair.h"

using namespace nfsrdma;
using namespace nfsrdma::fabric;
using namespace nfsrdma::fabric::iwarp;
using namespace nfsrdma::fabric::iwarp::testing;

namespace {

constexpr std::uint32_t no_such_stag = 0x01010101;

/// A victim with something to attack: memory for Writes and for Reads, one Receive of 100 octets.
struct Victim : End {
  explicit Victim(bool with_crc) : End(7, settings(with_crc)), crc(with_crc) {
    writable = stream.expose(memory, Reach::remote_write).front().handle;
    readable = stream.expose(source, Reach::remote_read).front().handle;
    receives(1, 100);
  }
  static Stream::Config settings(bool with_crc) {
    Stream::Config c;
    c.crc = with_crc;
    c.ird = 1;
    return c;
  }
  void attack(const DdpHeader& header, std::size_t payload = 10) {
    give_all(fpdu(header, std::vector<std::byte>(payload, std::byte{0xee}), crc));
  }
  void read_request(const ReadRequest& request, std::uint32_t msn = 1) {
    std::vector<std::byte> payload(read_request_size);
    encode(request, payload.data());
    give_all(fpdu(untagged(Opcode::read_request, 1, msn), payload, crc));
  }
  bool crc;
  std::vector<std::byte> memory = std::vector<std::byte>(1000, std::byte{0});
  std::vector<std::byte> source = std::vector<std::byte>(1000, std::byte{0});
  std::uint32_t writable = 0;
  std::uint32_t readable = 0;
};

/// The victim failed for `reason`, tells the peer so, and the peer understands.
void expect(Victim& victim, Reason reason) {
  REQUIRE(victim.stream.failure());
  CAPTURE(victim.stream.failure()->text());
  CHECK(victim.stream.failure()->kind() == ErrorKind::protocol);
  CHECK(victim.stream.failure()->errno_value() == EPROTO);
  CHECK(victim.stream.failure()->message().find(text(reason)) != std::string::npos);
  const auto wire = victim.take_all();
  REQUIRE(wire.size() >= 24 + 4);
  const auto first = std::to_integer<unsigned>(wire[20]);
  CHECK((first >> 4) == reason.layer);
  CHECK((first & 0xf) == reason.type);
  CHECK(std::to_integer<unsigned>(wire[21]) == reason.code);
  // The header of the offending segment comes along, except for MPA's reasons.
  CHECK((wire[22] != std::byte{0}) == (reason.layer != 2));

  Stream::Config config;
  config.crc = victim.crc;
  End attacker(8, config);
  attacker.give_all(wire);
  REQUIRE(attacker.stream.failure());
  CHECK(attacker.stream.failure()->kind() == ErrorKind::connection);
  CHECK(attacker.stream.failure()->message().find(text(reason)) != std::string::npos);
  CHECK(attacker.take_all().empty());  // a Terminate is not answered
  for (const std::byte b : victim.memory) REQUIRE(b == std::byte{0});
}

using Attack = std::function<void(Victim&)>;
struct Row {
  const char* name;
  Reason reason;
  Attack attack;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all{
      {"a Write to nowhere", tagged_invalid_stag,
       [](Victim& v) { v.attack(tagged(Opcode::rdma_write, no_such_stag, 0, true)); }},
      {"a Write to memory for reading", remote_access,
       [](Victim& v) { v.attack(tagged(Opcode::rdma_write, v.readable, 0, true)); }},
      {"a Write past the end", tagged_bounds,
       [](Victim& v) { v.attack(tagged(Opcode::rdma_write, v.writable, 991, true)); }},
      {"a Write that begins past the end", tagged_bounds,
       [](Victim& v) { v.attack(tagged(Opcode::rdma_write, v.writable, 1000, true)); }},
      {"a Write whose offset wraps", tagged_to_wrap,
       [](Victim& v) { v.attack(tagged(Opcode::rdma_write, v.writable, UINT64_MAX - 3, true)); }},
      {"a tagged Send", operation_opcode,
       [](Victim& v) { v.attack(tagged(Opcode::send, v.writable, 0, true)); }},
      {"a tagged Read Request", operation_opcode,
       [](Victim& v) { v.attack(tagged(Opcode::read_request, v.writable, 0, true)); }},
      {"a Read Response to nothing", operation_opcode,
       [](Victim& v) { v.attack(tagged(Opcode::read_response, v.writable, 0, true)); }},
      {"an unknown opcode", operation_opcode,
       [](Victim& v) { v.attack(untagged(static_cast<Opcode>(8), 0, 1)); }},
      {"an untagged Write", operation_opcode,
       [](Victim& v) { v.attack(untagged(Opcode::rdma_write, 0, 1)); }},
      {"a Send on the Read queue", operation_opcode,
       [](Victim& v) { v.attack(untagged(Opcode::send, 1, 1)); }},
      {"queue 3", untagged_invalid_qn, [](Victim& v) { v.attack(untagged(Opcode::send, 3, 1)); }},
      {"DDP version 0, tagged", tagged_version,
       [](Victim& v) {
         auto h = tagged(Opcode::rdma_write, v.writable, 0, true);
         h.ddp_version = 0;
         v.attack(h);
       }},
      {"DDP version 2, untagged", untagged_version,
       [](Victim& v) {
         auto h = untagged(Opcode::send, 0, 1);
         h.ddp_version = 2;
         v.attack(h);
       }},
      {"RDMAP version 0", operation_version,
       [](Victim& v) {
         auto h = untagged(Opcode::send, 0, 1);
         h.rdmap_version = 0;
         v.attack(h);
       }},
      {"message number 2 first", untagged_msn_range,
       [](Victim& v) { v.attack(untagged(Opcode::send, 0, 2)); }},
      {"message number 0", untagged_msn_range, [](Victim& v) { v.attack(untagged(Opcode::send, 0, 0)); }},
      {"a message that begins in its middle", untagged_mo,
       [](Victim& v) { v.attack(untagged(Opcode::send, 0, 1, 4)); }},
      {"a gap in a message", untagged_mo,
       [](Victim& v) {
         v.attack(untagged(Opcode::send, 0, 1, 0, false));
         v.attack(untagged(Opcode::send, 0, 1, 11));
       }},
      {"another kind of Send in the middle", operation_opcode,
       [](Victim& v) {
         v.attack(untagged(Opcode::send, 0, 1, 0, false));
         v.attack(untagged(Opcode::send_solicited, 0, 1, 10));
       }},
      {"a message too long", untagged_too_long,
       [](Victim& v) { v.attack(untagged(Opcode::send, 0, 1), 101); }},
      {"a message too long in its second segment", untagged_too_long,
       [](Victim& v) {
         v.attack(untagged(Opcode::send, 0, 1, 0, false), 60);
         v.attack(untagged(Opcode::send, 0, 1, 60), 41);
       }},
      {"no Receive posted", untagged_no_buffer,
       [](Victim& v) {
         v.attack(untagged(Opcode::send, 0, 1));
         v.attack(untagged(Opcode::send, 0, 2));
       }},
      {"a Send that invalidates what is not there", remote_invalid_stag,
       [](Victim& v) { v.attack(untagged(Opcode::send_invalidate, 0, 1, 0, true, no_such_stag)); }},
      {"a Read of nowhere", remote_invalid_stag,
       [](Victim& v) { v.read_request({1, 0, 10, no_such_stag, 0}); }},
      {"a Read of memory for writing", remote_access,
       [](Victim& v) { v.read_request({1, 0, 10, v.writable, 0}); }},
      {"a Read past the end", remote_bounds, [](Victim& v) { v.read_request({1, 0, 10, v.readable, 991}); }},
      {"a Read whose source offset wraps", remote_to_wrap,
       [](Victim& v) { v.read_request({1, 0, 10, v.readable, UINT64_MAX}); }},
      {"a Read whose sink offset wraps", remote_to_wrap,
       [](Victim& v) { v.read_request({1, UINT64_MAX, 10, v.readable, 0}); }},
      {"more Reads than IRD", untagged_no_buffer,
       [](Victim& v) {
         v.read_request({1, 0, 10, v.readable, 0}, 1);
         v.read_request({1, 0, 10, v.readable, 0}, 2);
       }},
      {"a short Read Request", operation_unspecified,
       [](Victim& v) { v.attack(untagged(Opcode::read_request, 1, 1), 27); }},
      {"a long Read Request", untagged_too_long,
       [](Victim& v) { v.attack(untagged(Opcode::read_request, 1, 1), 29); }},
      {"a Read Request in two segments", untagged_too_long,
       [](Victim& v) { v.attack(untagged(Opcode::read_request, 1, 1, 0, false), read_request_size); }},
      {"a Read Request that begins in its middle", untagged_mo,
       [](Victim& v) { v.attack(untagged(Opcode::read_request, 1, 1, 28), read_request_size); }},
      {"Read Request number 2 first", untagged_msn_range,
       [](Victim& v) { v.read_request({1, 0, 10, v.readable, 0}, 2); }},
      {"the same Read Request again", untagged_msn_range,
       [](Victim& v) {
         v.read_request({1, 0, 0, v.readable, 0}, 1);
         v.read_request({1, 0, 0, v.readable, 0}, 1);
       }},
      {"a Read Request on the Send queue", operation_opcode,
       [](Victim& v) { v.attack(untagged(Opcode::read_request, 0, 1), read_request_size); }},
      {"a Read Request on the Terminate queue", operation_opcode,
       [](Victim& v) { v.attack(untagged(Opcode::read_request, 2, 1), read_request_size); }},
      {"a Terminate on the Send queue", operation_opcode,
       [](Victim& v) { v.attack(untagged(Opcode::terminate, 0, 1)); }},
      {"a Terminate on the Read queue", operation_opcode,
       [](Victim& v) { v.attack(untagged(Opcode::terminate, 1, 1)); }},
      {"an untagged Read Response", operation_opcode,
       [](Victim& v) { v.attack(untagged(Opcode::read_response, 0, 1)); }},
      {"another STag in the middle of a Send with Invalidate", operation_opcode,
       [](Victim& v) {
         v.attack(untagged(Opcode::send_invalidate, 0, 1, 0, false, v.writable));
         v.attack(untagged(Opcode::send_invalidate, 0, 1, 10, true, v.readable));
       }},
      {"a Write to memory that a Send has just invalidated", tagged_invalid_stag,
       [](Victim& v) {
         v.attack(untagged(Opcode::send_invalidate, 0, 1, 0, true, v.writable));
         v.attack(tagged(Opcode::rdma_write, v.writable, 0, true));
       }},
      {"a Terminate in two segments", untagged_too_long,
       [](Victim& v) { v.attack(untagged(Opcode::terminate, 2, 1, 0, false)); }},
      {"a long Terminate", untagged_too_long,
       [](Victim& v) { v.attack(untagged(Opcode::terminate, 2, 1), 3000); }},
      {"an FPDU too short for its header", mpa_framing,
       [](Victim& v) { v.give_all(std::vector<std::byte>(64, std::byte{0})); }},
  };
  return all;
}

using Octets = std::vector<std::byte>;

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

TEST_CASE("violations: each one its Terminate, with and without CRC") {
  for (const bool crc : {false, true}) {
    for (const Row& row : rows()) {
      CAPTURE(crc);
      CAPTURE(row.name);
      Victim victim(crc);
      row.attack(victim);
      expect(victim, row.reason);
    }
  }
}

TEST_CASE(
    "T38 violations: one Read Request more than the agreed IRD ends the connection, and is not answered") {
  for (const std::uint32_t ird : {1U, 2U, 16U}) {
    CAPTURE(ird);
    Stream::Config config;
    config.ird = ird;
    End victim(7, config);
    std::vector<std::byte> source(100);
    const auto readable = victim.stream.expose(source, Reach::remote_read).front().handle;
    std::uint32_t msn = 0;
    const auto ask = [&] {
      std::vector<std::byte> payload(read_request_size);
      encode(ReadRequest{1, 0, 10, readable, 0}, payload.data());
      victim.give_all(fpdu(untagged(Opcode::read_request, 1, ++msn), payload));
    };
    // As many again, once those before have been answered.
    for (int round = 0; round < 2; ++round) {
      for (std::uint32_t i = 0; i < ird; ++i) ask();
      REQUIRE_FALSE(victim.stream.failure());
      CHECK(victim.take_all().size() == ird * fpdu_size(ddp_tagged_size + 10));
    }
    for (std::uint32_t i = 0; i < ird; ++i) ask();
    REQUIRE_FALSE(victim.stream.failure());
    ask();
    REQUIRE(victim.stream.failure());
    CHECK(victim.stream.failure()->message().find("(IRD)") != std::string::npos);
  }
}

TEST_CASE("violations: a wrong CRC, wherever the wrong bit is") {
  Victim sample(true);
  const auto good =
      fpdu(tagged(Opcode::rdma_write, sample.writable, 0, true), std::vector<std::byte>(50), true);
  // Not the length, which decides where the CRC is looked for.
  for (std::size_t octet = fpdu_length_size; octet < good.size(); ++octet) {
    CAPTURE(octet);
    Victim victim(true);
    auto bad = good;
    bad[octet] ^= std::byte{0x04};
    victim.give_all(bad);
    REQUIRE(victim.stream.failure());
    CHECK(victim.stream.failure()->message().find("MPA: CRC error") != std::string::npos);
  }
  Victim victim(true);
  auto bad = good;
  bad.back() ^= std::byte{1};
  victim.give_all(bad);
  expect(victim, mpa_crc_error);
}

TEST_CASE("violations: with CRC, nothing is delivered before its CRC was right") {
  Victim victim(true);
  auto wire = fpdu(untagged(Opcode::send, 0, 1), std::vector<std::byte>(20), true);
  wire.back() ^= std::byte{1};
  victim.give_all(std::span(wire).first(wire.size() - 1));
  CHECK(victim.messages.empty());
  victim.give_all(std::span(wire).last(1));
  CHECK(victim.messages.empty());
  CHECK(victim.stream.failure());
}

TEST_CASE("violations: Read Responses that are not what was asked for") {
  struct Case {
    const char* name;
    std::uint64_t to;
    std::size_t payload;
    bool last;
    bool right_stag;
    Reason reason;
  };
  for (const Case& c :
       {Case{"short", 0, 50, true, true, tagged_bounds}, Case{"long", 0, 101, true, true, tagged_bounds},
        Case{"late", 10, 50, false, true, tagged_bounds},
        Case{"elsewhere", 0, 100, true, false, tagged_invalid_stag}}) {
    CAPTURE(c.name);
    End reader(3);
    std::vector<std::byte> sink(100);
    reader.stream.post_rdma_read(sink, {5, 100, 0}, 1);
    const auto request = reader.take_all();
    const ReadRequest asked = decode_read_request(request.data() + 20);
    CHECK(asked.size == 100);
    const std::uint32_t stag = c.right_stag ? asked.sink_stag : asked.sink_stag + 1;
    reader.give_all(
        fpdu(tagged(Opcode::read_response, stag, c.to, c.last), std::vector<std::byte>(c.payload)));
    REQUIRE(reader.stream.failure());
    CHECK(reader.stream.failure()->message().find(text(c.reason)) != std::string::npos);
    CHECK(reader.completed.empty());
  }
}

TEST_CASE("violations: the sink of a Read is for its Response alone") {
  End reader(3);
  std::vector<std::byte> sink(100, std::byte{0});
  reader.stream.post_rdma_read(sink, {5, 100, 0}, 1);
  const ReadRequest asked = decode_read_request(reader.take_all().data() + 20);
  SUBCASE("no Write") {
    const std::vector<std::byte> ones(10, std::byte{1});
    reader.give_all(fpdu(tagged(Opcode::rdma_write, asked.sink_stag, 0, true), ones));
    REQUIRE(reader.stream.failure());
    CHECK(reader.stream.failure()->message().find(text(remote_access)) != std::string::npos);
    CHECK(sink[0] == std::byte{0});
  }
  SUBCASE("no invalidation") {
    reader.receives(1, 100);
    reader.give_all(fpdu(untagged(Opcode::send_invalidate, 0, 1, 0, true, asked.sink_stag), {}));
    REQUIRE(reader.stream.failure());
    CHECK(reader.stream.failure()->message().find(text(remote_cannot_invalidate)) != std::string::npos);
  }
}

TEST_CASE("violations: the Terminate follows the whole of the FPDU under way") {
  for (const bool crc : {false, true}) {
    Victim victim(crc);
    Stream::Config config;
    config.crc = crc;
    End peer(9, config);
    peer.receives(1, 4096);
    auto data = noise(1000, 1);
    victim.send(data, 1);
    auto wire = victim.take(500);
    victim.attack(tagged(Opcode::rdma_write, no_such_stag, 0, true));
    REQUIRE(victim.stream.failure());
    std::ranges::fill(data, std::byte{0});  // the caller's again
    const auto rest = victim.take_all();
    wire.insert(wire.end(), rest.begin(), rest.end());
    peer.give_all(wire);
    REQUIRE(peer.messages.size() == 1);
    CHECK(peer.messages[0].bytes == noise(1000, 1));
    REQUIRE(peer.stream.failure());
    CHECK(peer.stream.failure()->message().find(text(tagged_invalid_stag)) != std::string::npos);
    CHECK(victim.completed.empty());
  }
}

TEST_CASE("violations: RDMA Read where the peer allows none") {
  Stream::Config config;
  config.ord = 0;
  End end(1, config);
  std::vector<std::byte> sink(10);
  end.stream.post_rdma_read(sink, {1, 10, 0}, 1);
  REQUIRE(end.stream.failure());
  CHECK(end.stream.failure()->kind() == ErrorKind::connection);
}

TEST_CASE("violations: any bytes in any cut lead to an end, not to harm") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    Victim victim(false);
    victim.repost = true;
    for (int i = 0; i < 50 && !victim.stream.failure(); ++i) {
      DdpHeader h;
      h.tagged = random() % 2 == 0;
      h.last = random() % 2 == 0;
      h.opcode = static_cast<Opcode>(h.tagged ? 0 : 3 + random() % 2);
      h.stag = victim.writable;
      h.to = random() % 1000;
      h.msn = 1 + static_cast<std::uint32_t>(victim.messages.size());
      if (random() % 30 == 0) h.to = random();
      auto one = fpdu(h, std::vector<std::byte>(random() % 40));
      if (random() % 10 == 0) one[random() % one.size()] = static_cast<std::byte>(random());
      for (std::size_t at = 0; at < one.size() && !victim.stream.failure();) {
        at += victim.give(std::span(one).subspan(at), 1 + random() % 30);
      }
    }
  }
}

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
