// Byte-range locks that the server has forgotten, or taken away (RFC 8881 8.4.2, 9.10, 18.10): they are
// claimed again under the open's new stateid, or lost.
//
// A lock that is lost cannot be made good: somebody else may have written under a lock of his. So its owner
// hears of it from every use of the file until he lets go of it (Open::lost_locks), and the user by a notice.
//
// A LOCK that claims does not wait for its owner's turn (LockState::turn): whoever has the turn may be waiting for the
// recovery. So whoever unlocks waits for claimed() first. Else the lock could be granted again behind the unlocking,
// under a stateid that nobody unlocks by.
//
// Owns nothing: the locks are in their Open (open_state.h). Confined to the loop's thread.
#pragma once

#include <memory>

#include "async/until.h"
#include "nfs4/claim.h"
#include "nfs4/leftovers.h"
#include "nfs4/open_state.h"

namespace nfsrdma::nfs4 {

class LockRecovery {
 public:
  LockRecovery(Calls& calls, Leftovers& leftovers)
      : calls_(calls), leftovers_(leftovers), ended_(calls.loop()) {}
  LockRecovery(const LockRecovery&) = delete;
  LockRecovery& operator=(const LockRecovery&) = delete;

  /// The open's state was replaced by another: what was locked under it is locked no more.
  void lose(Open& open);
  /// The same for what one owner has locked.
  void lose(Open& open, std::uint64_t owner, const Error& why);
  /// The same for a part of that. The stateid stays, for what the server still has locked under it.
  void lose(Open& open, std::uint64_t owner, const LockRange& range, const Error& why);
  /// Every lock of every owner, under the open's stateid. Those that are refused are lost, and nothing else
  /// fails, once a server in trouble has been asked some times; an Error is about the connection or the session, or the
  /// server asks to wait, and Open::claiming_locks then says that it is to be done again.
  async::Task<Status> claim(std::shared_ptr<Open> open, Claim how, async::TimePoint deadline);
  /// A claim that has not come to its end is not made again.
  void end_claim(Open& open);
  /// Waits until no claim of the file's locks is under way, or to be made again. False if the deadline came first.
  /// The Open must outlive the task.
  async::Task<bool> claimed(const Open& open, async::TimePoint deadline) {
    return async::until(ended_, deadline, [&open] { return !open.claiming_locks || !open.held; });
  }

 private:
  async::Task<Status> claim_one(std::shared_ptr<Open> open, std::shared_ptr<LockState> state,
                                std::uint64_t owner, HeldLock held, Claim how, async::TimePoint deadline,
                                nfsstat4& status);

  Calls& calls_;
  Leftovers& leftovers_;
  async::Event ended_;  // a claim
};

}  // namespace nfsrdma::nfs4
