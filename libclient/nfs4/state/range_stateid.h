// The stateid under which bytes of an open file are read or changed: that of a delegation, else that of a
// byte-range lock, else the open's (RFC 8881 8.2.5, RFC 7530 9.1.4.4).
//
// A lock's stateid makes the server the judge of whether the lock still holds. If the server has revoked the
// lock, and this client does not know it yet, the server refuses the WRITE, so no data is written on the
// strength of a lost lock. Under the open's stateid the server would execute it.
//
// The RFC requires the stateid of the lock owner that reads or writes. This client cannot tell which owner
// that is, because the kernel sends the contents of its page cache, and stores into mappings, without the
// process that they come from. So a lock counts for every use of the file through this open, that is, for all
// descriptors of one user. If there are several locks, one that covers the bytes is preferred. Any other lock
// is used as well, because programs protect a file by locking bytes elsewhere in it (SQLite does).
//
// In NFSv4.0 the stateid also lets the server tell a delayed duplicate of a WRITE from a new WRITE. A WRITE
// that was retransmitted over another connection, whose source port is not that of the first, may be executed
// a second time long after its answer: after the unlocking, and over what the next owner of the lock has
// written. LOCKU makes the lock's stateid old, so that the server refuses such a WRITE.
//
// A READ uses only a read delegation's stateid, because Ganesha refuses a READ under a write delegation's
// (nfs4_op_read, BAD_STATEID).
//
// Data behind close(2) is sent under the stateid that its permit names, and under no other (deferred_data.h).
//
//     RangeStateid stateid(open, {offset, length}, RangeStateid::Use::write);
//     … compound.add<op::WRITE>({stateid.now(), …})
//     … the server refuses the stateid: if (stateid.is_to_be_tried_again(status)) once more, by now()
//     … else the file is opened again, and then lost_lock() and is_discarded() say what else is lost
//
// Confined to the loop's thread; the Open must outlive it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "nfs4/compound/compound.h"
#include "nfs4/state/deferred_data.h"
#include "nfs4/state/open_state.h"

namespace nfsrdma::nfs4 {

class RangeStateid final : public StateidSource {
 public:
  enum class Use : std::uint8_t { read, write };

  /// `origin`: origin of a WRITE's data, null for everything else. It must outlive this object.
  RangeStateid(const Open& open, const LockRange& range, Use use, const DataOrigin* origin = nullptr)
      : open_(open), range_(range), use_(use), origin_(origin) {}

  [[nodiscard]] stateid4 now() {
    given_ = true;
    lock_ = nullptr;
    used_delegation_ = false;
    if (const DataPermit* const permit = permit_of_data()) return used_ = current(permit->stateid);
    if (is_delegated() && !gave_up_delegation_) {
      used_delegation_ = true;
      return used_ = current(open_.delegation()->stateid);
    }
    if (!gave_up_locks_) choose_lock();
    return used_ = lock_ ? *lock_->stateid : open_.current();
  }
  /// Returns the stateid of a lock that was granted while the request, prepared under the open's stateid, waited for its
  /// slot. Any other choice stands: a request that relies on a lock must not be sent under the open's stateid because
  /// the lock was lost meanwhile.
  [[nodiscard]] std::optional<stateid4> at_slot() override {
    if (!given_ || lock_ || used_delegation_ || gave_up_locks_ || permit_of_data() != nullptr)
      return std::nullopt;
    choose_lock();
    if (!lock_) return std::nullopt;
    return used_ = *lock_->stateid;
  }
  /// Called when the request was sent by the fast path (session/fast_reads.h), under a stateid that is not
  /// known here.
  void was_another() { given_ = false; }
  /// Called when the server has refused the stateid of now() with `status`. Returns true if the request is to
  /// be sent again with another stateid from now(). Returns false if the file must first be opened again,
  /// which shows whether the open is lost, too.
  [[nodiscard]] bool is_to_be_tried_again(nfsstat4 status) {
    if (!given_) return true;
    if (const DataPermit* const permit = permit_of_data()) return used_ != current(permit->stateid);
    if (used_delegation_) {
      // A delegation that was reclaimed has another stateid. If it has not, the lock or the open tells
      // whether all is lost.
      gave_up_delegation_ = !is_delegated() || used_.other == open_.delegation()->stateid.other;
      return true;
    }
    if (!lock_) return false;
    // NFSv4.0: a LOCK or LOCKU under way has made the stateid old, so the server knows the lock.
    if (status == NFS4ERR_OLD_STATEID && lock_->stateid == used_) return gave_up_locks_ = true;
    return !lost_lock();
  }
  /// Returns the owner of the lock whose stateid the server has refused; none if the lock has been unlocked,
  /// claimed again or lost since. To be asked when the open is known to be good.
  [[nodiscard]] std::optional<std::uint64_t> lost_lock() const {
    if (lock_ && lock_->stateid == used_ && !lock_->held.empty()) return lock_owner_;
    return std::nullopt;
  }
  /// Whether the data is behind close(2), and the server has refused the stateid that it depends on.
  [[nodiscard]] bool is_discarded() const {
    const DataPermit* const permit = permit_of_data();
    return permit != nullptr && used_ == current(permit->stateid);
  }
  /// Whether DELEG_REVOKED or a similar status may be the answer to the stateid of now().
  [[nodiscard]] bool may_be_revoked() const { return used_delegation_ || permit_of_data() != nullptr; }

 private:
  [[nodiscard]] bool is_delegated() const {
    if (!open_.delegated()) return false;
    return open_.delegation()->writes == (use_ == Use::write);
  }

  [[nodiscard]] bool covers(const LockState& lock) const {
    return std::ranges::any_of(lock.held.within(range_),
                               [this](const HeldLock& held) { return held.write || use_ == Use::read; });
  }
  void choose_lock() {
    for (const auto& [owner, state] : open_.locks) {
      if (!state->stateid || state->held.empty()) continue;
      const bool covered = covers(*state);
      if (lock_ && !covered) continue;
      lock_ = state;
      lock_owner_ = owner;
      if (covered) return;
    }
  }

  [[nodiscard]] DataPermit* permit_of_data() const {
    return origin_ != nullptr ? origin_->permit.get() : nullptr;
  }
  [[nodiscard]] stateid4 current(const stateid4& stateid) const {
    if (stateid.other == open_.stateid.other) return open_.current();
    return {open_.exact ? stateid.seqid : 0, stateid.other};
  }

  const Open& open_;
  const LockRange range_;
  const Use use_;
  const DataOrigin* const origin_;
  std::shared_ptr<const LockState> lock_;  // the lock whose stateid now() returned; null: none
  std::uint64_t lock_owner_ = 0;
  stateid4 used_{};
  bool given_ = false;            // now() has been called, and the result was sent
  bool used_delegation_ = false;  // now() returned the delegation's stateid
  bool gave_up_delegation_ = false;
  bool gave_up_locks_ = false;
};

}  // namespace nfsrdma::nfs4
