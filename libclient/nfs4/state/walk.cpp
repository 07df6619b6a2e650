#include "nfs4/state/walk.h"

#include <algorithm>
#include <array>
#include <utility>

namespace nfsrdma::nfs4 {
namespace {

void begin_walk(Compound& compound, const Spot& spot) {
  if (spot.from) {
    compound.add<op::PUTFH>({*spot.from});
  } else {
    compound.add<op::PUTROOTFH>();
  }
}

bool take_walk(CompoundReply& reply, const Spot& spot) {
  if (spot.from ? !reply.take<op::PUTFH>() : !reply.take<op::PUTROOTFH>()) return false;
  return std::ranges::all_of(spot.names, [&](const std::string&) { return reply.take<op::LOOKUP>(); });
}

/// Whether there is still room for a LOOKUP of the name and a GETFH behind it.
bool has_room(const ClientLease& session, const Compound& compound, const std::string& name) {
  constexpr std::size_t kNumber = 4, kLength = 4;
  const std::size_t size = 2 * kNumber + kLength + xdr::padded(name.size());
  return compound.count() + 2 <= session.facts().max_operations &&
         compound.message().unreduced_size() + size <= session.facts().max_request;
}

}  // namespace

void add_walks(Compound& compound, Spots spots) {
  for (const Spot* spot : spots) {
    if (spot != spots.front()) compound.add<op::SAVEFH>();
    begin_walk(compound, *spot);
    for (const std::string& name : spot->names) compound.add<op::LOOKUP>({{name}});
  }
}

bool take_walks(CompoundReply& reply, Spots spots) {
  return std::ranges::all_of(spots, [&](const Spot* spot) {
    return (spot == spots.front() || reply.take<op::SAVEFH>()) && take_walk(reply, *spot);
  });
}

namespace {

Compound build(ClientLease& session, const char* what, const Caller& caller, Spots spots,
               async::FunctionRef<void(Compound&)> add) {
  Compound out = session.begin(what, caller, mark_of(session, spots));
  add_walks(out, spots);
  add(out);
  return out;
}

/// Builds the COMPOUND once the spots' names have been walked in others.
async::Task<Result<Compound>> walk_and_build(ClientLease& session, const char* what, Caller caller,
                                             Spots spots, async::FunctionRef<void(Compound&)> add) {
  for (Spot* spot : spots) {
    if (spot->names.empty()) continue;
    auto handle = co_await walk(session, caller, *spot);
    if (!handle) co_return handle.error();
    *spot = Spot(*handle);
  }
  co_return build(session, what, caller, spots, add);
}

}  // namespace

bool fits(const SessionFacts& limits, const Compound& compound) {
  return compound.count() <= limits.max_operations &&
         compound.message().unreduced_size() <= limits.max_request;
}

bool fits(const ClientLease& session, const Compound& compound) {
  return fits(session.facts(), compound);
}

async::Task<Result<nfs_fh4>> walk(ClientLease& session, Caller caller, Spot spot) {
  session.crossings().shorten(spot);
  Spot part;
  part.from = spot.from;
  const std::array<Spot*, 1> parts{&part};
  auto name = spot.names.begin();
  do {
    Compound compound = session.begin("LOOKUP", caller, session.crossings().mark_of(part));
    begin_walk(compound, part);
    for (const std::string& again : part.names) compound.add<op::LOOKUP>({{again}});
    // At least one LOOKUP is added, even if it does not fit: the server then refuses the request.
    for (bool room = part.names.empty(); room && name != spot.names.end();) {
      compound.add<op::LOOKUP>({{*name}});
      part.names.push_back(*name++);
      room = name != spot.names.end() && has_room(session, compound, *name);
    }
    compound.add<op::GETFH>();
    auto reply = co_await session.call(std::move(compound));
    if (!reply) co_return reply.error();
    GETFH4res found;
    if (!take_walk(*reply, part) || !reply->take<op::GETFH>(found)) {
      auto crossed = co_await cross(session, caller, parts, *reply);
      if (!crossed) co_return crossed.error();
      if (*crossed) continue;
      co_return session.error_of(*reply, "LOOKUP", spot.text());
    }
    part = Spot(found.get<NFS4_OK>()->object);
  } while (name != spot.names.end() || !part.names.empty());
  co_return *part.from;
}

async::Soon<Result<Compound>> compound_at(ClientLease& session, const char* what, Caller caller, Spots spots,
                                          async::FunctionRef<void(Compound&)> add) {
  for (Spot* spot : spots) session.crossings().shorten(*spot);
  Compound compound = build(session, what, caller, spots, add);
  if (fits(session, compound)) return compound;
  return walk_and_build(session, what, std::move(caller), spots, add);
}

}  // namespace nfsrdma::nfs4
