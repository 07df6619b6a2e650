// The test server's read delegations (RFC 8881 10.2, 10.4, 18.6).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

using namespace nfs4;

bool ServerState::has_backchannel(clientid4 client) const {
  return std::ranges::any_of(sessions, [&](const auto& entry) {
    return entry.second.client == client && !entry.second.backchannels.empty();
  });
}

/// RFC 8881 10.4: one for a client and a file, where it can be recalled.
void ServerState::delegate(const Execution& at, const OPEN4args& args, const Inode& inode,
                           open_delegation4& out) {
  using Delegate = Habits::Delegate;
  const std::uint32_t want = args.share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK;
  const open_delegation_type4* before = args.claim.get<CLAIM_PREVIOUS>();
  const bool for_reading = (args.share_access & OPEN4_SHARE_ACCESS_WRITE) == 0;
  bool wanted =
      want == OPEN4_SHARE_ACCESS_WANT_READ_DELEG ||
      (want == OPEN4_SHARE_ACCESS_WANT_ANY_DELEG && for_reading) ||
      (want == OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE && for_reading && habits.delegates == Delegate::readers);
  if (before != nullptr) wanted = *before == OPEN_DELEGATE_READ && habits.reclaims_delegations;
  why_no_delegation4 why = WND4_RESOURCE;
  const bool mine = std::ranges::any_of(delegations, [&](const auto& entry) {
    return entry.second.client == at.client && entry.second.inode == inode.id;
  });
  const bool contended = std::ranges::any_of(delegations, [&](const auto& entry) {
    return entry.second.inode == inode.id && entry.second.recalled;
  });
  const bool written = std::ranges::any_of(opens, [&](const auto& entry) {
    const OpenState& one = entry.second;
    return one.inode == inode.id && one.revoked == Revoked::no &&
           (one.access & OPEN4_SHARE_ACCESS_WRITE) != 0;
  });
  if (contended || (written && !habits.delegates_to_writers)) {
    wanted = false;
    why = WND4_CONTENTION;
  }
  const bool chosen = before != nullptr || chance.percent(habits.delegation_percent);
  if (habits.delegates != Delegate::never && wanted && chosen && !mine && has_backchannel(at.client)) {
    const std::uint64_t number = next_id++;
    delegations[number] = {at.client, inode.id, Revoked::no, std::nullopt};
    out.emplace<OPEN_DELEGATE_READ>().stateid = stateid_of(number, 1);
    return;
  }
  // 18.16.3: only for a client that has shown that it knows of it.
  if (!habits.explains_no_delegation || want == OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE) return;
  auto& none = out.emplace<OPEN_DELEGATE_NONE_EXT>();
  none.select(want == OPEN4_SHARE_ACCESS_WANT_NO_DELEG ? WND4_NOT_WANTED : why);
}

nfsstat4 ServerState::delegation_status(const stateid4& stateid, const Execution& at) {
  if (boot_of(stateid) != boot) return NFS4ERR_STALE_STATEID;
  const auto found = delegations.find(number_of(stateid));
  if (found == delegations.end() || found->second.client != at.client) return NFS4ERR_BAD_STATEID;
  return status_of_revoked(found->second.revoked, NFS4_OK);
}

/// 10.4.1: a change by somebody else has to wait until the delegations are back, or revoked.
nfsstat4 ServerState::recall_others(const Execution& at, std::uint64_t inode) {
  if (!habits.recalls_on_conflict) return NFS4_OK;
  bool out = false;
  std::set<clientid4> late;
  for (auto& [number, one] : delegations) {
    if (one.inode != inode || one.client == at.client || one.revoked != Revoked::no) continue;
    if (is_expired(clients.at(one.client))) {
      late.insert(one.client);
      continue;
    }
    out = true;
    if (one.recalled) continue;
    one.recalled = now_();
    if (call_holder) call_holder(number);
  }
  for (const clientid4 client : late) end_courtesy(client);
  return out ? NFS4ERR_DELAY : NFS4_OK;
}

/// Who does not give back what was recalled loses it (10.4.6).
void ServerState::revoke_late() {
  for (auto& [number, one] : delegations) {
    if (one.revoked == Revoked::no && one.recalled && now_() > *one.recalled + std::chrono::seconds(lease)) {
      revoke_delegation(number, Revoked::recallable);
    }
  }
}

nfsstat4 ServerState::run(Execution& at, op::DELEGRETURN, const DELEGRETURN4args& args,
                          DELEGRETURN4res& res) {
  if (current(at) == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  const nfsstat4 status = delegation_status(args.deleg_stateid, at);
  if (status != NFS4_OK) return plain(res, status);
  const auto found = delegations.find(number_of(args.deleg_stateid));
  if (found->second.inode != at.current) {
    problem("a delegation is returned with another file's handle");
    return plain(res, NFS4ERR_BAD_STATEID);
  }
  delegations.erase(found);
  return plain(res, NFS4_OK);
}

}  // namespace nfsrdma::testing
