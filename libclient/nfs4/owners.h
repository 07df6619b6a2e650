// Owners in a SETATTR. Numbers first: with AUTH_SYS most servers take nothing else; with Kerberos Linux takes names alone.
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
#include "nfs4/lease_holder.h"

namespace nfsrdma::nfs4 {

/// Whether one that was refused is to be made again, with `names`, which it fills in: once, and if there are names.
async::Task<bool> wants_names(LeaseHolder& session, Error refused, const SetAttributes& changes,
                              ids::OwnerNames& names);

}  // namespace nfsrdma::nfs4
