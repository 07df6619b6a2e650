// The bridge's faults: their options, their dice, and what they do to a Reply.
#include <doctest/doctest.h>

#include <algorithm>

#include "bridge/sabotage.h"
#include "rpcrdma/private_data.h"
#include "unit/bridge/messages.h"

namespace nfsrdma::bridge {
namespace {

using testing::Octets;
using testing::words;

/// A READ of 100 bytes of version 3, with a Write chunk and a Reply chunk.
struct Sample {
  Octets reply;
  Offer offer;
  Sample() {
    reply = words({7, 1, 0, 0, 0, 0, 0, 0, 100, 1});
    testing::append(reply, testing::opaque(100, std::byte{0xee}));
    rdma_msg header;
    header.rdma_xid = 7;
    header.rdma_writes.add_chunk(std::vector<RemoteSegment>{{100, 4096, 0}});
    header.has_rdma_reply = true;
    header.rdma_reply = {{200, 4096, 0}};
    offer = offer_of(header, {100003, 3, 6, true});
  }
  [[nodiscard]] Delivery deliver(Faults& faults, std::uint64_t number = 1) const {
    return plan_delivery(offer, reply, {4096, 32, false, true}, number, 4096, faults);
  }
  [[nodiscard]] Delivery deliver(const char* fault, std::uint64_t number = 1) const {
    Faults faults({*parse_fault(fault)}, 5);
    Delivery delivery = deliver(faults, number);
    CHECK(faults.struck(parse_fault(fault)->fault) == 1);
    return delivery;
  }
};

rdma_msg decoded(const xdr::Buffer& message, rpcrdma::HeaderFault expected = rpcrdma::HeaderFault::none) {
  rdma_msg out;
  CHECK(rpcrdma::decode(message.bytes(), out).fault == expected);
  return out;
}

}  // namespace

TEST_CASE("bridge: faults as they are written on the command line") {
  CHECK(parse_fault("msgp")->rate == kDefaultRate);
  CHECK(parse_fault("drop-reply=0.25")->rate == 0.25);
  CHECK(parse_fault("disconnect-at=50")->count == 50);
  for (const char* wrong : {"", "mspg", "msgp=", "msgp=2", "msgp=-1", "msgp=nan", "msgp=0.1x",
                            "disconnect-at", "disconnect-at=0", "disconnect-at=0.5"}) {
    const auto result = parse_fault(wrong);
    CAPTURE(wrong);
    CHECK_FALSE(result);
    if (!result) CHECK(result.error().kind() == ErrorKind::usage);
  }
  for (const FaultRow& row : kFaults) {
    CHECK(parse_fault(std::string(row.name) + "=1"));
    CHECK(fault_help().find(row.name) != std::string::npos);
  }
}

TEST_CASE("bridge: the same seed makes the same faults, whatever else was asked for") {
  const auto strikes = [](Faults faults, Fault fault) {
    std::vector<bool> out;
    for (int i = 0; i < 1000; ++i) {
      faults.strikes(Fault::done);
      out.push_back(faults.strikes(fault));
    }
    return out;
  };
  const FaultSpec msgp{Fault::msgp, 0.1, 0}, done{Fault::done, 0.5, 0};
  const auto alone = strikes(Faults({msgp}, 3), Fault::msgp);
  CHECK(strikes(Faults({msgp, done}, 3), Fault::msgp) == alone);
  CHECK(strikes(Faults({msgp}, 4), Fault::msgp) != alone);
  const auto count = std::count(alone.begin(), alone.end(), true);
  CHECK(count > 60);
  CHECK(count < 140);
  const auto other = strikes(Faults({msgp}, 3), Fault::drop_reply);
  CHECK(std::count(other.begin(), other.end(), true) == 0);
}

TEST_CASE("bridge: without a fault a Reply is what it should be") {
  const Sample sample;
  Faults none;
  const Delivery good = sample.deliver(none);
  const rdma_msg header = decoded(good.message);
  CHECK(header.rdma_writes[0].front().length == 100);
  CHECK_FALSE(good.drop);
  CHECK_FALSE(good.disconnect);
  CHECK(good.before.empty());
}

TEST_CASE("bridge: what each fault does to a Reply") {
  const Sample sample;
  CHECK(sample.deliver("drop-reply=1").drop);
  CHECK(sample.deliver("delay-reply=1").delay.count() > 0);
  CHECK(sample.deliver("duplicate-reply=1").twice);
  CHECK(sample.deliver("reorder-reply=1").behind);
  CHECK(sample.deliver("disconnect-at=3", 3).disconnect);
  CHECK(sample.deliver("disconnect-in-write=1").cut_write);
  CHECK(sample.deliver("late-write=1").late_write);
  CHECK(decoded(sample.deliver("zero-grant=1").message).rdma_credit == 0);
  CHECK(decoded(sample.deliver("lower-grant=1").message).rdma_credit <= 3);
  CHECK(decoded(sample.deliver("wrong-xid=1").message).rdma_xid != 7);
  CHECK(sample.deliver("truncated-header=1").message.size() < rpcrdma::kMinHeader + 44);
  CHECK(sample.deliver("oversized-message=1").message.size() == 4097);
  CHECK(decoded(sample.deliver("err-vers=1").message).err == rpcrdma::rpc_rdma_errcode::ERR_VERS);
  CHECK(decoded(sample.deliver("err-chunk=1").message).err == rpcrdma::rpc_rdma_errcode::ERR_CHUNK);
  CHECK(decoded(sample.deliver("msgp=1").before.front()).proc == rdma_proc::RDMA_MSGP);
  CHECK(decoded(sample.deliver("done=1").before.front()).proc == rdma_proc::RDMA_DONE);
  CHECK(decoded(sample.deliver("backward-call=1").before.front()).proc == rdma_proc::RDMA_MSG);

  const Delivery left = sample.deliver("left-inline=1");
  CHECK(left.plan.writes.empty());
  CHECK(left.plan.payload_size() == sample.reply.size());

  const Delivery oversized = sample.deliver("oversized-count=1");
  const xdr::Buffer& message = oversized.message;
  CHECK(xdr::load_u32(message.data() + message.size() - 4) == 0x7fffffff);
}

TEST_CASE("bridge: chunk lists that differ from those offered") {
  const Sample sample;
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const auto with = [&](const char* name) {
      Faults faults({*parse_fault(name)}, seed);
      return decoded(sample.deliver(faults).message);
    };
    Faults none;
    const rdma_msg good = decoded(sample.deliver(none).message);
    const rdma_msg fewer = with("fewer-chunks=1"), more = with("more-chunks=1"),
                   other = with("other-handle=1"), overlong = with("overlong-chunk=1");
    CHECK(fewer.rdma_writes.segment_count() == 0);
    CHECK(more.rdma_writes.segment_count() == 2);
    CHECK(other.rdma_writes.segment_count() == 1);
    CHECK(other.rdma_writes != good.rdma_writes);
    CHECK(overlong.rdma_writes[0].front().length > 4096);
  }
}

TEST_CASE("bridge: private data that changes between connections") {
  const auto octets = rpcrdma::encode(rpcrdma::PrivateData{true, 4096, 4096});
  const std::vector<std::byte> usual(octets.begin(), octets.end());
  Faults none;
  CHECK(sabotaged_private_data(usual, none) == usual);
  Faults faults({*parse_fault("private-data=1")}, 1);
  unsigned absent = 0, others = 0;
  for (int i = 0; i < 100; ++i) {
    const auto found = rpcrdma::find_private_data(sabotaged_private_data(usual, faults));
    if (!found)
      ++absent;
    else if (found->send_size != 4096)
      ++others;
  }
  CHECK(absent > 10);
  CHECK(others > 10);
}

}  // namespace nfsrdma::bridge
