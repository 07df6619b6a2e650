// What is given back to the server beside whatever else is done, because nobody here has a use for it: opens
// that nobody has open, and stateids that the server has revoked or replaced.
//
// Whether it works shows nowhere: state that cannot be given back goes with the client id, at the latest. A refusal that
// may pass has the call made again (retries.h).
// What is under way counts as outstanding (outstanding.h). Confined to the loop's thread.
#pragma once

#include "nfs4/calls.h"
#include "nfs4/outstanding.h"

namespace nfsrdma::nfs4 {

class Leftovers {
 public:
  Leftovers(Calls& calls, Outstanding& outstanding) : calls_(calls), outstanding_(outstanding) {}
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  /// FREE_STATEID (RFC 8881 18.38): until the server hears that the client knows of a revoked stateid, it
  /// remembers that, and says so in every SEQUENCE. Nothing where there are no sessions.
  async::Task<void> free(stateid4 stateid);
  /// The same, without waiting for it. Nothing where the session is ending.
  void free_beside(const stateid4& stateid);
  /// CLOSE of what nobody has open. `owner`: Open::owner.
  void close_beside(const nfs_fh4& file, const stateid4& stateid, std::uint64_t owner);

 private:
  async::Task<void> free_counted(stateid4 stateid);
  async::Task<void> close(nfs_fh4 file, stateid4 stateid, std::uint64_t owner);

  Calls& calls_;
  Outstanding& outstanding_;
};

}  // namespace nfsrdma::nfs4
