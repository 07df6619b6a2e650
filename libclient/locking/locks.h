// Byte-range locks as a caller has them, whatever the protocol.
//
// A lock owner is a number that whoever mounts makes up. Plain values.
#pragma once

#include <cstdint>

namespace nfsrdma::locking {

struct LockRange {
  static constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};
  std::uint64_t offset = 0;
  std::uint64_t length = kToTheEnd;  ///< not 0; kToTheEnd: whatever is or comes behind the offset
  [[nodiscard]] std::uint64_t end() const {
    return length > kToTheEnd - offset ? kToTheEnd : offset + length;
  }
  static LockRange between(std::uint64_t begin, std::uint64_t end) {
    return {begin, end == kToTheEnd ? kToTheEnd : end - begin};
  }
  friend bool operator==(const LockRange&, const LockRange&) = default;
};

struct LockRequest {
  std::uint64_t owner = 0;
  bool write = false;
  LockRange range;
};

/// Who has a lock that is in the way.
struct LockHolder {
  LockRange range;
  bool write = false;
  bool ours = false;        ///< a lock owner of this client …
  std::uint64_t owner = 0;  ///< … namely this one
};

}  // namespace nfsrdma::locking
