// Two iWARP streams against each other in memory: Sends, RDMA Writes and Reads in every cut, placement in
// place, wrong predictions, revocation.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "unit/fabric/iwarp/pair.h"

using namespace nfsrdma;
using namespace nfsrdma::fabric;
using namespace nfsrdma::fabric::iwarp;
using namespace nfsrdma::fabric::iwarp::testing;

namespace {

using Octets = std::vector<std::byte>;

bool same(ConstBytes a, ConstBytes b) {
  return std::ranges::equal(a, b);
}

/// How much of the plan lies inside `memory`.
std::size_t planned_into(Stream& stream, Bytes memory) {
  std::array<iovec, Stream::max_plan> iov{};
  const Stream::Plan plan = stream.plan(iov);
  std::size_t inside = 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const auto* at = static_cast<std::byte*>(iov[i].iov_base);
    if (at >= memory.data() && at < memory.data() + memory.size()) inside += iov[i].iov_len;
  }
  stream.received(0);
  return inside;
}

void append_to(Octets& to, const Octets& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

TEST_CASE("stream: the worked example of ddp.h") {
  End end(1);
  const std::byte payload[] = {std::byte{0xde}, std::byte{0xad}, std::byte{0xbe}, std::byte{0xef}};
  const ConstBytes pieces[] = {payload};
  end.stream.post_send({.cookie = 1, .pieces = pieces, .invalidate = {}, .solicited = false});
  const unsigned char golden[] = {0x00, 0x16, 0x41, 0x43, 0, 0, 0,    0,    0,    0,    0, 0, 0, 0,
                                  0,    1,    0,    0,    0, 0, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0};
  const auto sent = end.take_all();
  REQUIRE(sent.size() == sizeof golden);
  CHECK(std::memcmp(sent.data(), golden, sizeof golden) == 0);
  CHECK(end.completed == std::vector<std::uint64_t>{1});
}

TEST_CASE("stream: messages, writes and reads arrive whole in every cut") {
  for (const bool crc : {false, true}) {
    for (const std::size_t most :
         {std::size_t{1}, std::size_t{7}, std::size_t{100}, std::size_t{3000}, std::size_t{100000}}) {
      for (const std::size_t mulpdu : {std::size_t{128}, std::size_t{1442}, std::size_t{8934}}) {
        CAPTURE(crc);
        CAPTURE(most);
        CAPTURE(mulpdu);
        std::mt19937 random(static_cast<unsigned>(most + mulpdu));
        const std::size_t bulk = most == 1 ? 5000 : 70000;
        End a(11, stream_config(crc, mulpdu));
        End b(22, stream_config(crc, mulpdu, true));
        a.receives(8, 4096);
        b.receives(8, 4096);
        std::vector<std::byte> target(bulk, std::byte{0});
        std::vector<std::byte> fetched(bulk / 2);
        const auto written = noise(bulk, 3);
        auto source = noise(bulk, 4);
        const auto hello = noise(3000, 5);
        const auto sink = b.stream.expose(target, Reach::remote_write);
        const auto readable = b.stream.expose(source, Reach::remote_read);

        a.send(hello, 1);
        a.stream.post_rdma_write(written, sink[0], 2);
        a.stream.post_rdma_read(fetched,
                                {readable[0].handle, static_cast<std::uint32_t>(fetched.size()), 100}, 3);
        a.send({}, 4);
        b.send(std::span(hello).first(1), 5);
        a.send(std::span(hello).first(17), 6, sink[0].handle);
        carry(a, b, random, most);

        REQUIRE_FALSE(a.stream.failure());
        REQUIRE_FALSE(b.stream.failure());
        REQUIRE(b.messages.size() == 3);
        CHECK(same(b.messages[0].bytes, hello));
        CHECK(b.messages[1].bytes.empty());
        CHECK(same(b.messages[2].bytes, std::span(hello).first(17)));
        CHECK(b.messages[2].invalidated == sink[0].handle);
        REQUIRE(a.messages.size() == 1);
        CHECK(same(a.messages[0].bytes, std::span(hello).first(1)));
        CHECK(target == written);
        CHECK(same(fetched, std::span(source).subspan(100, fetched.size())));
        std::ranges::sort(a.completed);
        CHECK(a.completed == std::vector<std::uint64_t>{1, 2, 3, 4, 6});
        CHECK(b.completed == std::vector<std::uint64_t>{5});
        CHECK_FALSE(b.stream.mid_message());
      }
    }
  }
}

TEST_CASE("stream: more reads than the peer takes at once wait, and complete in order") {
  Stream::Config shallow = stream_config(false, 500);
  shallow.ird = shallow.ord = 2;
  End a(1, shallow);
  End b(2, shallow);
  auto source = noise(20000, 3);
  const auto segment = b.stream.expose(source, Reach::remote_read).front();
  std::vector<std::byte> fetched(20000);
  for (std::size_t i = 0; i < 10; ++i) {
    const RemoteSegment part{segment.handle, 2000, 2000 * i};
    a.stream.post_rdma_read(std::span(fetched).subspan(2000 * i, 2000), part, i);
  }
  std::mt19937 random(1);
  carry(a, b, random, 800);
  CHECK(a.completed == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(fetched == source);
}

TEST_CASE("stream: bulk payload is received in place, many FPDUs in one call") {
  End a(1, stream_config(false, 1442));
  End b(2, stream_config(false, 1442));
  const auto data = noise(1 << 20, 3);
  std::vector<std::byte> target(data.size());
  const auto segment = b.stream.expose(target, Reach::remote_write).front();
  a.stream.post_rdma_write(data, segment, 1);
  const auto wire = a.take_all();
  std::size_t at = 0;
  std::size_t calls = 0;
  std::size_t in_place = 0;
  while (at < wire.size()) {
    in_place += planned_into(b.stream, target);
    at += b.give(std::span(wire).subspan(at));
    ++calls;
  }
  CHECK(target == data);
  CHECK(calls <= 8);  // of 735 FPDUs
  CHECK(in_place >= data.size() - 10000);
}

TEST_CASE("stream: a READ that comes as many short RDMA Writes is received in place") {
  // Linux sends 20 KiB at a time: L set, and the next message at the next offset.
  End a(1, stream_config(false, 8948));
  End b(2, stream_config(false, 8948));
  b.receives(4, 4096);
  constexpr std::size_t kMessage = 20 * 1024;
  constexpr std::size_t kResult = 512 * 1024 - 4096;  // shorter than the region: its last message is, too
  const auto data = noise(kResult, 3);
  const auto reply = noise(200, 4);
  std::size_t in_place = 0;
  for (unsigned round = 0; round < 4; ++round) {
    std::vector<std::byte> target(512 * 1024);
    auto segment = b.stream.expose(target, Reach::remote_write).front();
    for (std::size_t at = 0; at < kResult; at += kMessage) {
      auto there = segment;
      there.offset += at;
      a.stream.post_rdma_write(std::span(data).subspan(at, std::min(kMessage, kResult - at)), there, at);
    }
    a.send(reply, 1);
    const auto wire = a.take_all();
    std::size_t calls = 0;
    in_place = 0;
    for (std::size_t at = 0; at < wire.size(); ++calls) {
      in_place += planned_into(b.stream, target);
      at += b.give(std::span(wire).subspan(at));
    }
    REQUIRE_FALSE(b.stream.failure());
    CHECK(same(std::span(target).first(kResult), data));
    REQUIRE(b.messages.size() == round + 1);
    CHECK(same(b.messages.back().bytes, reply));
    CHECK_FALSE(b.stream.mid_message());
    if (round > 0) CHECK(calls <= 6);  // of 26 messages
    b.stream.revoke(segment.handle);
  }
  CHECK(in_place >= kResult - 20000);
}

TEST_CASE("stream: a wrong prediction costs a copy and nothing else") {
  // A first segment of a long Write, then what was not expected: another region, a Send, a shorter segment.
  for (std::size_t most = 1; most < 12000; most = most * 3 + 1) {
    CAPTURE(most);
    End b(2);
    b.receives(2, 4096);
    std::vector<std::byte> first(50000, std::byte{0});
    std::vector<std::byte> second(9000, std::byte{0});
    const auto into_first = b.stream.expose(first, Reach::remote_write).front();
    const auto into_second = b.stream.expose(second, Reach::remote_write).front();
    const auto data = noise(20000, 7);
    const auto part = [&](std::size_t from, std::size_t length) {
      return std::span(data).subspan(from, length);
    };
    std::vector<std::byte> wire;
    const auto add = [&](const DdpHeader& header, ConstBytes payload) {
      const auto one = fpdu(header, payload);
      wire.insert(wire.end(), one.begin(), one.end());
    };
    add(tagged(Opcode::rdma_write, into_first.handle, 0, false), part(0, 1001));
    add(tagged(Opcode::rdma_write, into_first.handle, 1001, false), part(1001, 1001));
    add(tagged(Opcode::rdma_write, into_second.handle, 3000, true),
        part(5000, 1001));  // same size, elsewhere
    add(untagged(Opcode::send, 0, 1), part(8000, 1500));
    add(tagged(Opcode::rdma_write, into_first.handle, 2002, false), part(2002, 333));  // right place, shorter
    add(tagged(Opcode::rdma_write, into_first.handle, 2335, true), part(2335, 2));
    add(untagged(Opcode::send, 0, 2), part(9000, 40));
    for (std::size_t at = 0; at < wire.size();) at += b.give(std::span(wire).subspan(at), most);
    REQUIRE_FALSE(b.stream.failure());
    CHECK(same(std::span(first).first(2337), part(0, 2337)));
    CHECK(same(std::span(second).subspan(3000, 1001), part(5000, 1001)));
    REQUIRE(b.messages.size() == 2);
    CHECK(same(b.messages[0].bytes, part(8000, 1500)));
    CHECK(same(b.messages[1].bytes, part(9000, 40)));
    CHECK(std::ranges::all_of(std::span(second).first(3000), [](std::byte x) { return x == std::byte{0}; }));
  }
}

TEST_CASE("stream: a wrong prediction of large FPDUs costs no more than the buffer holds") {
  constexpr std::size_t each = 60'000, count = 50;
  End b(2);
  std::vector<std::byte> expected(each * count), other(each * count);
  const auto first = b.stream.expose(expected, Reach::remote_write).front();
  const auto second = b.stream.expose(other, Reach::remote_write).front();
  const auto data = noise(each * count, 1);
  // One FPDU of a message that promises more, and then another message.
  auto wire = fpdu(tagged(Opcode::rdma_write, first.handle, 0, false), std::span(data).first(each));
  for (std::size_t i = 0; i < count; ++i) {
    const auto next = fpdu(tagged(Opcode::rdma_write, second.handle, i * each, i + 1 == count),
                           std::span(data).subspan(i * each, each));
    wire.insert(wire.end(), next.begin(), next.end());
  }
  b.give_all(wire);
  REQUIRE_FALSE(b.stream.failure());
  CHECK(other == data);
  CHECK(std::equal(data.begin(), data.begin() + each, expected.begin()));
}

TEST_CASE("stream: a prediction never touches what was placed before") {
  for (const std::size_t most : {std::size_t{100}, std::size_t{1500}, std::size_t{200000}}) {
    End a(1, stream_config(false, 1442));
    End b(2, stream_config(false, 1442));
    b.receives(64, 4096);
    const auto data = noise(60000, 3);
    std::vector<std::byte> target(60000);
    const auto segment = b.stream.expose(target, Reach::remote_write).front();
    const auto write = [&](std::size_t from, std::size_t length) {
      a.stream.post_rdma_write(std::span(data).subspan(from, length), {segment.handle, 60000, from}, 0);
      a.send(std::span(data).first(900), 0);  // foreign bytes, which a wrong prediction would leave there
      a.send(std::span(data).first(900), 0);
    };
    write(40000, 20000);
    write(0, 3000);
    write(20000, 20000);
    write(3000, 17000);
    std::mt19937 random(9);
    carry(a, b, random, most);
    REQUIRE_FALSE(b.stream.failure());
    CHECK(target == data);
    CHECK(b.messages.size() == 8);
  }
}

TEST_CASE("stream: random writes into random places of several regions") {
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    const bool crc = seed % 2 == 0;
    End a(1, stream_config(crc, 128 + random() % 3000));
    End b(2, stream_config(crc, 1442));
    b.receives(400, 4096);
    std::vector<std::vector<std::byte>> regions(3, std::vector<std::byte>(100000));
    auto expected = regions;
    std::vector<RemoteSegment> segments;
    for (auto& region : regions) segments.push_back(b.stream.expose(region, Reach::remote_write).front());
    std::vector<std::vector<bool>> written(3, std::vector<bool>(100000));
    const auto data = noise(200000, seed);
    for (int i = 0; i < 60; ++i) {
      const std::size_t which = random() % 3;
      const std::size_t from = random() % 90000;
      const std::size_t length = std::min<std::size_t>(random() % 20000, 100000 - from);
      const auto bytes = std::span(data).subspan(random() % 100000, length);
      a.stream.post_rdma_write(bytes, {segments[which].handle, 100000, from}, 0);
      std::ranges::copy(bytes, expected[which].begin() + static_cast<std::ptrdiff_t>(from));
      for (std::size_t k = 0; k < length; ++k) written[which][from + k] = true;
      if (random() % 3 == 0) a.send(std::span(data).first(random() % 3000), 0);
    }
    carry(a, b, random, 1 + random() % 60000);
    REQUIRE_FALSE(b.stream.failure());
    for (std::size_t which = 0; which < 3; ++which) {
      for (std::size_t k = 0; k < 100000; ++k) {
        if (written[which][k]) REQUIRE(regions[which][k] == expected[which][k]);
      }
    }
  }
}

TEST_CASE("stream: memory revoked while a Write arrives is not touched again") {
  End b(2);
  std::vector<std::byte> memory(4000, std::byte{0});
  const auto segment = b.stream.expose(memory, Reach::remote_write).front();
  const std::vector<std::byte> ones(1000, std::byte{1});
  const auto first = fpdu(tagged(Opcode::rdma_write, segment.handle, 0, false), ones);
  const auto second = fpdu(tagged(Opcode::rdma_write, segment.handle, 1000, true), ones);
  CHECK(b.give(std::span(first).first(300)) == 300);
  b.stream.revoke(segment.handle);
  std::ranges::fill(memory, std::byte{9});
  b.give_all(std::span(first).subspan(300));
  REQUIRE_FALSE(b.stream.failure());
  CHECK(std::ranges::all_of(memory, [](std::byte x) { return x == std::byte{9}; }));
  b.give_all(second);
  REQUIRE(b.stream.failure());
  CHECK(b.stream.failure()->message().find("invalid STag") != std::string::npos);
  CHECK(std::ranges::all_of(memory, [](std::byte x) { return x == std::byte{9}; }));
}

TEST_CASE(
    "stream: memory revoked while a Read Response leaves is free at once, and the peer gets what was there") {
  for (const bool crc : {false, true}) {
    End a(1, stream_config(crc, 1442));
    End b(2, stream_config(crc, 1442));
    auto source = noise(50000, 3);
    const auto original = source;
    const auto segment = b.stream.expose(source, Reach::remote_read).front();
    std::vector<std::byte> fetched(50000);
    a.stream.post_rdma_read(fetched, segment, 1);
    b.give_all(a.take_all());
    auto wire = b.take(10007);
    b.stream.revoke(segment.handle);
    std::ranges::fill(source, std::byte{0});
    const auto rest = b.take_all();
    wire.insert(wire.end(), rest.begin(), rest.end());
    a.give_all(wire);
    REQUIRE_FALSE(a.stream.failure());
    CHECK(a.completed == std::vector<std::uint64_t>{1});
    CHECK(fetched == original);
  }
}

TEST_CASE("stream: an event may revoke, post and close while input is being parsed") {
  End a(1);
  End b(2);
  b.receives(10, 100);
  const auto data = noise(50, 1);
  for (std::uint64_t i = 0; i < 5; ++i) a.send(data, i);
  const auto wire = a.take_all();
  b.on_event = [&] {
    if (b.messages.size() == 2) b.stream.close();
  };
  b.give_all(wire);
  CHECK(b.messages.size() == 2);
  CHECK(b.give(wire) == 0);
}

TEST_CASE("stream: an event closes the sender in the middle of its completions") {
  End a(1);
  const auto data = noise(50, 1);
  for (std::uint64_t i = 0; i < 5; ++i) a.send(data, i);
  a.on_event = [&] { a.stream.close(); };
  CHECK_FALSE(a.take_all().empty());
  CHECK(a.completed.size() == 1);
}

TEST_CASE("stream: the responder is silent until the first FPDU came") {
  End a(1);
  End b(2, stream_config(false, 1442, true));
  b.receives(1, 10);
  a.receives(1, 10);
  const auto data = noise(5, 1);
  b.send(data, 1);
  CHECK(b.take_all().empty());
  a.send(data, 2);
  b.give_all(a.take_all());
  a.give_all(b.take_all());
  CHECK(a.messages.size() == 1);
}

TEST_CASE("stream: what came with the handshake's frame is taken first") {
  End a(1);
  End b(2);
  b.receives(1, 100);
  const auto data = noise(60, 1);
  a.send(data, 2);
  const auto wire = a.take_all();
  b.stream.inject(std::span(wire).first(33));
  b.give_all(std::span(wire).subspan(33));
  REQUIRE(b.messages.size() == 1);
  CHECK(same(b.messages[0].bytes, data));
}

TEST_CASE("stream: zero-length Writes and Reads look at no STag") {
  End a(1);
  End b(2);
  std::vector<std::byte> none;
  a.stream.post_rdma_write({}, {0x77, 0, 0}, 1);
  a.stream.post_rdma_read(none, {0x77, 0, 0}, 2);
  std::mt19937 random(1);
  carry(a, b, random, 1000);
  CHECK_FALSE(b.stream.failure());
  CHECK(a.completed == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("stream: large memory is exposed in several segments") {
  CHECK(Stream::segments_for(0) == 1);
  CHECK(Stream::segments_for(std::size_t{1} << 30) == 1);
  CHECK(Stream::segments_for((std::size_t{1} << 30) + 1) == 2);
}

// ---- sending ----

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
      append_to(wire, a.take_all());
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
    append_to(wire, b.take(12'000));  // the second is under way now
    b.stream.abandon(of_second.handle);
    std::ranges::fill(second, std::byte{0});
    append_to(wire, b.take_all());
    a.give_all(wire);
    REQUIRE_FALSE(a.stream.failure());
    CHECK(a.completed == std::vector<std::uint64_t>{1, 2, 3});
    CHECK(fetched[0] == first_then);
    CHECK(fetched[1] == second_then);
    CHECK(fetched[2] == first_then);
  }
}

// ---- receiving ----

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
