// The test server's delegations (RFC 8881 10.2, 10.4, 18.6).
#include <algorithm>
#include <utility>

#include "support/nfs_server_state.h"
#include "wire/nfs4/attributes.h"

namespace nfsrdma::testing {

using namespace nfs4;

namespace {

/// An open or a delegation of this file, which another client has.
template <class State>
bool is_others(const State& one, clientid4 client, std::uint64_t inode) {
  return one.inode == inode && one.client != client && one.revoked == Revoked::no;
}

}  // namespace

bool ServerState::has_backchannel(clientid4 client) const {
  return std::ranges::any_of(sessions, [&](const auto& entry) {
    return entry.second.client == client && !entry.second.backchannels.empty();
  });
}

void ServerState::lose_delegations(clientid4 id) {
  const auto is_its = [&](const auto& entry) { return entry.second.client == id; };
  for (const auto& [number, one] : delegations) {
    if (one.client == id && one.writes) delegated_before[clients.at(id).owner].insert(one.inode);
  }
  std::erase_if(delegations, is_its);
}

/// RFC 8881 10.4: one for a client and a file, where it can be recalled.
void ServerState::delegate(Execution& at, const OPEN4args& args, const Inode& inode, open_delegation4& out) {
  using Delegate = Habits::Delegate;
  const std::uint32_t want = args.share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK;
  const open_delegation_type4* before = args.claim.get<CLAIM_PREVIOUS>();
  const bool for_reading = (args.share_access & OPEN4_SHARE_ACCESS_WRITE) == 0;
  const bool reads = (args.share_access & OPEN4_SHARE_ACCESS_READ) != 0;
  bool wanted =
      want == OPEN4_SHARE_ACCESS_WANT_READ_DELEG ||
      (want == OPEN4_SHARE_ACCESS_WANT_ANY_DELEG && for_reading) ||
      (want == OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE && for_reading && habits.delegates == Delegate::readers);
  bool writes = false;
  const bool always = habits.always_delegates_writing;
  if (before != nullptr) {
    writes = *before == OPEN_DELEGATE_WRITE;
    wanted = *before != OPEN_DELEGATE_NONE && habits.reclaims_delegations;
  } else if ((habits.delegates_writing || always) && !for_reading &&
             (!habits.delegates_writing_with_reading || reads)) {
    writes = want == OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG || want == OPEN4_SHARE_ACCESS_WANT_ANY_DELEG ||
             (want == OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE && habits.delegates == Delegate::readers);
    wanted = wanted || writes;
  }
  const bool unasked = habits.delegates_unasked && before == nullptr;
  if (unasked && for_reading) wanted = true;
  if (unasked && !for_reading && habits.delegates_writing) wanted = writes = true;
  why_no_delegation4 why = WND4_RESOURCE;
  const auto mine = std::ranges::find_if(delegations, [&](const auto& entry) {
    return entry.second.client == at.client && entry.second.inode == inode.id;
  });
  const bool had = mine != delegations.end();
  const bool contended = std::ranges::any_of(delegations, [&](const auto& entry) {
    return entry.second.inode == inode.id && entry.second.recalled;
  });
  const bool written = std::ranges::any_of(opens, [&](const auto& entry) {
    const OpenState& one = entry.second;
    return one.inode == inode.id && one.revoked == Revoked::no &&
           (one.access & OPEN4_SHARE_ACCESS_WRITE) != 0;
  });
  const auto counts = [&](const auto& entry) { return is_others(entry.second, at.client, inode.id); };
  const bool shared = std::ranges::any_of(opens, counts) || std::ranges::any_of(delegations, counts);
  if (contended || (writes ? shared : written && !habits.delegates_to_writers)) {
    wanted = false;
    why = WND4_CONTENTION;
  }
  const bool chosen = before != nullptr || (writes && always) || chance.percent(habits.delegation_percent);
  const bool again = had && habits.tells_delegations_again && wanted && mine->second.revoked == Revoked::no &&
                     !mine->second.recalled && mine->second.writes == writes;
  const bool in_order = had && mine->second.revoked == Revoked::no && !mine->second.recalled;
  const bool upgrade = in_order && habits.upgrades_delegations && wanted && writes && !mine->second.writes;
  // Not one for writing: data behind close(2) is written with its stateid, and is discarded where that is gone (10.4.2).
  const bool replaces = in_order && habits.replaces_delegations && !mine->second.writes;
  const bool another = !had || (habits.delegates_twice && !mine->second.recalled) || replaces;
  const bool grants = wanted && chosen && another;
  const bool may_grant = has_backchannel(at.client) || unasked;
  if ((habits.delegates != Delegate::never || (writes && always)) && (grants || again || upgrade) &&
      may_grant) {
    const bool known = again || upgrade;
    const std::uint64_t number = known ? mine->first : next_id++;
    if (!known) {
      if (replaces) delegations.erase(mine);
      delegations[number] = {at.client,    inode.id, Revoked::no,
                             std::nullopt, writes,   change_told(inode, inode.change),
                             {},           false,    1};
    }
    DelegationState& one = delegations.at(number);
    one.unanswered = false;
    at.granted = number;
    if (upgrade) {
      one.writes = true;
      one.granted = change_told(inode, inode.change);
      one.seqid = seqid_behind(one.seqid);
    }
    if (writes) {
      auto& granted = out.emplace<OPEN_DELEGATE_WRITE>();
      granted.stateid = stateid_of(number, one.seqid);
      granted.space_limit =
          nfs_space_limit4::of<NFS_LIMIT_SIZE>(std::uint64_t{chance.coin() ? ~0ULL : 65536U});
      if (habits.room == Habits::Room::none) granted.space_limit = nfs_space_limit4::of<NFS_LIMIT_SIZE>(0U);
      if (habits.room == Habits::Room::blocks)
        granted.space_limit = nfs_space_limit4::of<NFS_LIMIT_BLOCKS>(nfs_modified_limit4{4, 4096});
    } else {
      out.emplace<OPEN_DELEGATE_READ>().stateid = stateid_of(number, one.seqid);
    }
    return;
  }
  // 18.16.3: only for a client that has shown that it knows of it.
  if (!habits.explains_no_delegation || want == OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE) return;
  auto& none = out.emplace<OPEN_DELEGATE_NONE_EXT>();
  none.select(want == OPEN4_SHARE_ACCESS_WANT_NO_DELEG ? WND4_NOT_WANTED : why);
}

std::optional<std::uint64_t> ServerState::write_delegation(const std::string& path) {
  const Inode* inode = find(path);
  if (inode == nullptr) return std::nullopt;
  const auto found = std::ranges::find_if(delegations, [&](const auto& entry) {
    return entry.second.inode == inode->id && entry.second.writes && entry.second.revoked == Revoked::no;
  });
  return found != delegations.end() ? std::optional(found->first) : std::nullopt;
}

nfsstat4 ServerState::delegation_status(const stateid4& stateid, const Execution& at) {
  if (boot_of(stateid) != boot) return status_of_old_boot();
  const auto found = delegations.find(number_of(stateid));
  if (found == delegations.end() || found->second.client != at.client) return NFS4ERR_BAD_STATEID;
  const DelegationState& one = found->second;
  if (one.revoked != Revoked::no) return status_of_revoked(one.revoked, NFS4_OK);
  if (stateid.seqid == 0 || stateid.seqid == one.seqid) return NFS4_OK;
  return is_older_seqid(stateid.seqid, one.seqid) ? NFS4ERR_OLD_STATEID : NFS4ERR_BAD_STATEID;
}

/// 10.4.1: a change by somebody else has to wait until the delegations are back, or revoked.
nfsstat4 ServerState::recall_others(const Execution& at, std::uint64_t inode, bool writers_only) {
  if (!habits.recalls_on_conflict) return NFS4_OK;
  bool out = false;
  std::set<clientid4> late;
  for (auto& [number, one] : delegations) {
    if (!is_others(one, at.client, inode) || (writers_only && !one.writes)) continue;
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

/// 10.4.3: what others are told of a file that somebody may have changed without a word.
nfsstat4 ServerState::ask_others(const Execution& at, const Inode& inode) {
  if (!habits.recalls_on_conflict) return NFS4_OK;
  for (auto& [number, one] : delegations) {
    if (!is_others(one, at.client, inode.id) || !one.writes) continue;
    const bool asks =
        habits.asks_writers && ask_holder && !one.recalled && !is_expired(clients.at(one.client));
    if (!asks) return recall_others(at, inode.id, true);
    if (std::exchange(one.told, false)) return NFS4_OK;
    if (!one.asked) {
      one.asked = inode.change;
      ask_holder(number);
    }
    return NFS4ERR_DELAY;
  }
  return NFS4_OK;
}

bool ServerState::hear_of(std::uint64_t delegation, const std::optional<fattr4>& told) {
  const auto found = delegations.find(delegation);
  if (found == delegations.end() || found->second.revoked != Revoked::no) return true;
  DelegationState& one = found->second;
  const auto as_of = std::exchange(one.asked, std::nullopt);
  if (!told) return false;
  WireAttributes got;
  if (!decode_attributes(*told, got) || !got.change || !got.size) {
    problem("CB_GETATTR: what was asked for is not told");
    return false;
  }
  const Inode& inode = inodes.at(one.inode);
  // This client says so only of what the server has.
  // CB_GETATTR names the file only: where the client was granted two delegations on it, it may speak of either.
  const bool granted = std::ranges::any_of(delegations, [&](const auto& entry) {
    const DelegationState& other = entry.second;
    return other.client == one.client && other.inode == one.inode && other.granted == *got.change;
  });
  if (!granted) problem("CB_GETATTR: not the change attribute of the grant");
  // Who does not know yet that data of his was lost speaks of the file with that data, which he writes again.
  const bool knows_no_loss =
      inode.loss && inode.loss->change == inode.change && *got.size == inode.loss->size_before;
  if (as_of == inode.change && *got.size != inode.content.size() && !knows_no_loss)
    problem("CB_GETATTR: another size than here");
  one.told = true;
  return true;
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
  if (const auto client = clients.find(at.client); client != clients.end())
    delegated_before[client->second.owner].erase(at.current);
  const nfsstat4 status = delegation_status(args.deleg_stateid, at);
  if (status != NFS4_OK) return plain(res, status);
  const auto found = delegations.find(number_of(args.deleg_stateid));
  if (found->second.inode != at.current) {
    problem("a delegation is returned with another file's handle");
    return plain(res, NFS4ERR_BAD_STATEID);
  }
  const bool writes = found->second.writes;
  delegations.erase(found);
  if (writes && on_returned) on_returned();
  return plain(res, NFS4_OK);
}

}  // namespace nfsrdma::testing
