// Gives back to the server, in the background, state that has no user here: opens that are not open for any
// program, and stateids that the server has revoked or replaced.
//
// Failures are not reported, because state that cannot be given back goes with the client id at the latest.
// If a refusal may pass, the call is made again (retries.h).
//
// Tasks under way count as outstanding (outstanding.h). Confined to the loop's thread.
#pragma once

#include "nfs4/calls.h"
#include "nfs4/outstanding.h"

namespace nfsrdma::nfs4 {

class Leftovers {
 public:
  Leftovers(Calls& calls, Outstanding& outstanding) : calls_(calls), outstanding_(outstanding) {}
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  /// Sends FREE_STATEID (RFC 8881 18.38). Until the server hears that the client knows of a revoked stateid,
  /// it remembers the stateid, and says so in every SEQUENCE. Does nothing if there are no sessions.
  async::Task<void> free(stateid4 stateid);
  /// Calls free() in the background. Does nothing if the session is ending.
  void free_beside(const stateid4& stateid);
  /// Sends CLOSE, in the background, for an open without a user. `owner`: Open::owner.
  void close_beside(const nfs_fh4& file, const stateid4& stateid, std::uint64_t owner);

 private:
  async::Task<void> free_counted(stateid4 stateid);
  async::Task<void> close(nfs_fh4 file, stateid4 stateid, std::uint64_t owner);

  Calls& calls_;
  Outstanding& outstanding_;
};

}  // namespace nfsrdma::nfs4
