// What a ring's requests may ask for, whatever a program writes there.
#include "fuse/ring_request.h"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <random>

namespace nfsrdma::fuse {
namespace {

constexpr std::uint64_t kLast = std::numeric_limits<std::int64_t>::max();

RingBounds bounds() {
  RingBounds out;
  out.slots = 8;
  out.bytes = 3U << 20;
  return out;
}
RingRequest reading() {
  RingRequest out;
  out.operation = RING_READ;
  out.length = 4096;
  return out;
}

}  // namespace

TEST_CASE("ring requests: what lies within the data passes, to the last byte") {
  RingRequest request = reading();
  CHECK(judge(request, bounds()) == 0);
  request.buffer = bounds().bytes - 4096;
  CHECK(judge(request, bounds()) == 0);
  ++request.buffer;
  CHECK(judge(request, bounds()) == EFAULT);
  request.buffer = bounds().bytes;
  request.length = 0;
  CHECK(judge(request, bounds()) == 0);
  request.buffer = ~std::uint64_t{0};  // with the length it would be within them again
  request.length = 1;
  CHECK(judge(request, bounds()) == EFAULT);
}

TEST_CASE("ring requests: lengths, offsets, operations and flags have their bounds") {
  RingRequest request = reading();
  request.length = RING_MOST_LENGTH;
  CHECK(judge(request, bounds()) == 0);
  request.length = RING_MOST_LENGTH + 1;
  CHECK(judge(request, bounds()) == EINVAL);
  request = reading();
  request.offset = kLast - 4096;
  CHECK(judge(request, bounds()) == 0);
  ++request.offset;
  CHECK(judge(request, bounds()) == EFBIG);
  request.offset = kLast + 1;
  CHECK(judge(request, bounds()) == EINVAL);
  request = reading();
  request.operation = 4;
  CHECK(judge(request, bounds()) == EINVAL);
  request = reading();
  request.flags = 16;
  CHECK(judge(request, bounds()) == EINVAL);
}

TEST_CASE("ring requests: of any bytes at all only those pass whose data is in the ring") {
  std::mt19937_64 random(1);
  unsigned passed = 0;
  for (int i = 0; i < 200'000; ++i) {
    alignas(ring_slot) std::array<std::byte, sizeof(ring_slot)> bytes{};
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    ring_slot slot{};
    std::memcpy(&slot, bytes.data(), sizeof slot);
    // Else next to none would come far enough.
    if (random() % 2 == 0) slot.operation %= 4;
    if (random() % 2 == 0) slot.flags &= RING_ALL_FLAGS;
    if (random() % 2 == 0) slot.length %= 2 * RING_MOST_LENGTH;
    if (random() % 2 == 0) slot.buffer %= 2 * bounds().bytes;
    if (random() % 2 == 0) slot.offset >>= 1U;
    const RingRequest request = read_request(slot);
    if (judge(request, bounds()) != 0) continue;
    if (request.operation != RING_READ && request.operation != RING_WRITE) continue;
    ++passed;
    REQUIRE(request.length <= RING_MOST_LENGTH);
    REQUIRE(request.buffer <= bounds().bytes);
    REQUIRE(request.buffer + request.length <= bounds().bytes);
    REQUIRE(request.offset <= kLast);
    REQUIRE(request.offset + request.length <= kLast);
  }
  CHECK(passed > 500);
}

TEST_CASE("ring requests: the data begins on a page behind the last slot") {
  RingBounds all;
  all.slots = RING_MOST_SLOTS;
  all.bytes = 4096;
  CHECK(all.data_at() == 4096 + 256 * 64);
  CHECK(all.size() == all.data_at() + 4096);
  all.slots = 1;
  CHECK(all.data_at() == 8192);
}

}  // namespace nfsrdma::fuse
