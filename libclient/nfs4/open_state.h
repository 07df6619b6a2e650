// State that the server keeps for an open file on behalf of one open owner, and what it takes to have it again: the open
// itself and its byte-range locks (RFC 8881 8.2, 9). What all owners share is in the file's record (file_record.h).
//
// Plain values. Their owner (file.h) registers them with the Session, which holds on to them while it
// recovers them. Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/mutex.h"
#include "engine/spot.h"
#include "locking/held_locks.h"
#include "nfs4/access_order.h"
#include "nfs4/compound.h"
#include "nfs4/file_record.h"
#include "nfsrdma/result.h"

namespace nfsrdma::nfs4 {

using locking::HeldLock;
using locking::HeldLocks;

class OpenFile;

/// What one lock owner has on one open file.
struct LockState {
  explicit LockState(async::Loop& loop) : turn(loop) {}
  std::optional<stateid4> stateid;  // none: the next LOCK begins from the open's
  HeldLocks held;
  async::Mutex turn;         // one LOCK or LOCKU at a time, so that `held` follows the server's order
  std::uint64_t unique = 0;  // NFSv4.0: what the owner is told apart by on this file; 0: not yet
};

struct Open {
  nfs_fh4 file;
  stateid4 stateid{};
  std::uint32_t access = 0;  // OPEN4_SHARE_ACCESS_*
  std::uint32_t needed = 0;  // of that by those who have the file open here; 0: nobody has
  AccessOrder order;         // of what brought the access, under this stateid
  std::uint64_t owner = 0;   // makes the open owner unique
  Caller caller;             // whose rights count; null: the session's
  std::string path;          // for messages
  /// NFSv4.0: by which name it was opened last, since it cannot be opened by its handle.
  std::optional<engine::Place> place;
  bool exact = false;           // NFSv4.0: a stateid is meant with its seqid
  std::optional<Error> lost;    // could not be recovered: every use of the file gives this
  std::uint64_t epoch = 0;      // of the client id under which the stateid was had
  bool reopening = false;       // reopen() is under way
  bool claiming_locks = false;  // not all of its locks have been asked for under the client id of `epoch`
  bool notifies_locks = false;  // OPEN4_RESULT_MAY_NOTIFY_LOCK
  std::shared_ptr<FileRecord> record;  // of the file; null: it was never registered
  bool shares_delegation = false;      // an OPEN of this owner brought record->delegation
  std::shared_ptr<OpenFile> user;      // while OpenFiles knows of it
  std::uint64_t number = 0;            // in the Session's registry
  bool held = false;                   // it is registered there
  bool reclaimable = true;             // the server had it when this client last heard of it
  /// The open has no OpenRef and is kept for its delegation: the key in OpenFiles::parked_.
  std::uint64_t parked = 0;                                   // 0: it is not parked
  std::map<std::uint64_t, std::shared_ptr<LockState>> locks;  // by lock owner
  /// Lock owners whose locks could not be had again. Until they let go of the file its use gives EIO:
  /// somebody else may have written under a lock of his.
  std::map<std::uint64_t, Error> lost_locks;
  /// The file's delegation if this open shares it; null if not.
  [[nodiscard]] Delegation* delegation() const { return shares_delegation ? &*record->delegation : nullptr; }
  [[nodiscard]] bool delegated() const { return shares_delegation && !record->delegation->returning; }
  /// For writing.
  [[nodiscard]] bool writes_delegated() const { return delegated() && record->delegation->writes; }
  /// Takes what an OPEN for `asked` brought, or not: its Reply may have been overtaken by another's.
  void opened(const stateid4& now, std::uint32_t asked);
  /// The same for OPEN_DOWNGRADE.
  void downgraded(const stateid4& now, std::uint32_t asked);
  /// The stateid as the server has it now, whatever its seqid (RFC 8881 8.2.2): an OPEN or OPEN_DOWNGRADE
  /// beside it does no harm. In NFSv4.0 it does, and is found out (OLD_STATEID).
  [[nodiscard]] stateid4 current() const { return {exact ? stateid.seqid : 0, stateid.other}; }
  /// What every use of the file gives, if it is no use any more.
  [[nodiscard]] const Error* unusable() const {
    if (lost) return &*lost;
    return lost_locks.empty() ? nullptr : &lost_locks.begin()->second;
  }
};

/// Whether `a` is of the same state and later than `b` (RFC 8881 8.2.2: seqids wrap around, leaving out 0).
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
