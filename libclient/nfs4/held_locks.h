// The byte ranges that one lock owner holds on one file, as POSIX has them: a later lock replaces what it
// covers of earlier ones, unlocking cuts holes, neighbours of one kind become one. The server does the same
// (OPEN4_RESULT_LOCKTYPE_POSIX, RFC 8881 18.16.3); this is the client's copy, to claim them again from.
//
// A plain container; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace nfsrdma::nfs4 {

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

struct HeldLock {
  LockRange range;
  bool write = false;
  friend bool operator==(const HeldLock&, const HeldLock&) = default;
};

class HeldLocks {
 public:
  void lock(const LockRange& range, bool write);
  void unlock(const LockRange& range);
  void clear() { pieces_.clear(); }
  [[nodiscard]] bool empty() const { return pieces_.empty(); }
  /// In ascending order, without overlaps.
  [[nodiscard]] std::vector<HeldLock> list() const;
  /// What of the range is not held.
  [[nodiscard]] std::vector<LockRange> not_held(const LockRange& range) const;

 private:
  struct Piece {
    std::uint64_t end;
    bool write;
  };
  void join(std::map<std::uint64_t, Piece>::iterator at);
  std::map<std::uint64_t, Piece> pieces_;  // by their beginning
};

}  // namespace nfsrdma::nfs4
