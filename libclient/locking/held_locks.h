// The byte ranges that one lock owner holds on one file, with the semantics of POSIX: a later lock replaces
// the part of earlier locks that it covers, an unlock cuts a hole, and adjacent ranges of one kind are
// merged. The server keeps an equal list (OPEN4_RESULT_LOCKTYPE_POSIX, RFC 8881 18.16.3). This is the
// client's copy, from which it reclaims the locks after a restart of the server.
//
// A plain container. It may be used on any thread, by one thread at a time.
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
  /// Returns all held ranges in ascending order. They do not overlap.
  [[nodiscard]] std::vector<HeldLock> list() const;
  /// Returns the parts of `range` that are held.
  [[nodiscard]] std::vector<HeldLock> within(const LockRange& range) const;
  /// Returns the parts of `range` that are not held.
  [[nodiscard]] std::vector<LockRange> not_held(const LockRange& range) const;

 private:
  struct Piece {
    std::uint64_t end;
    bool write;
  };
  void join(std::map<std::uint64_t, Piece>::iterator at);
  std::map<std::uint64_t, Piece> pieces_;  // the key is the offset at which the piece begins
};

}  // namespace nfsrdma::locking
