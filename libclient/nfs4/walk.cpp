#include "nfs4/walk.h"

#include <algorithm>

namespace nfsrdma::nfs4 {
namespace {

/// SEQUENCE, PUTFH, GETFH.
constexpr std::size_t kBesideLookups = 3;
/// RPC and COMPOUND headers with the largest credential, and those three.
constexpr std::size_t kWalkEnvelope = 1024;
constexpr std::size_t kLookupEnvelope = 4 + 4 + 3;  // operation, length, padding

/// How many of the names, from `begin` on, one COMPOUND of nothing else can look up: one at least.
std::size_t reach(const Session& session, const std::vector<std::string>& names, std::size_t begin) {
  const SessionFacts& facts = session.facts();
  const std::size_t most = facts.max_operations - std::min<std::size_t>(facts.max_operations, kBesideLookups);
  std::size_t bytes = kWalkEnvelope;
  std::size_t end = begin;
  while (end < names.size() && end - begin < most) {
    bytes += kLookupEnvelope + names[end].size();
    if (bytes > facts.max_request) break;
    ++end;
  }
  return std::max(end, begin + 1);
}

}  // namespace

void add_walk(Compound& compound, const Spot& spot) {
  if (spot.from) {
    compound.add<op::PUTFH>({*spot.from});
  } else {
    compound.add<op::PUTROOTFH>();
  }
  for (const std::string& name : spot.names) compound.add<op::LOOKUP>({{name}});
}

bool take_walk(CompoundReply& reply, const Spot& spot) {
  if (spot.from ? !reply.take<op::PUTFH>() : !reply.take<op::PUTROOTFH>()) return false;
  return std::ranges::all_of(spot.names, [&](const std::string&) { return reply.take<op::LOOKUP>(); });
}

bool fits(const Session& session, const Compound& compound) {
  return compound.count() <= session.facts().max_operations &&
         compound.message().unreduced_size() <= session.facts().max_request;
}

async::Task<Result<nfs_fh4>> walk(Session& session, Caller caller, Spot spot) {
  Spot part = spot;
  std::size_t begin = 0;
  do {
    const std::size_t end = spot.names.empty() ? 0 : reach(session, spot.names, begin);
    part.names.assign(spot.names.begin() + static_cast<std::ptrdiff_t>(begin),
                      spot.names.begin() + static_cast<std::ptrdiff_t>(end));
    Compound compound = session.begin("LOOKUP", caller);
    add_walk(compound, part);
    compound.add<op::GETFH>();
    auto reply = co_await session.call(std::move(compound));
    if (!reply) co_return reply.error();
    GETFH4res found;
    if (!take_walk(*reply, part) || !reply->take<op::GETFH>(found)) {
      co_return session.error_of(*reply, "LOOKUP", spot.text());
    }
    part.from = found.get<NFS4_OK>()->object;
    begin = end;
  } while (begin < spot.names.size());
  co_return *part.from;
}

}  // namespace nfsrdma::nfs4
