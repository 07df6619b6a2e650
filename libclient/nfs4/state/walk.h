// COMPOUNDs that begin at a Spot (engine/spot.h): PUTFH or PUTROOTFH, and a LOOKUP for each name.
//
//     std::array<Spot*, 1> spots{&spot};
//     auto compound = co_await compound_at(session, "open", caller, spots, [&](Compound& out) { … });
//     auto reply = co_await session.call(std::move(*compound));
//     if (take_walks(*reply, spots) && …
//
// If walks make a COMPOUND longer than the session allows (RFC 8881 18.36: ca_maxoperations,
// ca_maxrequestsize), they are made before it in COMPOUNDs of their own.
#pragma once

#include <span>

#include "async/function_ref.h"
#include "async/soon.h"
#include "engine/spot.h"
#include "nfs4/state/client_lease.h"
#include "nfs4/state/crossing.h"

namespace nfsrdma::nfs4 {

using engine::Spot;

/// Adds a walk to each of the spots, with SAVEFH between them.
void add_walks(Compound& compound, Spots spots);
bool take_walks(CompoundReply& reply, Spots spots);

/// Returns the handle that the spot's names lead to. Sends as many COMPOUNDs as that takes.
async::Task<Result<nfs_fh4>> walk(ClientLease& session, Caller caller, Spot spot);

/// Whether the limits allow the compound in one request.
bool fits(const SessionFacts& limits, const Compound& compound);
/// Whether the session's limits allow the compound in one request.
bool fits(const ClientLease& session, const Compound& compound);

/// Returns the mark of the flavour that vouches for all of the spots. If two spots want different flavours,
/// they are in two file systems.
inline security::Mark mark_of(const ClientLease& session, Spots spots) {
  for (const Spot* spot : spots) {
    if (const security::Mark mark = session.crossings().mark_of(*spot); mark != 0) return mark;
  }
  return 0;
}

/// Builds a COMPOUND of the walks and the operations that `add` adds behind them. If that exceeds the
/// session's limits, the spots are first replaced by the handles that they lead to.
async::Soon<Result<Compound>> compound_at(ClientLease& session, const char* what, Caller caller, Spots spots,
                                          async::FunctionRef<void(Compound&)> add);

}  // namespace nfsrdma::nfs4
