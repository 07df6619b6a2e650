// Byte-range locks that the server has forgotten or revoked (RFC 8881 8.4.2, 9.10, 18.10): they are claimed
// again under the open's new stateid, or lost.
//
// A lost lock cannot be made good, because another client may have written under a lock of its own. So
// the owner gets an error from every use of the file until it lets go of the file (Open::lost_locks), and
// the user gets a notice.
//
// A LOCK that claims does not wait for its owner's turn (LockState::turn), because the task that has the turn
// may be waiting for the recovery. So a task that unlocks must wait for claimed() first. Otherwise the lock
// could be granted again after it was unlocked, under a stateid by which it is never unlocked.
//
// Owns nothing: the locks are in their Open (open_state.h). Confined to the loop's thread.
#pragma once

#include <memory>

#include "async/until.h"
#include "nfs4/state/claim.h"
#include "nfs4/state/leftovers.h"
#include "nfs4/state/open_state.h"

namespace nfsrdma::nfs4 {

class LockRecovery {
 public:
  LockRecovery(CallLayer& calls, Leftovers& leftovers)
      : calls_(calls), leftovers_(leftovers), ended_(calls.loop()) {}
  LockRecovery(const LockRecovery&) = delete;
  LockRecovery& operator=(const LockRecovery&) = delete;

  /// Called when the open's state was replaced by another: all locks under the earlier state are lost.
  void lose(Open& open);
  /// Loses all locks of one owner, whose stateid is freed.
  void lose(Open& open, std::uint64_t owner, const Error& why);
  /// Loses a part of one owner's locks. The stateid stays, for what the server still has locked under it.
  void lose(Open& open, std::uint64_t owner, const LockRange& range, const Error& why);
  /// Claims every lock of every owner under the open's stateid. A lock that is refused is lost, once a
  /// server in trouble has been asked several times, and nothing else fails. An Error is about the
  /// connection or the session, or says that the server asks to wait; Open::claiming_locks then says that
  /// the claim is to be made again.
  async::Task<Status> claim(std::shared_ptr<Open> open, Claim how, async::TimePoint deadline);
  /// Ends a claim that was not completed, so that it is not made again.
  void end_claim(Open& open);
  /// Waits until no claim of the file's locks is under way or to be made again. Returns false if the deadline
  /// came first. The Open must outlive the task.
  async::Task<bool> claimed(const Open& open, async::TimePoint deadline) {
    return async::until(ended_, deadline, [&open] { return !open.claiming_locks || !open.held; });
  }

 private:
  async::Task<Status> claim_one(std::shared_ptr<Open> open, std::shared_ptr<LockState> state,
                                std::uint64_t owner, HeldLock held, Claim how, async::TimePoint deadline,
                                nfsstat4& status);

  CallLayer& calls_;
  Leftovers& leftovers_;
  async::Event ended_;  // notified when a claim ends
};

}  // namespace nfsrdma::nfs4
