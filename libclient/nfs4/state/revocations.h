// Search for state that the server has revoked (RFC 8881 8.4.2.4, 18.48). Flags in the answers to SEQUENCE
// say that the server has revoked something, but not what. All stateids of this client's opens, locks and
// delegations are then tested, and those that were revoked are freed.
//
// This client no longer relies on revoked state. A delegation ends. A lock is lost for good, because another
// client may have held it in the meantime. A file is opened again when it is used (open_recovery.h). Until
// the search has ended, delegations cannot be relied upon.
//
// The server may keep setting the flags for state that this client cannot free, so the number of searches per
// second is bounded. A search that gets no answer, or runs into a recovery, ends. The next flag begins
// another one.
//
// Confined to the loop's thread.
#pragma once

#include <span>
#include <vector>

#include "nfs4/state/delegations.h"
#include "nfs4/state/lock_recovery.h"

namespace nfsrdma::nfs4 {

class Revocations {
 public:
  Revocations(CallLayer& calls, const Opens& opens, Delegations& delegations, LockRecovery& locks,
              Leftovers& leftovers)
      : calls_(calls), opens_(opens), delegations_(delegations), locks_(locks), leftovers_(leftovers) {}
  Revocations(const Revocations&) = delete;
  Revocations& operator=(const Revocations&) = delete;

  /// Called when the server says that it has revoked something. Starts the search in the background.
  void search();

 private:
  struct Suspect;
  [[nodiscard]] std::vector<Suspect> suspects() const;
  async::Task<void> search_all();
  async::Task<bool> test(std::span<const Suspect> suspects);
  void lose(const Suspect& suspect, nfsstat4 why);

  CallLayer& calls_;
  const Opens& opens_;
  Delegations& delegations_;
  LockRecovery& locks_;
  Leftovers& leftovers_;
  bool searching_ = false;
  async::TimePoint last_{};
};

}  // namespace nfsrdma::nfs4
