// Gives back to the server, in the background, state that has no user here: opens that are not open for any
// program, and stateids that the server has revoked or replaced.
//
// An OPEN returns the state that its owner has of the file already, if there is one. So what was opened for
// nobody may be the state of a registered open by the time that it is to be closed. Such state is not closed.
//
// Failures are not reported, because state that cannot be given back goes with the client id at the latest.
// If a refusal may pass, the call is made again (compound/retries.h).
//
// Tasks under way count as outstanding (outstanding.h). Confined to the loop's thread.
#pragma once

#include "nfs4/compound/call_layer.h"
#include "nfs4/state/opens.h"
#include "nfs4/state/outstanding.h"

namespace nfsrdma::nfs4 {

class Leftovers {
 public:
  /// `opens`: the registry of the opens that have a user.
  Leftovers(CallLayer& calls, const Opens& opens, Outstanding& outstanding)
      : calls_(calls), opens_(opens), outstanding_(outstanding) {}
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  /// Sends FREE_STATEID (RFC 8881 18.38). Until the server hears that the client knows of a revoked stateid,
  /// it remembers the stateid, and says so in every SEQUENCE. Does nothing if there are no sessions.
  async::Task<void> free(stateid4 stateid);
  /// Calls free() in the background. Does nothing if the session is ending.
  void free_in_background(const stateid4& stateid);
  /// Sends CLOSE, in the background, for an open without a user. Does nothing while a registered open has
  /// that state. `owner`: Open::owner.
  void close_in_background(const nfs_fh4& file, const stateid4& stateid, std::uint64_t owner);

 private:
  async::Task<void> free_counted(stateid4 stateid);
  async::Task<void> close(nfs_fh4 file, stateid4 stateid, std::uint64_t owner);

  CallLayer& calls_;
  const Opens& opens_;
  Outstanding& outstanding_;
};

}  // namespace nfsrdma::nfs4
