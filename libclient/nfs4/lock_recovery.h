// Byte-range locks that the server has forgotten, or taken away (RFC 8881 8.4.2, 9.10, 18.10): they are
// claimed again under the open's new stateid, or lost.
//
// A lock that is lost cannot be made good: somebody else may have written under a lock of his. So its owner
// hears of it from every use of the file until he lets go of it (Open::lost_locks), and the user by a notice.
//
// Owns nothing: the locks are in their Open (open_state.h). Confined to the loop's thread.
#pragma once

#include <memory>

#include "nfs4/claim.h"
#include "nfs4/leftovers.h"
#include "nfs4/open_state.h"

namespace nfsrdma::nfs4 {

class LockRecovery {
 public:
  LockRecovery(Calls& calls, Leftovers& leftovers) : calls_(calls), leftovers_(leftovers) {}
  LockRecovery(const LockRecovery&) = delete;
  LockRecovery& operator=(const LockRecovery&) = delete;

  /// The open's state was replaced by another: what was locked under it is locked no more.
  void lose(Open& open);
  /// The same for what one owner has locked.
  void lose(Open& open, std::uint64_t owner, const Error& why);
  /// Every lock of every owner, under the open's stateid. Those that are refused are lost, and nothing else
  /// fails; an Error is about the connection, and Open::claiming_locks then says that it is to be done again.
  async::Task<Status> claim(std::shared_ptr<Open> open, Claim how, async::TimePoint deadline);

 private:
  async::Task<Status> claim_one(std::shared_ptr<Open> open, std::shared_ptr<LockState> state,
                                std::uint64_t owner, HeldLock held, Claim how, async::TimePoint deadline,
                                nfsstat4& status);

  Calls& calls_;
  Leftovers& leftovers_;
};

}  // namespace nfsrdma::nfs4
