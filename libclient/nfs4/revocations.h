// What the server has taken away (RFC 8881 8.4.2.4, 18.48): it says so by flags in the answers to SEQUENCE, not
// what it is. All stateids of this client's opens, locks and delegations are tested then, and those that were
// revoked freed.
//
// What was revoked is not believed in any more: a delegation ends, a lock is lost for good, since somebody else
// may have had it in the meantime, and a file that is used again is opened again (open_recovery.h). Until it is
// known what was revoked, delegations cannot be relied upon.
//
// The server may go on saying it for state that is none of ours to free: the search is not made more often than
// is useful. A search that has no answer, or falls into a recovery, ends; the next flag begins another one.
//
// Confined to the loop's thread.
#pragma once

#include <span>
#include <vector>

#include "nfs4/delegations.h"
#include "nfs4/lock_recovery.h"

namespace nfsrdma::nfs4 {

class Revocations {
 public:
  Revocations(Calls& calls, const Opens& opens, Delegations& delegations, LockRecovery& locks,
              Leftovers& leftovers)
      : calls_(calls), opens_(opens), delegations_(delegations), locks_(locks), leftovers_(leftovers) {}
  Revocations(const Revocations&) = delete;
  Revocations& operator=(const Revocations&) = delete;

  /// The server says that it has revoked something: finds out what, beside whatever else is done.
  void search();

 private:
  struct Suspect;
  [[nodiscard]] std::vector<Suspect> suspects() const;
  async::Task<void> search_all();
  async::Task<bool> test(std::span<const Suspect> suspects);
  void lose(const Suspect& suspect, nfsstat4 why);

  Calls& calls_;
  const Opens& opens_;
  Delegations& delegations_;
  LockRecovery& locks_;
  Leftovers& leftovers_;
  bool searching_ = false;
  async::TimePoint last_{};
};

}  // namespace nfsrdma::nfs4
