// The stateid under which bytes of an open file are changed.
//
// Where nothing but its stateid tells a request that comes late from one that is meant (NFSv4.0, over a connection whose
// source port is not the one before, by which servers know calls again), a WRITE that was sent once more over another
// connection may be executed a second time long after its answer: behind the unlocking, and over what the next owner of
// the lock has written. So whoever has locked these bytes for writing writes them under the lock's stateid, which
// LOCKU makes old. The locks being advisory, it does as well for the others of this client who write there.
//
//     RangeStateid stateid(open, {offset, length});
//     … compound.add<op::WRITE>({stateid.now(), …})
//     … the server does not know it: if (stateid.is_to_be_tried_again()) once more, by now()
//
// Confined to the loop's thread; the Open must outlive it.
#pragma once

#include <memory>

#include "nfs4/open_state.h"

namespace nfsrdma::nfs4 {

class RangeStateid {
 public:
  RangeStateid(const Open& open, const LockRange& range) : open_(open), range_(range) {}

  [[nodiscard]] stateid4 now() {
    lock_ = open_.exact && !gave_up_ ? lock() : nullptr;
    if (!lock_) return open_.current();
    return used_ = *lock_->stateid;
  }
  /// What now() gave was refused. False: it was the open's, which is to be had again first.
  [[nodiscard]] bool is_to_be_tried_again() {
    if (!lock_) return false;
    // A LOCK or LOCKU beside has made another one of it; else it is the open's that tells what is lost.
    gave_up_ = lock_->stateid == used_;
    return true;
  }

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

  const Open& open_;
  const LockRange range_;
  std::shared_ptr<const LockState> lock_;  // whose stateid now() gave; null: the open's
  stateid4 used_{};
  bool gave_up_ = false;  // on locks
};

}  // namespace nfsrdma::nfs4
