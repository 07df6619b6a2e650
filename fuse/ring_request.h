// Reads a request from a ring's memory, and checks it.
//
// The program may have written anything there, and may go on writing meanwhile. So each field is read once,
// into memory of the daemon's own, and is checked there. A request that passes lies within the ring's data
// and within the range of file offsets.
//
// Plain values; nothing here waits or allocates, and there are no other errors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ring/layout.h"

namespace nfsrdma::fuse {

struct RingBounds {
  unsigned slots = 0;
  std::uint64_t bytes = 0;  ///< of data

  /// Offset of the data in the ring's memory.
  [[nodiscard]] std::uint64_t data_at() const {
    const std::uint64_t end = RING_SLOTS_AT + std::uint64_t{slots} * sizeof(ring_slot);
    return (end + RING_PAGE - 1) / RING_PAGE * RING_PAGE;
  }
  /// Size of the ring's whole memory.
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
/// Returns 0, or the errno for a bad request: EINVAL, EFAULT (the buffer is not in the data), EFBIG.
int judge(const RingRequest& request, const RingBounds& bounds);

}  // namespace nfsrdma::fuse
