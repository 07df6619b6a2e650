// The byte ranges that one lock owner holds on one file, as POSIX has them: a later lock replaces what it
// covers of earlier ones, unlocking cuts holes, neighbours of one kind become one. The server does the same
// (OPEN4_RESULT_LOCKTYPE_POSIX, RFC 8881 18.16.3); this is the client's copy, to claim them again from.
//
// A plain container; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "nfsrdma/types.h"

namespace nfsrdma::locking {

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
  /// What of the range is held.
  [[nodiscard]] std::vector<HeldLock> within(const LockRange& range) const;
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

}  // namespace nfsrdma::locking
