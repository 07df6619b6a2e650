// COMPOUNDs that begin at a Spot (engine/spot.h): PUTFH or PUTROOTFH, and a LOOKUP for each name.
//
//     std::array<Spot*, 1> spots{&spot};
//     auto compound = co_await compound_at(session, "open", caller, spots, [&](Compound& out) {
//       add_walk(out, spot);
//       …
//     });
//     auto reply = co_await session.call(std::move(*compound));
//     if (take_walk(*reply, spot) && …
//
// Walks that make a COMPOUND longer than the session takes (RFC 8881 18.36: ca_maxoperations,
// ca_maxrequestsize) are made before it.
#pragma once

#include <span>

#include "engine/spot.h"
#include "nfs4/session.h"

namespace nfsrdma::nfs4 {

using engine::Spot;

void add_walk(Compound& compound, const Spot& spot);
bool take_walk(CompoundReply& reply, const Spot& spot);

/// The handle that the spot's names lead to, by as many COMPOUNDs as it takes.
async::Task<Result<nfs_fh4>> walk(Session& session, Caller caller, Spot spot);

/// Whether the session takes it in one request.
bool fits(const Session& session, const Compound& compound);

/// What `build` makes of an empty COMPOUND, with walks to the `spots` in it. Where that does not fit, the
/// spots are replaced by the handles that they lead to, and it is built again.
template <class Build>
async::Task<Result<Compound>> compound_at(Session& session, const char* what, Caller caller,
                                          std::span<Spot* const> spots, Build build) {
  Compound compound = session.begin(what, caller);
  build(compound);
  if (fits(session, compound)) co_return std::move(compound);
  for (Spot* spot : spots) {
    if (spot->names.empty()) continue;
    auto handle = co_await walk(session, caller, *spot);
    if (!handle) co_return handle.error();
    *spot = Spot(*handle);
  }
  Compound shorter = session.begin(what, caller);
  build(shorter);
  co_return std::move(shorter);
}

}  // namespace nfsrdma::nfs4
