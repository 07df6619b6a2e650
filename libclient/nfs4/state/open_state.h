// State that the server keeps for an open file on behalf of one open owner, and the values that recovery
// needs: the open itself and its byte-range locks (RFC 8881 8.2, 9). State that all owners share is in the
// file's record (file_record.h).
//
// Plain values. FileState (file_state.h) owns an Open and registers it with the ClientLease, which keeps it
// alive while it is recovered. Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/mutex.h"
#include "async/rarely.h"
#include "engine/spot.h"
#include "locking/held_locks.h"
#include "nfs4/compound/compound.h"
#include "nfs4/state/access_order.h"
#include "nfs4/state/file_record.h"
#include "nfsrdma/result.h"

namespace nfsrdma::nfs4 {

using locking::HeldLock;
using locking::HeldLocks;

class OpenFile;

/// State of one lock owner for one open file.
struct LockState {
  explicit LockState(async::Loop& loop) : turn(loop) {}
  std::optional<stateid4> stateid;  // none: the next LOCK begins from the open's stateid
  HeldLocks held;
  /// Held for one LOCK or LOCKU at a time, so that `held` follows the server's order.
  async::Mutex turn;
  /// NFSv4.0: number that makes the lock owner's name unique for this file; 0: not assigned yet.
  std::uint64_t unique = 0;
};

struct Open {
  nfs_fh4 file;
  stateid4 stateid{};
  std::uint32_t access = 0;  // OPEN4_SHARE_ACCESS_* that the server has granted
  /// The part of `access` that OpenRefs need; 0: no OpenRef is left.
  std::uint32_t needed = 0;
  /// Order of the OPENs and OPEN_DOWNGRADEs that led to `access` under this stateid.
  AccessOrder order;
  std::uint64_t owner = 0;  // number that makes the open owner unique
  Caller caller;            // user whose rights count; null: the session's own
  std::string path;         // for messages
  /// NFSv4.0: name by which the file was opened last, because it cannot be opened by its handle.
  async::Rarely<engine::Place> place;
  bool exact = false;  // NFSv4.0: calls name the stateid with its seqid
  /// Why the open could not be recovered. Every use of the file returns this Error.
  std::optional<Error> lost;
  std::uint64_t epoch = 0;  // epoch of the client id that the stateid belongs to
  bool reopening = false;   // OpenRecovery::reopen() is under way
  /// Set while some of its locks have not been claimed under the client id of `epoch`.
  bool claiming_locks = false;
  bool notifies_locks = false;         // the server set OPEN4_RESULT_MAY_NOTIFY_LOCK
  std::shared_ptr<FileRecord> record;  // record of the file; null: never registered
  bool shares_delegation = false;      // an OPEN of this owner returned record->delegation
  std::shared_ptr<OpenFile> user;      // set while OpenFiles knows of it
  std::uint64_t number = 0;            // key in the registry (opens.h)
  bool held = false;                   // the open is registered there
  /// The server had the open when this client last heard of it.
  bool reclaimable = true;
  /// Key in OpenFiles::parked_ if the open has no OpenRef and is kept for its delegation.
  std::uint64_t parked = 0;                                   // 0: it is not parked
  std::map<std::uint64_t, std::shared_ptr<LockState>> locks;  // by lock owner
  /// Lock owners whose locks could not be recovered. Every use of the file gives EIO until the owner lets go
  /// of the file (Locks::release()), because another client may have written under a lock of its own.
  std::map<std::uint64_t, Error> lost_locks;
  /// Returns the file's delegation if this open shares it, else null.
  [[nodiscard]] Delegation* delegation() const { return shares_delegation ? &*record->delegation : nullptr; }
  [[nodiscard]] bool delegated() const { return shares_delegation && !record->delegation->returning; }
  /// Whether this open shares a write delegation.
  [[nodiscard]] bool writes_delegated() const { return delegated() && record->delegation->writes; }
  /// Stores the state that an OPEN for `asked` returned, as far as no later Reply has replaced it.
  void opened(const stateid4& now, std::uint32_t asked);
  /// Stores the state that an OPEN_DOWNGRADE to `asked` returned, as far as no later Reply has replaced it.
  void downgraded(const stateid4& now, std::uint32_t asked);
  /// Returns the stateid for a call that means the state as it is now. Its seqid is 0 (RFC 8881 8.2.2), so
  /// that a concurrent OPEN or OPEN_DOWNGRADE does no harm. In NFSv4.0 the seqid is exact, and the server
  /// refuses a call that a concurrent OPEN has overtaken (OLD_STATEID).
  [[nodiscard]] stateid4 current() const { return {exact ? stateid.seqid : 0, stateid.other}; }
  /// Returns the Error of every use of the file if the open or one of its locks is lost, else null.
  [[nodiscard]] const Error* unusable() const {
    if (lost) return &*lost;
    return lost_locks.empty() ? nullptr : &lost_locks.begin()->second;
  }
};

/// Whether `a` belongs to the same state as `b` and is later (RFC 8881 8.2.2: seqids wrap around, leaving out
/// 0).
inline bool is_later(const stateid4& a, const stateid4& b) {
  return a.other == b.other && static_cast<std::int32_t>(a.seqid - b.seqid) > 0;
}

inline void Open::opened(const stateid4& now, std::uint32_t asked) {
  if (now.other != stateid.other) {
    stateid = now;
    order = AccessOrder();
  } else if (is_later(now, stateid)) {
    stateid = now;
  }
  order.opened(now.seqid, asked);
  access = order.access();
}

inline void Open::downgraded(const stateid4& now, std::uint32_t asked) {
  if (now.other != stateid.other) return;
  if (is_later(now, stateid)) stateid = now;
  order.downgraded(now.seqid, asked);
  access = order.access();
}

}  // namespace nfsrdma::nfs4
