// The state that a server keeps for this client, and the parts that maintain it. They belong to the client id
// rather than to a session or a connection (RFC 8881 2.4, 8).
//
//   outstanding   counts the work that has to end (Outstanding::none()) before the client id can be destroyed
//   opens         the registry of open files, which are reclaimed after a restart, and the records of files
//   openings      OPENs under way
//   leftovers     gives state without a user back to the server, in the background
//   delegations   takes delegations, answers their recalls, and returns them
//   locks         claims byte-range locks again, or declares them lost
//   open_recovery recovers opens
//   revocations   finds and frees the state that the server has revoked
//
// Each part may be used by itself; a part knows only those above it. All are confined to the loop's thread.
#pragma once

#include "nfs4/state/open_recovery.h"
#include "nfs4/state/revocations.h"

namespace nfsrdma::nfs4 {

struct ClientState {
  /// `hold`: called with whether there is something that the server may recall (delegations.h).
  ClientState(CallLayer& calls, const Lease& lease, const engine::Modifications& modifications,
              engine::ServerCounters& counters, bool claims_expired_locks, Delegations::HoldSink hold)
      : outstanding(calls.loop()),
        opens(calls.loop()),
        openings(calls, outstanding),
        leftovers(calls, opens, outstanding),
        delegations({calls, lease, opens, openings, leftovers, outstanding, modifications, counters,
                     std::move(hold)}),
        locks(calls, leftovers),
        open_recovery({calls, opens, openings, delegations, locks, leftovers, claims_expired_locks}),
        revocations(calls, opens, delegations, locks, leftovers) {}

  Outstanding outstanding;
  Opens opens;
  Openings openings;
  Leftovers leftovers;
  Delegations delegations;
  LockRecovery locks;
  OpenRecovery open_recovery;
  Revocations revocations;
};

}  // namespace nfsrdma::nfs4
