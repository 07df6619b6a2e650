// A request as it stands in a ring's memory, read once and judged.
//
// Whatever a program has written there, and goes on writing meanwhile: each field is read once, into memory of our
// own, and judged there. What passes lies within the ring's data and within what a file offset can be.
//
// Values; nothing here waits, allocates or fails otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ring/layout.h"

namespace nfsrdma::fuse {

struct RingBounds {
  unsigned slots = 0;
  std::uint64_t bytes = 0;  ///< of data

  /// All of the memory.
  [[nodiscard]] std::uint64_t data_at() const {
    const std::uint64_t end = RING_SLOTS_AT + std::uint64_t{slots} * sizeof(ring_slot);
    return (end + RING_PAGE - 1) / RING_PAGE * RING_PAGE;
  }
  [[nodiscard]] std::uint64_t size() const { return data_at() + bytes; }
};

struct RingRequest {
  std::uint32_t operation = RING_NOTHING;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t buffer = 0;
  std::uint32_t length = 0;
  std::uint32_t flags = 0;

  [[nodiscard]] bool has(std::uint32_t flag) const { return (flags & flag) != 0; }
};

/// Reads each field once.
RingRequest read_request(ring_slot& slot);
/// 0, or what is wrong with it: EINVAL, EFAULT (the buffer is not in the data), EFBIG.
int judge(const RingRequest& request, const RingBounds& bounds);

}  // namespace nfsrdma::fuse
