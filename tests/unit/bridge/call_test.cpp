// The bridge's understanding of Calls: what is fetched, what is refused, and what the server gets.
#include "bridge/call.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>

#include "bridge/record.h"
#include "unit/bridge/messages.h"

namespace nfsrdma::bridge {
namespace {

using testing::Octets;
using testing::words;

constexpr std::size_t kLargest = 1U << 20;

/// Does the fetches of a plan from memory by handle, and gives the RPC message.
Octets fetch(CallPlan& plan, const std::map<std::uint32_t, Octets>& memory) {
  for (const Fetch& one : plan.fetches) {
    const Octets& from = memory.at(one.from.handle);
    REQUIRE(one.from.offset + one.from.length <= from.size());
    REQUIRE(one.at + one.from.length <= plan.record.size());
    std::memcpy(plan.record.data() + one.at, &from[one.from.offset], one.from.length);
  }
  CHECK(xdr::load_u32(plan.record.data()) == (kLastFragment | plan.message().size()));
  return {plan.message().begin(), plan.message().end()};
}

Octets with_header(const rdma_msg& header, const Octets& payload) {
  xdr::Buffer out;
  rpcrdma::encode(header, out);
  Octets all(out.bytes().begin(), out.bytes().end());
  all.insert(all.end(), payload.begin(), payload.end());
  return all;
}

rdma_msg header_of(std::uint32_t xid, rdma_proc proc = rdma_proc::RDMA_MSG) {
  rdma_msg header;
  header.rdma_xid = xid;
  header.proc = proc;
  return header;
}

}  // namespace

TEST_CASE("bridge: a Call that came inline is passed on as it is") {
  const Octets call = testing::rpc_call(7, 100003, 4, 1, {1, 2, 3});
  CallPlan plan = plan_call(with_header(header_of(7), call), kLargest);
  REQUIRE(plan.verdict == Verdict::call);
  CHECK(fetch(plan, {}) == call);
  const auto route = route_of(plan.message(), 7);
  REQUIRE(route);
  CHECK(route->program == 100003);
  CHECK(route->version == 4);
  CHECK(route->procedure == 1);
  CHECK(route->may_reduce);
  CHECK_FALSE(route_of(plan.message(), 8));
}

TEST_CASE("bridge: Read chunks go back to their positions, with their padding") {
  Octets whole = testing::rpc_call(7, 100003, 4, 1, {11, 5});
  const auto first = static_cast<std::uint32_t>(whole.size());
  testing::append(whole, Octets{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}});
  whole.resize(xdr::padded(whole.size()));
  testing::append(whole, words({22, 4}));
  const auto second = static_cast<std::uint32_t>(whole.size());
  testing::append(whole, words({0x0a0b0c0d}));
  testing::append(whole, words({33}));

  // What is left when both are taken out; the first in two segments, the list in the wrong order.
  Octets reduced(whole.begin(), whole.begin() + first);
  reduced.insert(reduced.end(), whole.begin() + first + 8, whole.begin() + second);
  reduced.insert(reduced.end(), whole.begin() + second + 4, whole.end());
  const std::map<std::uint32_t, Octets> memory{{1, {std::byte{9}, std::byte{1}, std::byte{2}}},
                                               {2, {std::byte{3}, std::byte{4}, std::byte{5}}},
                                               {3, words({0x0a0b0c0d})}};
  rdma_msg header = header_of(7);
  header.rdma_reads = {{second, {3, 4, 0}}, {first, {1, 2, 1}}, {first, {2, 3, 0}}};
  CallPlan plan = plan_call(with_header(header, reduced), kLargest);
  REQUIRE(plan.verdict == Verdict::call);
  CHECK(fetch(plan, memory) == whole);

  // The same as a Long Call, the Position Zero Read chunk cut where it hurts.
  header.proc = rdma_proc::RDMA_NOMSG;
  const auto cut = static_cast<std::uint32_t>(first + 3);
  auto memory_and_zero = memory;
  memory_and_zero[4] = Octets(reduced.begin(), reduced.begin() + cut);
  memory_and_zero[5] = Octets(reduced.begin() + cut, reduced.end());
  header.rdma_reads.push_back({0, {4, cut, 0}});
  header.rdma_reads.push_back({0, {5, static_cast<std::uint32_t>(reduced.size() - cut), 0}});
  CallPlan long_plan = plan_call(with_header(header, {}), kLargest);
  REQUIRE(long_plan.verdict == Verdict::call);
  CHECK(fetch(long_plan, memory_and_zero) == whole);
}

TEST_CASE("bridge: what is malformed is answered by RFC 8166 4.5") {
  const Octets call = testing::rpc_call(7, 100003, 4, 1, {});
  const auto verdict = [&](const rdma_msg& header, const Octets& payload) {
    return plan_call(with_header(header, payload), kLargest).verdict;
  };
  rdma_msg header = header_of(7);
  header.rdma_vers = 2;
  CHECK(verdict(header, call) == Verdict::err_vers);
  CHECK(plan_call(Octets(27), kLargest).verdict == Verdict::discard);
  CHECK(verdict(header_of(7, static_cast<rdma_proc>(9)), call) == Verdict::err_chunk);
  CHECK(verdict(header_of(7, rdma_proc::RDMA_DONE), call) == Verdict::discard);
  CHECK(verdict(header_of(7, rdma_proc::RDMA_MSGP), call) == Verdict::discard);
  CHECK(verdict(header_of(7, rdma_proc::RDMA_NOMSG), {}) == Verdict::err_chunk);
  CHECK(verdict(header_of(7), Octets(4)) == Verdict::err_chunk);

  const auto with_reads = [&](std::vector<rpcrdma::xdr_read_chunk> reads) {
    rdma_msg one = header_of(7);
    one.rdma_reads = std::move(reads);
    return verdict(one, call);
  };
  const auto end = static_cast<std::uint32_t>(call.size());
  CHECK(with_reads({{end, {1, 8, 0}}}) == Verdict::call);
  CHECK(with_reads({{end + 4, {1, 8, 0}}}) == Verdict::err_chunk);              // behind the message
  CHECK(with_reads({{42, {1, 8, 0}}}) == Verdict::err_chunk);                   // not a multiple of four
  CHECK(with_reads({{0, {1, 8, 0}}}) == Verdict::err_chunk);                    // Position Zero with RDMA_MSG
  CHECK(with_reads({{end, {1, 0xffffffff, 0}}}) == Verdict::err_chunk);         // larger than anything
  CHECK(with_reads({{40, {1, 8, 0}}, {44, {1, 8, 0}}}) == Verdict::err_chunk);  // they overlap
}

TEST_CASE("bridge: every truncation of a Call leads to a verdict") {
  rdma_msg header = header_of(7);
  header.rdma_reads = {{40, {1, 8, 0}}};
  header.rdma_writes.add_chunk(std::vector<RemoteSegment>{{2, 4096, 0}});
  const Octets whole = with_header(header, testing::rpc_call(7, 100003, 4, 1, {1, 2}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const CallPlan plan = plan_call(ConstBytes(whole).first(size), kLargest);
    if (size < rpcrdma::kMinHeader)
      CHECK(plan.verdict == Verdict::discard);
    else
      CHECK((plan.verdict == Verdict::call || plan.verdict == Verdict::err_chunk));
  }
}

TEST_CASE("bridge: backward Replies and errors are told from Calls") {
  const Octets reply = words({9, 1, 0, 0, 0, 0});
  CallPlan plan = plan_call(with_header(header_of(9), reply), kLargest);
  CHECK(plan.verdict == Verdict::backward_reply);
  CHECK(fetch(plan, {}) == reply);
  CHECK(plan_call(with_header(header_of(8), reply), kLargest).verdict == Verdict::discard);
  CHECK(plan_call(with_header(header_of(9, rdma_proc::RDMA_ERROR), {}), kLargest).verdict ==
        Verdict::backward_error);
}

TEST_CASE("bridge: nothing is reduced under GSS integrity and privacy") {
  for (const std::uint32_t service : {1U, 2U, 3U}) {
    // RPCSEC_GSS, version 1, DATA, sequence number, service, handle of four bytes
    const Octets call = words({7, 0, 2, 100003, 4, 1, 6, 24, 1, 0, 5, service, 4, 0xabcd, 0, 0});
    const auto route = route_of(call, 7);
    REQUIRE(route);
    CHECK(route->may_reduce == (service == 1));
  }
}

TEST_CASE("bridge: records in any number of pieces and fragments") {
  const Octets stream = words({2, 0x11110000, 0x80000004, 0x22223333, 0x80000000, 0x80000004, 0x44445555});
  // The first fragment has two bytes only: what follows is out of step by two.
  Octets bytes(stream.begin(), stream.begin() + 6);
  bytes.insert(bytes.end(), stream.begin() + 8, stream.end());
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    RecordReader reader(100);
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      const ConstBytes piece = ConstBytes(bytes).subspan(at, std::min(step, bytes.size() - at));
      CHECK(reader.feed(piece, [&](xdr::Buffer record) { sizes.push_back(record.size()); }));
    }
    CHECK(sizes == std::vector<std::size_t>{6, 0, 4});
  }
  RecordReader reader(100);
  const auto ignore = [](xdr::Buffer) {};
  CHECK_FALSE(reader.feed(words({0x80000000 + 101}), ignore));
  RecordReader in_fragments(100);
  Octets two = words({4, 0});
  testing::append(two, words({97}));
  CHECK_FALSE(in_fragments.feed(two, ignore));
}

}  // namespace nfsrdma::bridge
