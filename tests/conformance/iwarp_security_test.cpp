// What RFC 5042 asks of the iWARP of this project, as far as no other test proves it. The table of all its requirements is
// libclient/fabric/iwarp/RFC5042.md.
#include <doctest/doctest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "fabric/iwarp/socket.h"
#include "support/rpcrdma_asked.h"
#include "unit/fabric/iwarp/pair.h"

namespace nfsrdma::fabric::iwarp {
namespace {

using Octets = std::vector<std::byte>;
using testing::all_are;
using testing::End;
using testing::fpdu;
using testing::noise;
using testing::stream_config;
using testing::tagged;
using testing::untagged;

constexpr std::size_t kMulpdu = 1442;

Octets read_request(const ReadRequest& request, std::uint32_t msn) {
  Octets payload(read_request_size);
  encode(request, payload.data());
  return fpdu(untagged(Opcode::read_request, queue_read_request, msn), payload);
}

/// The stream has ended, and has accused its peer of `reason`.
void check_refused(const End& end, Reason reason) {
  REQUIRE(end.stream.failure());
  CAPTURE(end.stream.failure()->message());
  CHECK(end.stream.failure()->kind() == ErrorKind::protocol);
  CHECK(end.stream.failure()->message().find(text(reason)) != std::string::npos);
}

struct Found {
  DdpHeader ddp;
  Octets payload;
  Octets trailer;  ///< pad and CRC
};

/// The FPDUs that `wire` consists of.
std::vector<Found> fpdus_of(const Octets& wire) {
  std::vector<Found> out;
  for (std::size_t at = 0; at < wire.size();) {
    const std::size_t ulpdu = load_be<std::uint16_t>(&wire[at]);
    REQUIRE(at + fpdu_size(ulpdu) <= wire.size());
    const DdpHeader ddp = decode_ddp(&wire[at + fpdu_length_size]);
    const auto whole = std::span(wire).subspan(at, fpdu_size(ulpdu));
    const auto payload = whole.subspan(fpdu_length_size + ddp.size(), ulpdu - ddp.size());
    const auto trailer = whole.last(fpdu_trailer(ulpdu));
    out.push_back({ddp, {payload.begin(), payload.end()}, {trailer.begin(), trailer.end()}});
    at += whole.size();
  }
  return out;
}

}  // namespace

// ---- 6.1: which streams a handle is good for, and for how long ----

TEST_CASE("T39 a handle of one stream is refused on every other, whatever is done with it (6.1.1, 6.4.5)") {
  struct Way {
    std::string name;
    Reach reach;
    Reason reason;
    std::function<void(End& other, std::uint32_t handle)> attack;
  };
  const Octets data(10, std::byte{9});
  const Way ways[] = {
      {"a Write", Reach::remote_write, tagged_invalid_stag,
       [&](End& other, std::uint32_t handle) {
         other.give_all(fpdu(tagged(Opcode::rdma_write, handle, 0, true), data));
       }},
      {"a Read", Reach::remote_read, remote_invalid_stag,
       [&](End& other, std::uint32_t handle) { other.give_all(read_request({1, 0, 10, handle, 0}, 1)); }},
      {"an invalidation", Reach::remote_write, remote_invalid_stag,
       [&](End& other, std::uint32_t handle) {
         other.give_all(fpdu(untagged(Opcode::send_invalidate, queue_send, 1, 0, true, handle), data));
       }},
      {"an answer to a Read", Reach::remote_write, tagged_invalid_stag,
       [&](End& other, std::uint32_t handle) {
         Octets sink(10);
         other.stream.post_rdma_read(sink, {5, 10, 0}, 1);
         other.take_all();
         other.give_all(fpdu(tagged(Opcode::read_response, handle, 0, true), data));
         CHECK(other.completed.empty());
       }},
  };
  for (const Way& way : ways) {
    CAPTURE(way.name);
    End owner(1), peer(2), other(3);
    owner.receives(1, 100);
    other.receives(1, 100);
    Octets memory(10, std::byte{7}), fetched(10);
    const RemoteSegment exposed = owner.stream.expose(memory, way.reach).front();
    way.attack(other, exposed.handle);
    check_refused(other, way.reason);
    CHECK(other.messages.empty());
    // Its own stream has not noticed.
    CHECK(all_are(memory, 7));
    if (way.reach == Reach::remote_write) {
      peer.stream.post_rdma_write(data, exposed, 1);
    } else {
      peer.stream.post_rdma_read(fetched, exposed, 1);
    }
    owner.give_all(peer.take_all());
    peer.give_all(owner.take_all());
    REQUIRE_FALSE(owner.stream.failure());
    CHECK(all_are(way.reach == Reach::remote_write ? memory : fetched,
                  way.reach == Reach::remote_write ? 9 : 7));
  }
}

TEST_CASE("T39 a handle that was taken back allows nothing, whoever took it back (6.2.2, 6.3.3)") {
  enum class By : std::uint8_t { owner, peer, end_of_stream };
  for (const By by : {By::owner, By::peer, By::end_of_stream}) {
    for (const Opcode attack : {Opcode::rdma_write, Opcode::read_request, Opcode::send_invalidate}) {
      CAPTURE(static_cast<int>(by));
      CAPTURE(static_cast<int>(attack));
      End owner(1);
      owner.receives(2, 100);
      Octets memory(10, std::byte{7});
      const auto reach = attack == Opcode::read_request ? Reach::remote_read : Reach::remote_write;
      const std::uint32_t handle = owner.stream.expose(memory, reach).front().handle;
      std::uint32_t msn = 1;
      if (by == By::owner) owner.stream.revoke(handle);
      if (by == By::peer) {
        owner.give_all(fpdu(untagged(Opcode::send_invalidate, queue_send, msn++, 0, true, handle), {}));
        REQUIRE(owner.messages.size() == 1);
        CHECK(owner.messages[0].invalidated == handle);
      }
      if (by == By::end_of_stream) owner.stream.close();
      const Octets data(10, std::byte{9});
      if (attack == Opcode::rdma_write) owner.give_all(fpdu(tagged(attack, handle, 0, true), data));
      if (attack == Opcode::read_request) owner.give_all(read_request({1, 0, 10, handle, 0}, 1));
      if (attack == Opcode::send_invalidate) {
        owner.give_all(fpdu(untagged(attack, queue_send, msn, 0, true, handle), data));
      }
      CHECK(all_are(memory, 7));
      CHECK(owner.messages.size() == (by == By::peer ? 1 : 0));
      if (by == By::end_of_stream) {
        CHECK(owner.take_all().empty());
        continue;
      }
      check_refused(owner, attack == Opcode::rdma_write ? tagged_invalid_stag : remote_invalid_stag);
      for (const Found& one : fpdus_of(owner.take_all())) CHECK(one.ddp.opcode == Opcode::terminate);
    }
  }
}

// ---- 6.2.1, 6.3.1: bounds ----

namespace {

/// Offsets and lengths where sums are easily got wrong: around nothing, around the end, around 2^32 and 2^64.
const std::vector<std::uint64_t>& borders(std::uint64_t size) {
  static std::map<std::uint64_t, std::vector<std::uint64_t>> made;
  auto& out = made[size];
  if (!out.empty()) return out;
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t four_gib = std::uint64_t{1} << 32U;
  for (const std::uint64_t near : {std::uint64_t{1}, size / 2, size, four_gib, four_gib + size, most / 2}) {
    for (const std::uint64_t one : {near - 1, near, near + 1}) out.push_back(one);
  }
  for (std::uint64_t back = 0; back < 3; ++back) {
    out.push_back(most - back);
    out.push_back(most - size + back);
  }
  return out;
}

/// Memory with memory of somebody else's on both sides.
struct Guarded {
  static constexpr std::size_t kSize = 40, kGuard = 64;
  static constexpr int kForeign = 0x5a, kOwn = 0x11;
  Octets all = Octets(kGuard + kSize + kGuard, std::byte{kForeign});
  Guarded() { std::ranges::fill(own(), std::byte{kOwn}); }
  [[nodiscard]] Bytes own() { return std::span(all).subspan(kGuard, kSize); }
  [[nodiscard]] bool foreign_is_untouched() const {
    return all_are(std::span(all).first(kGuard), kForeign) && all_are(std::span(all).last(kGuard), kForeign);
  }
};

/// Whether an access is right, without a sum that could wrap.
bool is_inside(std::uint64_t offset, std::uint64_t length) {
  return length <= Guarded::kSize && offset <= Guarded::kSize - length;
}

}  // namespace

TEST_CASE("T39 an RDMA Write reaches each octet that its handle stands for, and none beside them (6.2.1)") {
  for (const bool crc : {false, true}) {
    for (const std::uint64_t offset : borders(Guarded::kSize)) {
      for (const std::size_t length : {std::size_t{1}, std::size_t{2}, Guarded::kSize - 1, Guarded::kSize,
                                       Guarded::kSize + 1, std::size_t{1000}, std::size_t{60'000}}) {
        CAPTURE(crc);
        CAPTURE(offset);
        CAPTURE(length);
        Guarded memory;
        End owner(1, stream_config(crc, kMulpdu));
        const std::uint32_t handle = owner.stream.expose(memory.own(), Reach::remote_write).front().handle;
        const Octets data(length, std::byte{9});
        owner.give_all(fpdu(tagged(Opcode::rdma_write, handle, offset, true), data, crc));
        REQUIRE(memory.foreign_is_untouched());
        if (is_inside(offset, length)) {
          REQUIRE_FALSE(owner.stream.failure());
          for (std::size_t i = 0; i < Guarded::kSize; ++i) {
            REQUIRE(memory.own()[i] == std::byte(i >= offset && i - offset < length ? 9 : Guarded::kOwn));
          }
        } else {
          const bool wraps = length > std::numeric_limits<std::uint64_t>::max() - offset;
          check_refused(owner, wraps ? tagged_to_wrap : tagged_bounds);
          REQUIRE(all_are(memory.own(), Guarded::kOwn));
        }
      }
    }
  }
}

TEST_CASE("T39 an RDMA Read gets each octet that its handle stands for, and none beside them (6.3.1)") {
  for (const std::uint64_t offset : borders(Guarded::kSize)) {
    for (const std::uint64_t wanted : borders(Guarded::kSize)) {
      if (wanted == 0 || wanted > std::numeric_limits<std::uint32_t>::max()) continue;
      const auto length = static_cast<std::uint32_t>(wanted);
      CAPTURE(offset);
      CAPTURE(length);
      Guarded memory;
      End owner(1);
      const std::uint32_t handle = owner.stream.expose(memory.own(), Reach::remote_read).front().handle;
      owner.give_all(read_request({77, 0, length, handle, offset}, 1));
      const Octets wire = owner.take_all();
      REQUIRE(std::ranges::find(wire, std::byte{Guarded::kForeign}) == wire.end());
      const std::vector<Found> sent = fpdus_of(wire);
      REQUIRE(sent.size() == 1);
      if (is_inside(offset, length)) {
        REQUIRE_FALSE(owner.stream.failure());
        CHECK(sent[0].ddp == tagged(Opcode::read_response, 77, 0, true));
        CHECK(sent[0].payload == Octets(length, std::byte{Guarded::kOwn}));
      } else {
        const bool wraps = length > std::numeric_limits<std::uint64_t>::max() - offset;
        check_refused(owner, wraps ? remote_to_wrap : remote_bounds);
        CHECK(sent[0].ddp.opcode == Opcode::terminate);
      }
    }
  }
}

// ---- 6.3: what goes out ----

TEST_CASE("T39 pads and unused CRC fields are zeros, whatever was sent before them (6.3)") {
  End owner(1, stream_config(false, kMulpdu)), peer(2, stream_config(false, kMulpdu));
  peer.receives(40, 3000);
  Octets secret(3000, std::byte{0x5a});
  Octets target(3000);
  const RemoteSegment theirs = peer.stream.expose(target, Reach::remote_write).front();
  const RemoteSegment ours = owner.stream.expose(secret, Reach::remote_read).front();
  std::uint64_t cookie = 0;
  for (std::size_t length = 1; length < 9; ++length) {
    // As they come: Sends in several FPDUs and in one, copied ones, Writes, and answers to Reads.
    owner.send(secret, ++cookie);
    REQUIRE(owner.stream.post_copy(std::span(secret).first(length)));
    owner.send(std::span(secret).first(length), ++cookie);
    owner.stream.post_rdma_write(std::span(secret).first(1500 + length), theirs, ++cookie);
    peer.stream.post_rdma_read(std::span(target).first(length), ours, cookie);
    owner.give_all(peer.take_all());
    const Octets wire = owner.take_all();
    const std::vector<Found> sent = fpdus_of(wire);
    CHECK(sent.size() == 3 + 1 + 1 + 2 + 1);
    for (const Found& one : sent) CHECK(all_are(one.trailer, 0));
    peer.give_all(wire);
    REQUIRE_FALSE(peer.stream.failure());
  }
}

TEST_CASE("T39 a Terminate gives the peer back its own octets, and nothing else (6.3)") {
  using Attack = std::function<Octets(std::uint32_t writable, std::uint32_t readable)>;
  const Octets data(10, std::byte{9});
  const std::map<std::string, Attack> attacks{
      {"a Write past the end",
       [&](std::uint32_t writable, std::uint32_t) {
         return fpdu(tagged(Opcode::rdma_write, writable, 995, true), data);
       }},
      {"a Read past the end",
       [](std::uint32_t, std::uint32_t readable) { return read_request({1, 0, 10, readable, 995}, 2); }},
      {"a Read of what is to be written",
       [](std::uint32_t writable, std::uint32_t) { return read_request({1, 0, 10, writable, 0}, 2); }},
      {"a Read Request with the number of another",
       [](std::uint32_t, std::uint32_t readable) { return read_request({1, 0, 10, readable, 0}, 7); }},
      {"a Read Request that is too short",
       [&](std::uint32_t, std::uint32_t) {
         return fpdu(untagged(Opcode::read_request, queue_read_request, 2), data);
       }},
      {"a Send that is too long",
       [](std::uint32_t, std::uint32_t) { return fpdu(untagged(Opcode::send, queue_send, 1), Octets(200)); }},
      {"a Send that invalidates nothing",
       [&](std::uint32_t, std::uint32_t) {
         return fpdu(untagged(Opcode::send_invalidate, queue_send, 1, 0, true, 0x01010101), data);
       }},
  };
  for (const auto& [name, attack] : attacks) {
    CAPTURE(name);
    End victim(7);
    victim.receives(1, 100);
    Octets source(1000, std::byte{0x5a}), memory(1000, std::byte{0x5a});
    const std::uint32_t readable = victim.stream.expose(source, Reach::remote_read).front().handle;
    const std::uint32_t writable = victim.stream.expose(memory, Reach::remote_write).front().handle;
    // What an earlier Read Request left behind is to be seen nowhere either.
    const std::uint32_t earlier_sink = 0x6b6b6b6b;
    victim.give_all(read_request({earlier_sink, 0, 10, readable, 0}, 1));
    victim.take_all();
    const Octets sent = attack(writable, readable);
    victim.give_all(sent);
    REQUIRE(victim.stream.failure());
    const Octets wire = victim.take_all();
    CHECK(std::ranges::find(wire, std::byte{0x5a}) == wire.end());
    CHECK(std::ranges::find(wire, std::byte{0x6b}) == wire.end());
    const std::vector<Found> out = fpdus_of(wire);
    REQUIRE(out.size() == 1);
    CHECK(out[0].ddp == untagged(Opcode::terminate, queue_terminate, 1));
    const std::size_t told = terminate_control_size + 2;  // the reason, and the size of the peer's segment
    REQUIRE(out[0].payload.size() > told);
    REQUIRE(out[0].payload.size() <= max_terminate);
    const auto returned = std::span(out[0].payload).subspan(told);
    CHECK(std::ranges::equal(returned, std::span(sent).subspan(fpdu_length_size, returned.size())));
  }
}

// ---- 6.4: what a peer may cost ----

namespace {

/// Octets that malloc() has given out in this thread. Under a sanitizer, which has its own, always 0.
std::size_t allocated() {
  return ::mallinfo2().uordblks;
}

}  // namespace

TEST_CASE("T39 FPDUs that mean nothing leave nothing behind, however many come (6.4.4)") {
  End victim(1);
  victim.receives(1, 100);
  Octets memory(5000);
  const std::uint32_t given_up = victim.stream.expose(memory, Reach::remote_write).front().handle;
  victim.stream.abandon(given_up);
  Octets wire;
  std::uint32_t read_msn = 0;
  const auto add = [&](const Octets& one) { wire.insert(wire.end(), one.begin(), one.end()); };
  const auto flood = [&] {
    for (int i = 0; i < 2000; ++i) {
      wire.clear();
      add(fpdu(tagged(Opcode::rdma_write, 0x01010101, 5, true), {}));                 // of nothing to nowhere
      add(fpdu(tagged(Opcode::rdma_write, given_up, 1000, i % 2 == 0), Octets(10)));  // to what nobody wants
      add(fpdu(untagged(Opcode::send, queue_send, 1, 0, false), {}));  // a Send that never ends
      add(read_request({1, 0, 0, 0x01010101, 0}, ++read_msn));         // a Read of nothing
      victim.give_all(wire);
      REQUIRE_FALSE(victim.stream.failure());
      REQUIRE(victim.take_all().size() == fpdu_size(ddp_tagged_size));
    }
  };
  flood();
  const std::size_t before = allocated();
  for (int i = 0; i < 5; ++i) flood();
  CHECK(allocated() < before + 16 * 1024);
  CHECK(victim.messages.empty());
  CHECK(all_are(memory, 0));
}

TEST_CASE("T39 a peer that stops in the middle of an FPDU has the stream wait with what it has (6.4.2)") {
  std::array<iovec, Stream::max_plan> places{};
  for (const bool crc : {false, true}) {
    End victim(1, stream_config(crc, kMulpdu));
    victim.receives(1, 70'000);
    Octets memory(60'000);
    const std::uint32_t handle = victim.stream.expose(memory, Reach::remote_write).front().handle;
    const Octets writes = fpdu(tagged(Opcode::rdma_write, handle, 0, true), noise(60'000, 1), crc);
    const Octets sends = fpdu(untagged(Opcode::send, queue_send, 1), noise(60'000, 2), crc);
    const Octets nowhere = fpdu(tagged(Opcode::rdma_write, 0x01010101, 0, true), noise(60'000, 3), crc);
    for (const Octets* one : {&writes, &sends, &nowhere}) {
      const std::size_t before = allocated(), messages = victim.messages.size();
      // All but its last octet, in pieces of many sizes, and reads that find nothing in between.
      const auto most = std::span(*one).first(one->size() - 1);
      for (std::size_t at = 0; at < most.size() && !victim.stream.failure();) {
        at += victim.give(most.subspan(at), 1 + at % 977);
        (void)victim.stream.plan(places);
        victim.stream.received(0);
      }
      CHECK(allocated() < before + 16 * 1024);
      if (victim.stream.failure()) break;  // the last, where its header counts at once
      CHECK(victim.stream.mid_message());
      CHECK(victim.messages.size() == messages);
      victim.give_all(std::span(*one).last(1));
    }
    CHECK(victim.messages.size() == 1);
    check_refused(victim, tagged_invalid_stag);
  }
}

TEST_CASE(
    "T39 answers that a peer asks for and does not take hold one copy of what was taken back (6.4.3.3)") {
  constexpr std::size_t kSize = 100'000;
  constexpr std::uint32_t kReads = 16;
  for (const bool abandons : {false, true}) {
    CAPTURE(abandons);
    End owner(1);
    Octets memory = noise(kSize, 3);
    const Octets then = memory;
    const std::uint32_t handle = owner.stream.expose(memory, Reach::remote_read).front().handle;
    for (std::uint32_t i = 0; i < kReads; ++i) {
      const std::uint32_t skipped = i * 1000;  // each wants a part, and all of them overlap
      const auto size = static_cast<std::uint32_t>(kSize - skipped);
      owner.give_all(read_request({i + 1, 0, size, handle, skipped}, i + 1));
    }
    Octets wire = owner.take(5000);  // some of the first
    if (abandons) {
      owner.stream.abandon(handle);
    } else {
      owner.stream.revoke(handle);
    }
    std::ranges::fill(memory, std::byte{0});  // it is the caller's again
    // Where the octets lie that are still to be sent.
    std::vector<iovec> places(5000);
    const Stream::Plan plan = owner.stream.fill(places, std::size_t{kReads} * kSize);
    std::uintptr_t first = UINTPTR_MAX, last = 0;
    std::size_t in_payloads = 0;
    for (const iovec& one : std::span(places).first(plan.count)) {
      if (one.iov_len < 1000) continue;  // a header, or the end of a message
      const auto begin = reinterpret_cast<std::uintptr_t>(one.iov_base);
      first = std::min(first, begin);
      last = std::max(last, begin + one.iov_len);
      in_payloads += one.iov_len;
    }
    owner.stream.sent(0);
    CHECK(in_payloads > 8 * kSize);
    CHECK(last - first <= kSize);

    const Octets rest = owner.take_all();
    wire.insert(wire.end(), rest.begin(), rest.end());
    std::vector<Octets> answers(kReads);
    for (const Found& one : fpdus_of(wire)) {
      Octets& to = answers.at(one.ddp.stag - 1);
      CHECK(one.ddp.to == to.size());
      to.insert(to.end(), one.payload.begin(), one.payload.end());
    }
    for (std::uint32_t i = 0; i < kReads; ++i) {
      CHECK(std::ranges::equal(answers[i], std::span(then).subspan(std::size_t{i} * 1000)));
    }
    CHECK_FALSE(owner.stream.failure());
  }
}

TEST_CASE("T39 a peer that has gone without a word is given up within half a minute (6.4.2)") {
  const Socket socket = Socket::open(AF_INET);
  REQUIRE(socket.valid());
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    REQUIRE(::getsockopt(socket.fd(), level, name, &value, &size) == 0);
    return value;
  };
  CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) +
            option(IPPROTO_TCP, TCP_KEEPCNT) * option(IPPROTO_TCP, TCP_KEEPINTVL) <=
        30);
  const int most_ms = option(IPPROTO_TCP, TCP_USER_TIMEOUT);
  CHECK(most_ms > 0);
  CHECK(most_ms <= 30'000);
}

}  // namespace nfsrdma::fabric::iwarp

// ---- 6.3.2, 6.3.4, 6.3.5: what the layer above exposes ----

namespace nfsrdma::rpcrdma::testing {
namespace {

/// A seal that leaves the message as it is, and lets nothing of it travel by itself.
struct LeavesAsItIs final : Seal {
  Result<const xdr::Message*> seal(const xdr::Message& message) override { return &message; }
  [[nodiscard]] bool covers_data() const override { return true; }
};

}  // namespace

TEST_CASE("T39 memory is exposed for what its call needs: those octets, in that direction (6.3.2-6.3.5)") {
  const Octets data = pattern(70'001);
  Octets destination(5000);
  LeavesAsItIs seal;
  struct Form {
    std::string name;
    std::function<Call()> make;
  };
  const Form forms[] = {
      {"reduced", [&] { return write_call(100, data, 20); }},
      {"long", [] { return plain_call(3000); }},
      {"long, with its items apart", [&] { return write_call(2000, data, 20); }},
      {"long, with many items copied",
       [&] {
         Call call = plain_call(100);
         xdr::Encoder encoder(call.message);
         for (std::size_t i = 0; i < 100; ++i) encoder.eligible(ConstBytes(data).subspan(i * 52, 52));
         return call;
       }},
      {"long, in pieces",
       [&] {
         Call call = write_call(100, data, 20);
         call.seal = &seal;
         return call;
       }},
      {"with a result and a long Reply",
       [&] {
         Call call = write_call(100, data, 20);
         call.results.push_back({destination, false});
         call.reply_max_inline = 2000 + destination.size();
         call.reply_max_reduced = 2000;
         return call;
       }},
  };
  for (const Form& form : forms) {
    CAPTURE(form.name);
    Driver driver;
    driver.establish();
    driver.submit(form.make());
    const CallView call = driver.take_sent();
    std::map<std::uint32_t, std::vector<bool>> named;
    for (const auto& [handle, region] : driver.memory.live) named[handle].resize(region.bytes.size());
    const auto note = [&](const RemoteSegment& one, fabric::Reach reach) {
      const auto found = driver.memory.live.find(one.handle);
      REQUIRE(found != driver.memory.live.end());
      CHECK(found->second.reach == reach);
      const std::uint64_t skipped = one.offset - reinterpret_cast<std::uintptr_t>(found->second.bytes.data());
      REQUIRE(skipped + one.length <= found->second.bytes.size());
      std::vector<bool>& octets = named[one.handle];
      std::fill_n(octets.begin() + static_cast<std::ptrdiff_t>(skipped), one.length, true);
    };
    CHECK_FALSE(call.header.rdma_reads.empty());
    for (const xdr_read_chunk& one : call.header.rdma_reads) note(one.target, fabric::Reach::remote_read);
    for (std::size_t i = 0; i < call.header.rdma_writes.size(); ++i) {
      for (const RemoteSegment& one : call.header.rdma_writes[i]) note(one, fabric::Reach::remote_write);
    }
    for (const RemoteSegment& one : call.header.rdma_reply) note(one, fabric::Reach::remote_write);
    // The server is told of every octet that it can reach: none is there by accident.
    for (const auto& [handle, octets] : named) {
      CAPTURE(handle);
      CHECK(std::ranges::all_of(octets, [](bool one) { return one; }));
    }
  }
}

}  // namespace nfsrdma::rpcrdma::testing
