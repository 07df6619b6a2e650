// The bridge's Replies: which results go into which chunk, by the upper layer binding of each version.
#include "bridge/reduce.h"

#include <doctest/doctest.h>

#include <cstring>

#include "bridge/holes.h"
#include "unit/bridge/messages.h"
#include "wire/nfs4/ops.h"

namespace nfsrdma::bridge {
namespace {

using testing::Octets;
using testing::opaque;
using testing::words;

constexpr Route kV2Read{100003, 2, 6, true}, kV2Readlink{100003, 2, 5, true}, kV3Read{100003, 3, 6, true},
    kV3Readlink{100003, 3, 5, true}, kV4{100003, 4, 1, true};

/// xid, REPLY, accepted, no verifier, SUCCESS, and the results.
Octets reply_of(const Octets& results) {
  Octets out = words({7, 1, 0, 0, 0, 0});
  testing::append(out, results);
  return out;
}
Octets joined(std::initializer_list<Octets> parts) {
  Octets out;
  for (const Octets& part : parts) testing::append(out, part);
  return out;
}

/// A COMPOUND's results, each with its number in front.
Octets compound(const std::vector<Octets>& results) {
  Octets out = words({0, 0, static_cast<std::uint32_t>(results.size())});
  for (const Octets& one : results) testing::append(out, one);
  return reply_of(out);
}
Octets read4(std::size_t length, std::byte fill) {
  return joined({words({nfs4::OP_READ, 0, 1}), opaque(length, fill)});
}
Octets readlink4(std::size_t length, std::byte fill) {
  return joined({words({nfs4::OP_READLINK, 0}), opaque(length, fill)});
}
/// A hole of 100 bytes, then data.
Octets read_plus4(std::size_t length, std::byte fill) {
  return joined({words({nfs4::OP_READ_PLUS, 0, 1, 2, 1, 0, 0, 0, 100, 0, 0, 100}), opaque(length, fill)});
}
Octets putfh4() {
  return words({nfs4::OP_PUTFH, 0});
}

Offer offer(const Route& route, std::vector<std::vector<std::uint32_t>> writes,
            std::vector<std::uint32_t> reply_chunk = {}) {
  rdma_msg header;
  header.rdma_xid = 7;
  std::uint32_t handle = 100;
  for (const auto& chunk : writes) {
    header.rdma_writes.add_chunk();
    for (const std::uint32_t length : chunk) header.rdma_writes.add_segment({handle++, length, 1000});
  }
  header.has_rdma_reply = !reply_chunk.empty();
  for (const std::uint32_t length : reply_chunk) header.rdma_reply.push_back({handle++, length, 5000});
  return offer_of(header, route);
}

std::vector<std::uint32_t> lengths(std::span<const RemoteSegment> chunk) {
  std::vector<std::uint32_t> out;
  for (const RemoteSegment& one : chunk) out.push_back(one.length);
  return out;
}
using Lengths = std::vector<std::uint32_t>;

/// What was written behind `handle`.
Octets written(const ReplyPlan& plan, std::uint32_t handle) {
  Octets out;
  for (const RemoteWrite& one : plan.writes) {
    if (one.remote.handle != handle) continue;
    CHECK(one.remote.length == one.local.size());
    out.insert(out.end(), one.local.begin(), one.local.end());
  }
  return out;
}
Octets payload(const ReplyPlan& plan) {
  const xdr::Buffer message = plan.compose();
  const ConstBytes tail = message.bytes().subspan(rpcrdma::encoded_size(plan.header));
  return {tail.begin(), tail.end()};
}

constexpr Limits kLimits{4096, 32, false, true};

}  // namespace

TEST_CASE("bridge: READ data and READLINK paths of versions 2 and 3") {
  struct Sample {
    Route route;
    Octets before;  // the result up to the count
  };
  const Octets fattr2(68, std::byte{2}), fattr3(84, std::byte{3});
  const Sample samples[] = {
      {kV2Read, joined({words({0}), fattr2})},
      {kV2Readlink, words({0})},
      {kV3Read, joined({words({0, 1}), fattr3, words({10, 1})})},
      {kV3Read, words({0, 0, 10, 1})},
      {kV3Readlink, joined({words({0, 1}), fattr3})},
  };
  for (const Sample& one : samples) {
    const Octets reply = reply_of(joined({one.before, opaque(10, std::byte{0xdd})}));
    const std::size_t at = 24 + one.before.size() + 4;
    CHECK(find_eligible(one.route, reply, 5) == std::vector<Eligible>{{true, at, 10}});

    const ReplyPlan plan = plan_reply(offer(one.route, {{6, 100}}), reply, kLimits);
    CHECK(plan.header.proc == rdma_proc::RDMA_MSG);
    CHECK(plan.header.rdma_credit == 32);
    CHECK(lengths(plan.header.rdma_writes[0]) == Lengths{6, 4});
    CHECK(written(plan, 100) == Octets(6, std::byte{0xdd}));
    CHECK(written(plan, 101) == Octets(4, std::byte{0xdd}));
    CHECK(payload(plan) == Octets(reply.begin(), reply.begin() + static_cast<std::ptrdiff_t>(at)));

    // No chunk, an empty one, one that is too small.
    CHECK(payload(plan_reply(offer(one.route, {}), reply, kLimits)) == reply);
    const ReplyPlan empty = plan_reply(offer(one.route, {{}}), reply, kLimits);
    CHECK(payload(empty) == reply);
    CHECK(empty.header.rdma_writes.size() == 1);
    CHECK(plan_reply(offer(one.route, {{9}}), reply, kLimits).header.proc == rdma_proc::RDMA_ERROR);
  }
  // Refused by NFS, or by RPC; another procedure; another program; under GSS integrity.
  CHECK(find_eligible(kV3Read, reply_of(words({13, 0})), 5) == std::vector<Eligible>{{}});
  CHECK(find_eligible(kV3Read, words({7, 1, 1, 1, 5}), 5).empty());
  const Octets good = reply_of(joined({words({0, 0, 10, 1}), opaque(10, std::byte{1})}));
  CHECK(find_eligible({100003, 3, 4, true}, good, 5).empty());
  CHECK(find_eligible({100005, 3, 6, true}, good, 5).empty());
  CHECK(find_eligible({100003, 3, 6, false}, good, 5).empty());
}

TEST_CASE("bridge: U10 Write chunk n belongs to the n-th READ, READ_PLUS or READLINK of a COMPOUND") {
  const Octets reply = compound({putfh4(), read4(9, std::byte{1}), read_plus4(20, std::byte{2}), putfh4(),
                                 readlink4(3, std::byte{3}), read4(5, std::byte{4})});
  const ReplyPlan plan = plan_reply(offer(kV4, {{64}, {64}, {}, {64}, {64, 64}}), reply, kLimits);
  CHECK(lengths(plan.header.rdma_writes[0]) == Lengths{9});
  CHECK(lengths(plan.header.rdma_writes[1]) == Lengths{20});
  CHECK(lengths(plan.header.rdma_writes[2]).empty());  // wanted inline
  CHECK(lengths(plan.header.rdma_writes[3]) == Lengths{5});
  CHECK(lengths(plan.header.rdma_writes[4]) == Lengths{0, 0});  // unused
  CHECK(written(plan, 100) == Octets(9, std::byte{1}));
  CHECK(written(plan, 101) == Octets(20, std::byte{2}));
  CHECK(written(plan, 102) == Octets(5, std::byte{4}));
  // Counts stay, data and padding go.
  CHECK(payload(plan).size() == reply.size() - 12 - 20 - 8);
  // RPC header, COMPOUND header, PUTFH, READ up to its count.
  CHECK(plan.reduced_count == 24 + 12 + 8 + 12);
}

TEST_CASE("bridge: U11 a READ without data leaves its chunk unused, and the next its own") {
  const Octets hole = words({nfs4::OP_READ_PLUS, 0, 1, 1, 1, 0, 0, 0, 100});
  const Octets reply = compound({words({nfs4::OP_READ, 0, 1, 0}), hole, read4(8, std::byte{5})});
  const Octets faulty = compound({words({nfs4::OP_READ, 70})});
  CHECK(find_eligible(kV4, faulty, 5) == std::vector<Eligible>{{}});
  const auto found =
      find_eligible(kV4, compound({words({nfs4::OP_READ, 0, 1, 0}), read4(8, std::byte{5})}), 5);
  REQUIRE(found.size() == 2);
  CHECK(found[0].length == 0);
  CHECK(found[1].length == 8);
  const ReplyPlan plan = plan_reply(offer(kV4, {{64}, {64}, {64}}), reply, kLimits);
  CHECK(lengths(plan.header.rdma_writes[0]) == Lengths{0});
}

TEST_CASE("bridge: behind an operation without types nothing is reduced") {
  const Octets reply =
      compound({read4(8, std::byte{1}), words({nfs4::OP_GETDEVICEINFO, 0, 1, 2}), read4(8, std::byte{2})});
  const ReplyPlan plan = plan_reply(offer(kV4, {{64}, {64}}), reply, kLimits);
  CHECK(lengths(plan.header.rdma_writes[0]) == Lengths{8});
  CHECK(lengths(plan.header.rdma_writes[1]) == Lengths{0});
  // However it is cut: never more than is there.
  for (std::size_t size = 0; size < reply.size(); ++size) {
    const ConstBytes cut = ConstBytes(reply).first(size);
    for (const Eligible& one : find_eligible(kV4, cut, 5)) CHECK(one.at + one.length <= size);
  }
}

TEST_CASE("bridge: inline, as a Long Reply, or not at all") {
  const Octets reply = compound({read4(2000, std::byte{6})});
  const Limits small{1024, 1, false, true};
  CHECK(plan_reply(offer(kV4, {}), reply, kLimits).header.proc == rdma_proc::RDMA_MSG);
  CHECK(plan_reply(offer(kV4, {}), reply, small).header.proc == rdma_proc::RDMA_ERROR);
  CHECK(plan_reply(offer(kV4, {}, {1000}), reply, small).header.proc == rdma_proc::RDMA_ERROR);

  const ReplyPlan long_reply = plan_reply(offer(kV4, {}, {1000, 2000}), reply, small);
  CHECK(long_reply.header.proc == rdma_proc::RDMA_NOMSG);
  CHECK(lengths(long_reply.header.rdma_reply) ==
        Lengths{1000, static_cast<std::uint32_t>(reply.size()) - 1000});
  Octets got = written(long_reply, 100);
  testing::append(got, written(long_reply, 101));
  CHECK(got == reply);
  CHECK(payload(long_reply).empty());

  // RFC 8166 4.3.3: a Reply chunk that was not needed comes back empty.
  const ReplyPlan short_reply = plan_reply(offer(kV4, {{4096}}, {4096}), reply, small);
  CHECK(short_reply.header.proc == rdma_proc::RDMA_MSG);
  CHECK(lengths(short_reply.header.rdma_reply) == Lengths{0});

  // Exactly at the threshold, and one word less.
  const auto size = static_cast<std::uint32_t>(rpcrdma::kMinHeader + reply.size());
  CHECK(plan_reply(offer(kV4, {}), reply, {size, 1, false, true}).header.proc == rdma_proc::RDMA_MSG);
  CHECK(plan_reply(offer(kV4, {}), reply, {size - 4, 1, false, true}).header.proc == rdma_proc::RDMA_ERROR);
}

TEST_CASE("bridge: the handle to invalidate is one of the Call's") {
  const Limits invalidating{4096, 1, true, true};
  const Octets reply = compound({putfh4()});
  CHECK(plan_reply(offer(kV4, {{64}}, {64}), reply, invalidating).invalidate == 100);
  CHECK(plan_reply(offer(kV4, {}, {64}), reply, invalidating).invalidate == 100);
  CHECK_FALSE(plan_reply(offer(kV4, {}), reply, invalidating).invalidate);
  CHECK_FALSE(plan_reply(offer(kV4, {{64}}), reply, kLimits).invalidate);
}

TEST_CASE("bridge: READ_PLUS's zeros reported as holes") {
  constexpr std::size_t kBlock = 4096;
  const auto data = [](std::uint64_t offset, const std::string& text, bool eof) {
    return joined({words({nfs4::OP_READ_PLUS, 0, eof ? 1U : 0U, 1, 0, 0, static_cast<std::uint32_t>(offset)}),
                   words({static_cast<std::uint32_t>(text.size())}),
                   Octets(std::as_bytes(std::span(text)).begin(), std::as_bytes(std::span(text)).end())});
  };
  const auto reported = [&](const std::string& text, bool eof) {
    const Octets reply = compound({putfh4(), data(kBlock, text, eof)});
    const auto out = with_holes(kV4, reply);
    return out ? std::optional(Octets(out->bytes().begin(), out->bytes().end())) : std::nullopt;
  };
  const std::string zeros(kBlock, '\0'), text(kBlock, 'x');
  CHECK_FALSE(reported(text, true));
  CHECK_FALSE(reported("short", true));
  const auto hole = [](std::uint32_t offset, std::uint32_t length) {
    return words({1, 0, offset, 0, length});
  };
  const auto some = [](std::uint32_t offset, std::size_t length) {
    return joined({words({0, 0, offset}), opaque(length, std::byte{'x'})});
  };
  const auto answer = [](bool eof, const std::vector<Octets>& elements) {
    Octets out = words({nfs4::OP_READ_PLUS, 0, eof ? 1U : 0U, static_cast<std::uint32_t>(elements.size())});
    for (const Octets& one : elements) testing::append(out, one);
    return compound({putfh4(), out});
  };
  CHECK(*reported(zeros, true) == answer(true, {hole(kBlock, kBlock)}));
  CHECK(*reported(zeros + text, true) == answer(true, {hole(kBlock, kBlock), some(2 * kBlock, kBlock)}));
  CHECK(*reported(text + text + zeros, true) ==
        answer(true, {some(kBlock, 2 * kBlock), hole(3 * kBlock, kBlock)}));
  // What two elements do not hold is asked for again.
  CHECK(*reported(text + zeros + text, true) ==
        answer(false, {some(kBlock, kBlock), hole(2 * kBlock, kBlock)}));
  CHECK_FALSE(with_holes({100003, 4, 1, false}, compound({putfh4(), data(0, zeros, true)})));
  CHECK_FALSE(with_holes(kV4, compound({putfh4(), read4(10, std::byte{0})})));
}

}  // namespace nfsrdma::bridge
