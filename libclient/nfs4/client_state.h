// What a client has of the server, and what it does about it: the parts that belong to a client id rather than
// to a session or a connection (RFC 8881 2.4, 8), put together.
//
//   opens         the registry of open files, which are reclaimed after a restart, and the records of files
//   openings      OPENs under way
//   leftovers     what is given back beside, because nobody has a use for it
//   delegations   taken, recalled, returned
//   locks         what is claimed again or lost of byte-range locks
//   open_recovery what is had again of opens
//   revocations   what the server took away is found and freed
//   outstanding   how much of this is under way: none() before the client id can go
//
// Each may be used by itself; a part only knows those above it. All are confined to the loop's thread.
#pragma once

#include "nfs4/open_recovery.h"
#include "nfs4/revocations.h"

namespace nfsrdma::nfs4 {

struct ClientState {
  /// `hold`: told whether there is something that the server may recall (delegations.h).
  ClientState(Calls& calls, const Lease& lease, const engine::Modifications& modifications,
              engine::ServerCounters& counters, bool claims_expired_locks, Delegations::HoldSink hold)
      : outstanding(calls.loop()),
        opens(calls.loop()),
        openings(calls, outstanding),
        leftovers(calls, outstanding),
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
