#include "fuse/ring_request.h"

#include <atomic>
#include <cerrno>
#include <limits>

namespace nfsrdma::fuse {
namespace {

/// Reads the field exactly once, which a plain read would not guarantee.
template <class T>
T load(T& field) {
  return std::atomic_ref(field).load(std::memory_order_relaxed);
}

}  // namespace

RingRequest read_request(ring_slot& slot) {
  RingRequest out;
  out.operation = load(slot.operation);
  out.file = load(slot.file);
  out.offset = load(slot.offset);
  out.buffer = load(slot.buffer);
  out.length = load(slot.length);
  out.flags = load(slot.flags);
  return out;
}

int judge(const RingRequest& request, const RingBounds& bounds) {
  constexpr std::uint64_t kMostOffset = std::numeric_limits<std::int64_t>::max();
  if ((request.flags & ~std::uint32_t{RING_ALL_FLAGS}) != 0) return EINVAL;
  switch (request.operation) {
    case RING_NOTHING:
    case RING_SYNC:
      return 0;
    case RING_READ:
    case RING_WRITE:
      break;
    default:
      return EINVAL;
  }
  if (request.length > RING_MOST_LENGTH) return EINVAL;
  if (request.buffer > bounds.bytes || request.length > bounds.bytes - request.buffer) return EFAULT;
  if (request.offset > kMostOffset) return EINVAL;
  if (request.length > kMostOffset - request.offset) return EFBIG;
  return 0;
}

}  // namespace nfsrdma::fuse
