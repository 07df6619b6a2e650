#include "nfs4/state/crossing.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "nfs4/state/client_lease.h"
#include "nfs4/state/walk.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using Offers = std::vector<Security>;

/// The OID of Kerberos V, 1.2.840.113554.1.2.2 (RFC 4121). In DER it begins with a tag and its length, which
/// only some servers send.
constexpr auto kKerberos =
    std::to_array<std::uint8_t>({0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02});
constexpr std::size_t kTagAndLength = 2;

bool is_kerberos(xdr::ConstBytes oid) {
  const auto whole = std::as_bytes(std::span(kKerberos));
  return std::ranges::equal(oid, whole) || std::ranges::equal(oid, whole.subspan(kTagAndLength));
}

/// Returns the flavours in the server's order, which is its order of preference (RFC 8881 18.29.3).
Offers offers_of(const SECINFO4resok& ok) {
  Offers out;
  for (const secinfo4& one : ok.value) {
    if (one.tag() == kAuthSys) out.push_back(Security::sys);
    const rpcsec_gss_info* const gss = one.get<kRpcsecGss>();
    if (gss == nullptr || !is_kerberos(gss->oid.value) || gss->qop != 0) continue;
    switch (gss->service) {
      case RPC_GSS_SVC_NONE:
        out.push_back(Security::krb5);
        break;
      case RPC_GSS_SVC_INTEGRITY:
        out.push_back(Security::krb5i);
        break;
      case RPC_GSS_SVC_PRIVACY:
        out.push_back(Security::krb5p);
        break;
    }
  }
  return out;
}

const Offers& all_flavors() {
  static const Offers all{Security::krb5p, Security::krb5i, Security::krb5, Security::sys};
  return all;
}

/// A name in a directory or, if the name is empty, the object of the handle itself.
struct Door {
  nfs_fh4 handle;
  std::string name;
};

/// Looks up the object behind the door with the best of the offered flavours. If that fails because of the
/// flavour (is_of_flavor()), tries the next best.
async::Task<Result<nfs_fh4>> enter(ClientLease& session, Caller caller, Door door, Offers offers) {
  const std::shared_ptr<security::Flavor> flavor = session.options().flavor;
  std::optional<Error> first;
  for (;;) {
    auto mark = co_await flavor->choose(offers, caller, session.default_deadline());
    if (!mark && first) co_return *first;
    if (!mark) co_return mark.error();
    // The server has returned this handle to a call of the chosen flavour.
    if (door.name.empty() && door.handle.mark == *mark) co_return door.handle;
    Compound compound = session.begin("LOOKUP", caller, *mark);
    compound.add<op::PUTFH>({door.handle});
    if (!door.name.empty()) compound.add<op::LOOKUP>({{door.name}});
    compound.add<op::GETFH>();
    auto reply = co_await session.call(std::move(compound));
    GETFH4res found;
    if (reply && reply->take<op::PUTFH>() && (door.name.empty() || reply->take<op::LOOKUP>()) &&
        reply->take<op::GETFH>(found))
      co_return found.get<NFS4_OK>()->object;
    const Error why = reply ? session.error_of(*reply, "LOOKUP", door.name) : reply.error();
    if (!is_of_flavor(why)) co_return why;
    if (!first) first = why;
    const std::size_t before = offers.size();
    std::erase_if(offers, [&](Security one) { return security_name(one) == flavor->name_of(*mark); });
    if (offers.size() == before || offers.empty()) co_return *first;
  }
}

/// Returns the flavours that the server takes for its root. The session may not be open yet.
async::Task<Result<Offers>> offers_at_root(CallLayer& calls, async::TimePoint deadline, bool in_recovery) {
  // NFSv4.0 has SECINFO only, which needs a name, and the root has none.
  if (!calls.version().asks_flavors_by_handle) co_return all_flavors();
  Compound compound = calls.begin("SECINFO_NO_NAME");
  compound.add<op::PUTROOTFH>().add<op::SECINFO_NO_NAME>(SECINFO_STYLE4_CURRENT_FH);
  async::Task<Result<CompoundReply>> asked = in_recovery
                                                 ? calls.call_in_recovery(std::move(compound), deadline)
                                                 : calls.call(std::move(compound), deadline);
  auto reply = co_await std::move(asked);
  if (!reply) co_return reply.error();
  SECINFO_NO_NAME4res res;
  if (!reply->take<op::PUTROOTFH>() || !reply->take<op::SECINFO_NO_NAME>(res))
    co_return calls.error_of(*reply, "SECINFO_NO_NAME", "/");
  co_return offers_of(*res.get<NFS4_OK>());
}

/// The operation that ended the COMPOUND, as an index in its walk: 0 is the operation with
/// which the walk begins.
struct Refused {
  Spot* spot = nullptr;  // null: the operation belongs to no walk
  std::size_t operation = 0;
};
Refused refused_in(Spots spots, const CompoundReply& reply, bool has_sequence) {
  std::size_t index = reply.executed() - std::min(reply.executed(), 1U);
  if (has_sequence) index -= std::min<std::size_t>(index, 1);
  for (Spot* const spot : spots) {
    if (spot != spots.front()) index -= std::min<std::size_t>(index, 1);  // SAVEFH
    const std::size_t length = 1 + spot->names.size();
    if (index < length) return {spot, index};
    index -= length;
  }
  return {};
}

/// Whether the spots are asked about with different flavours, which means that they are on
/// different file systems.
bool are_apart(const ClientLease& session, Spots spots) {
  const security::Mark first = session.crossings().mark_of(*spots.front());
  return std::ranges::any_of(spots,
                             [&](const Spot* spot) { return session.crossings().mark_of(*spot) != first; });
}

}  // namespace

bool is_of_flavor(const Error& error) {
  return error.kind() == ErrorKind::server &&
         (error.status() == NFS4ERR_WRONGSEC || error.status() == rpc::kGarbageArgs ||
          error.errno_value() == EACCES);
}

// ---- what was crossed ----

void Crossings::learn(const Spot& spot, std::size_t names, const nfs_fh4& handle) {
  Names way(spot.names.begin(), spot.names.begin() + static_cast<std::ptrdiff_t>(names));
  if (spot.from) {
    const auto above =
        std::ranges::find_if(places_, [&](const Place& one) { return spot.from == one.handle; });
    if (above == places_.end()) return;
    way.insert(way.begin(), above->names.begin(), above->names.end());
  }
  learn(std::move(way), handle);
}

void Crossings::learn(Names names, const nfs_fh4& handle) {
  std::erase_if(places_, [&](const Place& one) { return one.names == names; });
  if (places_.size() >= kMost) places_.erase(places_.begin());
  places_.push_back({std::move(names), handle});
}

void Crossings::shorten(Spot& spot) const {
  if (spot.from || places_.empty()) return;
  const Place* deepest = nullptr;
  for (const Place& one : places_) {
    const bool leads = one.names.size() <= spot.names.size() &&
                       std::equal(one.names.begin(), one.names.end(), spot.names.begin());
    if (leads && (deepest == nullptr || one.names.size() > deepest->names.size())) deepest = &one;
  }
  if (deepest == nullptr) return;
  spot.from = deepest->handle;
  spot.names.erase(spot.names.begin(),
                   spot.names.begin() + static_cast<std::ptrdiff_t>(deepest->names.size()));
}

bool Crossings::lengthen(Spot& spot) {
  const auto place = std::ranges::find_if(places_, [&](const Place& one) { return spot.from == one.handle; });
  if (place == places_.end()) return false;
  spot.from.reset();
  spot.names.insert(spot.names.begin(), place->names.begin(), place->names.end());
  places_.erase(place);
  return true;
}

// ---- crossing ----

async::Task<Result<nfs_fh4>> cross_to(ClientLease& session, Caller caller, nfs_fh4 directory,
                                      std::string name) {
  Compound compound = session.begin_on(directory, "SECINFO", caller);
  compound.add<op::SECINFO>({{name}});
  auto reply = co_await session.call(std::move(compound));
  if (!reply) co_return reply.error();
  SECINFO4res res;
  if (!reply->take<op::PUTFH>() || !reply->take<op::SECINFO>(res))
    co_return session.error_of(*reply, "SECINFO", name);
  Door door{directory, std::move(name)};
  co_return co_await enter(session, std::move(caller), std::move(door), offers_of(*res.get<NFS4_OK>()));
}

async::Task<Status> cross_root(CallLayer& calls, Crossings& crossings, security::Flavor& flavor,
                               async::TimePoint deadline, bool in_recovery) {
  auto offers = co_await offers_at_root(calls, deadline, in_recovery);
  if (!offers) co_return offers.error();
  crossings.refused_root();
  for (const security::Mark refused : crossings.roots_refused())
    std::erase_if(*offers, [&](Security one) { return security_name(one) == flavor.name_of(refused); });
  auto mark = co_await flavor.choose(*offers, nullptr, deadline);
  if (!mark) co_return mark.error();
  crossings.set_root(*mark);
  co_return Status();
}

namespace {

/// Lets a walk from the root begin with another flavour.
async::Task<Result<bool>> begin_otherwise(ClientLease& session) {
  auto crossed = co_await cross_root(session, session.crossings(), *session.options().flavor,
                                     session.default_deadline(), false);
  if (!crossed) co_return crossed.error();
  co_return true;
}

/// Lets the walk go on from where the spot's first `count` names lead to. The server wants another flavour for the last
/// of them than for its directory.
async::Task<Result<bool>> cross_at(ClientLease& session, Caller caller, Spot& spot, std::size_t count) {
  const auto at = spot.names.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  Spot before(spot.from, {spot.names.begin(), at});
  nfs_fh4 directory;
  if (before.is_handle()) {
    directory = *before.from;
  } else {
    auto found = co_await walk(session, caller, before);
    if (!found) co_return found.error();
    directory = *found;
  }
  auto found = co_await cross_to(session, caller, directory, *at);
  if (!found) co_return found.error();
  session.crossings().learn(spot, count, *found);
  spot.names.erase(spot.names.begin(), at + 1);
  spot.from = *found;
  co_return true;
}

}  // namespace

async::Soon<Result<bool>> cross(ClientLease& session, Caller caller, Spots spots,
                                const CompoundReply& reply) {
  const auto [spot, operation] = refused_in(spots, reply, session.version().has_sequence);
  const bool is_begun = spot == nullptr || (operation == 0 && spot->from);
  if (is_begun && reply.status() == NFS4ERR_WRONGSEC && are_apart(session, spots))
    return status_error(NFS4ERR_XDEV, "", "");
  if (spot == nullptr) return false;
  if (operation == 0 && spot->from) return session.crossings().lengthen(*spot);
  if (reply.status() != NFS4ERR_WRONGSEC) return false;
  if (operation == 0) return begin_otherwise(session);
  return cross_at(session, std::move(caller), *spot, operation);
}

void ask_about_target(Compound& compound, const Crossings::Names& target) {
  for (const std::string& name : target) compound.add<op::LOOKUP>({{name}});
  compound.add<op::GETFH>().add<op::SECINFO_NO_NAME>(SECINFO_STYLE4_CURRENT_FH);
}

void take_about_target(CompoundReply& reply, const Crossings::Names& target, Crossings& crossings) {
  const bool found = std::ranges::all_of(target, [&](const auto&) { return reply.take<op::LOOKUP>(); });
  GETFH4res handle;
  SECINFO_NO_NAME4res flavors;
  if (found && reply.take<op::GETFH>(handle) && reply.take<op::SECINFO_NO_NAME>(flavors))
    crossings.set_offer({handle.get<NFS4_OK>()->object, offers_of(*flavors.get<NFS4_OK>())});
}

async::Task<Status> negotiate(ClientLease& session, std::vector<std::string> target) {
  const std::shared_ptr<security::Flavor> flavor = session.options().flavor;
  const bool by_name = !session.version().asks_flavors_by_handle;
  session.crossings().set_target(session.crossings().root());
  if (!flavor->has_choice() || (by_name && target.empty())) co_return Status();
  Spot spot(std::nullopt, target);
  if (by_name) spot.names.pop_back();
  const std::array<Spot*, 1> spots{&spot};
  Door door{{}, by_name ? target.back() : ""};
  std::optional<Offers> offers;
  if (auto offer = session.crossings().take_offer()) {
    door.handle = offer->handle;
    offers = std::move(offer->flavors);
  }
  while (!offers) {
    auto compound = co_await compound_at(session, "SECINFO", nullptr, spots, [&](Compound& out) {
      out.add<op::GETFH>();
      if (by_name) out.add<op::SECINFO>({{door.name}});
      if (!by_name) out.add<op::SECINFO_NO_NAME>(SECINFO_STYLE4_CURRENT_FH);
    });
    if (!compound) co_return compound.error();
    auto reply = co_await session.call(std::move(*compound));
    if (!reply) co_return reply.error();
    GETFH4res found;
    SECINFO4res res;
    if (take_walks(*reply, spots) && reply->take<op::GETFH>(found)) {
      const bool told = by_name ? reply->take<op::SECINFO>(res) : reply->take<op::SECINFO_NO_NAME>(res);
      // Either the server does not have the operation, or the name leads nowhere. The first use of the
      // target will show it.
      if (!told) co_return Status();
      door.handle = found.get<NFS4_OK>()->object;
      offers = offers_of(*res.get<NFS4_OK>());
      continue;
    }
    auto crossed = co_await cross(session, nullptr, spots, *reply);
    if (!crossed) co_return crossed.error();
    if (!*crossed) co_return Status();
  }
  auto found = co_await enter(session, nullptr, door, std::move(*offers));
  if (!found) co_return found.error();
  session.crossings().set_target(found->mark);
  if (found->mark != door.handle.mark) session.crossings().learn(std::move(target), *found);
  co_return Status();
}

}  // namespace nfsrdma::nfs4
