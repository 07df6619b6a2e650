// The owner and group in a SETATTR, as a number or as a name. Numbers are tried first, because with AUTH_SYS
// most servers accept nothing else. With Kerberos Linux accepts names alone.
//
//     ids::OwnerNames names;
//     for (;;) {
//       auto done = co_await …SETATTR with encode_changes(changes, names)…;
//       if (done) co_return done;
//       const bool again = co_await wants_names(session, done.error(), changes, names);
//       if (!again) co_return done;
//     }
//
// Confined to the loop's thread.
#pragma once

#include "ids/owner_names.h"
#include "nfs4/state/client_lease.h"

namespace nfsrdma::nfs4 {

/// Returns true if a SETATTR that was refused with BADOWNER is to be sent again with `names`, which this call
/// fills in. That happens once, and only if there are names.
async::Task<bool> wants_names(ClientLease& session, Error refused, const SetAttributes& changes,
                              ids::OwnerNames& names);

}  // namespace nfsrdma::nfs4
