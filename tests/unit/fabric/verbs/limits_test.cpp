// What needs no device: how memory is cut for one, and what queues follow from its limits.
#include "fabric/verbs/limits.h"

#include <doctest/doctest.h>

#include "fabric/verbs/endpoint.h"

using namespace nfsrdma::fabric;
using namespace nfsrdma::fabric::verbs;

namespace {

constexpr Limits roomy{.work_requests = 16384,
                       .completions = 1U << 20,
                       .registration = ~0ULL,
                       .windows = 1U << 16,
                       .reads_in = 128,
                       .reads_out = 128};

Limits with(auto change) {
  Limits out = roomy;
  change(out);
  return out;
}

}  // namespace

TEST_CASE("verbs: a segment is what the device registers, in whole pages, and at most 1 GiB") {
  CHECK(segment_limit(~0ULL) == 1U << 30);
  CHECK(segment_limit(1ULL << 30) == 1U << 30);
  CHECK(segment_limit(1'000'000) == 999'424);
  CHECK(segment_limit(4096) == 4096);
  CHECK(segment_limit(1000) == 1000);
  CHECK(segment_limit(0) == 1);  // nonsense of a device's: no division by zero
}

TEST_CASE("verbs: memory is split in order, without gaps, into as many pieces as were announced") {
  std::vector<std::byte> memory(10'000);
  for (const std::size_t limit : {1UL, 3UL, 4096UL, 9999UL, 10'000UL, 10'001UL}) {
    CAPTURE(limit);
    const auto pieces = split(memory, limit);
    CHECK(pieces.size() == segments_for(memory.size(), limit));
    const std::byte* next = memory.data();
    for (const Bytes piece : pieces) {
      CHECK(piece.data() == next);
      CHECK(piece.size() <= limit);
      CHECK_FALSE(piece.empty());
      next += piece.size();
    }
    CHECK(next == memory.data() + memory.size());
  }
}

TEST_CASE("verbs: empty memory is one empty segment") {
  CHECK(segments_for(0, 4096) == 1);
  REQUIRE(split({}, 4096).size() == 1);
  CHECK(split({}, 4096).front().empty());
}

TEST_CASE("verbs: a device with room gives what is wanted") {
  const verbs::Depths d = depths({.receive_count = 128, .send_count = 128}, roomy);
  CHECK(d.receives == 128);
  CHECK(d.send_slots == 128);
  CHECK(d.sends == 128 * work_per_send);
  CHECK(d.windows == 128 * 4 * windows_per_send);
  CHECK(d.reads_in == 16);
  CHECK(d.reads_out == 16);
}

TEST_CASE("verbs: what is wanted is lowered to what the device has") {
  const Queues wanted{.receive_count = 128, .send_count = 128};
  const verbs::Depths narrow = depths(wanted, with([](Limits& l) { l.work_requests = 64; }));
  CHECK(narrow.receives == 64);
  CHECK(narrow.sends == 64);
  CHECK(narrow.send_slots == 64);
  CHECK(depths(wanted, with([](Limits& l) { l.completions = 100; })).sends == 100);
  CHECK(depths(wanted, with([](Limits& l) { l.windows = 10; })).windows == 10);
  const verbs::Depths reads = depths(wanted, with([](Limits& l) { l.reads_in = 1, l.reads_out = 0; }));
  CHECK(reads.reads_in == 1);
  CHECK(reads.reads_out == 0);
}

TEST_CASE("verbs: without windows nothing is bound, and fewer work requests are wanted") {
  const verbs::Depths d = depths({.send_count = 10}, with([](Limits& l) { l.windows = 0; }));
  CHECK(d.windows == 0);
  CHECK(d.sends == 10 * (1 + windows_per_send));
}

TEST_CASE("verbs: whatever a device says, there is a queue") {
  const verbs::Depths d = depths({.receive_count = 0, .send_count = 0}, Limits{});
  CHECK(d.receives == 1);
  CHECK(d.sends == 1);
  CHECK(d.send_slots == 1);
}

TEST_CASE("verbs: an answer allows no more RDMA Reads than the request asked for") {
  CHECK(answered_reads(16, 4, false) == 4);
  CHECK(answered_reads(16, 128, false) == 16);
  CHECK(answered_reads(16, 0, false) == 0);
  CHECK(answered_reads(16, 4, true) == 4);
  CHECK(answered_reads(16, 0, true) == 16);  // MPA revision 1 says nothing
}

TEST_CASE("S19 verbs: a message for which the peer never has a Receive is given up") {
  const Library library;
  const Endpoint endpoint(library);
  const rdma_conn_param asked = endpoint.parameters({});
  CHECK(asked.rnr_retry_count < 7);  // 7: without end
  CHECK(asked.rnr_retry_count > 0);
  CHECK(asked.retry_count == 7);
}
