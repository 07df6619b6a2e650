// The stateid under which bytes of an open file are changed.
//
// Where nothing but its stateid tells a request that comes late from one that is meant (NFSv4.0, over a connection whose
// source port is not the one before, by which servers know calls again), a WRITE that was sent once more over another
// connection may be executed a second time long after its answer: behind the unlocking, and over what the next owner of
// the lock has written. So whoever has locked these bytes for writing writes them under the lock's stateid, which
// LOCKU makes old. The locks being advisory, it does as well for the others of this client who write there.
//
// A write delegation stands above both (8.2.5): WRITE carries its stateid, so that a server that has taken it away
// refuses what comes late. Data behind close(2) is sent under nothing else (deferred_data.h).
//
//     RangeStateid stateid(open, {offset, length});
//     … compound.add<op::WRITE>({stateid.now(), …})
//     … the server does not know it: if (stateid.is_to_be_tried_again()) once more, by now()
//
// Confined to the loop's thread; the Open must outlive it.
#pragma once

#include <memory>

#include "nfs4/deferred_data.h"
#include "nfs4/open_state.h"

namespace nfsrdma::nfs4 {

class RangeStateid {
 public:
  /// `origin`: of the data of a WRITE; it must outlive this. Null: a write delegation is of no account.
  RangeStateid(const Open& open, const LockRange& range, const DataOrigin* origin = nullptr)
      : open_(open), range_(range), origin_(origin) {}

  [[nodiscard]] stateid4 now() {
    lock_ = nullptr;
    used_delegation_ = false;
    if (const DataPermit* const permit = permit_of_data()) return used_ = current(permit->stateid);
    if (origin_ != nullptr && open_.writes_delegated() && !gave_up_delegation_) {
      used_delegation_ = true;
      return used_ = current(open_.delegation()->stateid);
    }
    lock_ = open_.exact && !gave_up_ ? lock() : nullptr;
    return used_ = lock_ ? *lock_->stateid : open_.current();
  }
  /// The stateid of now() was refused. False: it was the open's, so the file is to be opened again first; or it was that
  /// of data behind close(2), so is_discarded() is to be asked after that.
  [[nodiscard]] bool is_to_be_tried_again() {
    if (const DataPermit* const permit = permit_of_data()) return used_ != current(permit->stateid);
    if (used_delegation_) {
      // A delegation that was reclaimed has another stateid; else the open tells whether all is lost.
      gave_up_delegation_ = !open_.writes_delegated() || used_.other == open_.delegation()->stateid.other;
      return true;
    }
    if (!lock_) return false;
    // A LOCK or LOCKU beside has made another one of it; else it is the open's that tells what is lost.
    gave_up_ = lock_->stateid == used_;
    return true;
  }
  /// The data is behind close(2), and the server has refused the stateid that it depends on.
  [[nodiscard]] bool is_discarded() const {
    const DataPermit* const permit = permit_of_data();
    return permit != nullptr && used_ == current(permit->stateid);
  }
  /// Whether DELEG_REVOKED and the like are an answer to what now() gave.
  [[nodiscard]] bool may_be_revoked() const { return used_delegation_ || permit_of_data() != nullptr; }

 private:
  [[nodiscard]] std::shared_ptr<const LockState> lock() const {
    for (const auto& [owner, state] : open_.locks) {
      if (!state->stateid) continue;
      for (const HeldLock& held : state->held.within(range_)) {
        if (held.write) return state;
      }
    }
    return nullptr;
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
  const DataOrigin* const origin_;
  std::shared_ptr<const LockState> lock_;  // whose stateid now() gave; null: another's
  stateid4 used_{};
  bool used_delegation_ = false;  // now() gave the delegation's
  bool gave_up_delegation_ = false;
  bool gave_up_ = false;  // on locks
};

}  // namespace nfsrdma::nfs4
