// The test server's leases, grace period, restarts and revocations (RFC 8881 8.3, 8.4, 9.6).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

using namespace nfs4;

bool ServerState::is_expired(const ClientState& client) const {
  return client.at_work == 0 && now_() > client.renewed + std::chrono::seconds(lease);
}

/// What has run out: the grace period, the time for returning delegations, leases.
void ServerState::look_at_time() {
  if (grace_is_open_ && !in_grace()) end_grace();
  revoke_late();
  if (habits.expiry == Habits::Expiry::courtesy) return;
  std::vector<clientid4> late;
  for (const auto& [id, client] : clients) {
    if (is_expired(client)) late.push_back(id);
  }
  for (const clientid4 id : late) {
    expire(id, habits.expiry == Habits::Expiry::purge || !clients.at(id).confirmed);
  }
}

// ---- what a client loses ----

void ServerState::discard_client(clientid4 id) {
  const auto found = clients.find(id);
  if (found == clients.end()) return;
  std::set<std::uint64_t> unlocked;
  for (const auto& [number, one] : locks) {
    if (one.client == id && !one.pieces.empty()) unlocked.insert(one.inode);
  }
  const auto is_its = [&](const auto& entry) { return entry.second.client == id; };
  for (const auto& [number, one] : opens) {
    if (one.client == id) doomed_.insert(one.inode);
  }
  std::erase_if(sessions, is_its);
  std::erase_if(opens, is_its);
  std::erase_if(locks, is_its);
  lose_delegations(id);
  std::erase_if(copies, is_its);
  std::erase_if(waiting, [&](const LockOwnerState& one) { return one.client == id; });
  forget_sequences(id);
  if (found->second.confirmed) {
    recorded_.erase(found->second.owner);
    // It may not know, take a restart for what has happened, and ask for what it had.
    auto& before = opened_before_[found->second.owner];
    for (const auto& [inode, access] : found->second.opened) before[inode] |= access;
  }
  clients.erase(found);
  for (const std::uint64_t inode : unlocked) wake_waiters(inode);
}

void ServerState::revoke_all(clientid4 id, Revoked why) {
  std::set<std::uint64_t> unlocked;
  const auto revoke = [&](auto& states) {
    for (auto& [number, one] : states) {
      if (one.client != id || one.revoked != Revoked::no) continue;
      one.revoked = why;
      clients.at(id).has_revoked = true;
    }
  };
  for (auto& [number, one] : locks) {
    if (one.client != id || one.revoked != Revoked::no) continue;
    one.was_lost = !one.pieces.empty();
    one.loss = ++losses_;
    if (one.was_lost) unlocked.insert(one.inode);
    one.pieces.clear();
  }
  revoke(opens);
  revoke(locks);
  revoke(delegations);
  std::erase_if(waiting, [&](const LockOwnerState& one) { return one.client == id; });
  // 8.4.2.1: somebody else may have had it by the time of the next restart.
  recorded_.erase(clients.at(id).owner);
  for (const std::uint64_t inode : unlocked) wake_waiters(inode);
}

/// The client has freed something: perhaps it knows of all that it has lost.
void ServerState::note_freed(clientid4 id) {
  const auto is_lost = [&](const auto& entry) {
    return entry.second.client == id && entry.second.revoked != Revoked::no;
  };
  if (std::ranges::any_of(opens, is_lost) || std::ranges::any_of(locks, is_lost) ||
      std::ranges::any_of(delegations, is_lost)) {
    return;
  }
  ClientState& client = clients.at(id);
  client.has_revoked = false;
  if (client.reclaimed) recorded_.insert(client.owner);
}

void ServerState::revoke_delegation(std::uint64_t number, Revoked why) {
  DelegationState& one = delegations.at(number);
  one.revoked = why;
  const auto client = clients.find(one.client);
  if (client == clients.end()) return;
  client->second.has_revoked = true;
  lost_state.insert(client->second.owner);
}

void ServerState::revoke_lock(std::uint64_t number, Revoked why) {
  LockOwnerState& one = locks.at(number);
  one.revoked = why;
  one.was_lost = !one.pieces.empty();
  one.loss = ++losses_;
  one.pieces.clear();
  ClientState& client = clients.at(one.client);
  client.has_revoked = true;
  lost_state.insert(client.owner);
  wake_waiters(one.inode);
}

/// Somebody wants what a client has whose lease has run out.
void ServerState::end_courtesy(clientid4 client) {
  expire(client, habits.conflict_purges);
}

void ServerState::expire(clientid4 id, bool purges) {
  lost_state.insert(clients.at(id).owner);
  // Nobody of NFSv4.0 could free what is revoked.
  const bool v40 = clients.at(id).v40;
  const auto note_expired = [&](const auto& states) {
    for (const auto& [number, one] : states) {
      if (v40 && one.client == id) expired_.insert(number);
    }
  };
  note_expired(opens);
  note_expired(locks);
  if (purges || v40) {
    discard_client(id);
  } else {
    revoke_all(id, Revoked::expired);
  }
}

nfsstat4 ServerState::status_of_revoked(Revoked why, nfsstat4 otherwise) {
  switch (why) {
    case Revoked::expired:
      return NFS4ERR_EXPIRED;
    case Revoked::by_admin:
      return NFS4ERR_ADMIN_REVOKED;
    case Revoked::recallable:
      return NFS4ERR_DELEG_REVOKED;
    case Revoked::no:
      break;
  }
  return otherwise;
}

// ---- restarts ----

/// Ends what does not survive (Habits::survives) of clients and sessions. A request that was being executed has left no
/// trace, so that its slot expects it again.
void ServerState::outlive_restart() {
  using Survives = Habits::Survives;
  std::erase_if(clients, [&](const auto& one) {
    // A client in the middle of reclaiming could not tell this restart from the one before: the flag is the same.
    const bool reclaims = one.second.v40 || !one.second.confirmed || !one.second.reclaimed;
    return habits.survives == Survives::nothing || reclaims;
  });
  for (auto& [id, client] : clients) {
    client.reclaimed = client.has_revoked = false;
    client.survived = true;
    client.opened.clear();
    client.at_work = 0;
    client.renewed = now_();
  }
  std::erase_if(sessions, [&](const auto& one) {
    return habits.survives != Survives::sessions || !clients.contains(one.second.client);
  });
  for (auto& [id, session] : sessions) {
    for (Slot& slot : session.slots) {
      if (!slot.at_work) continue;
      slot.at_work = slot.cached = false;
      slot.used = --slot.sequence != 0;
    }
  }
}

/// What says that a stateid is of before a restart: RFC 8881 15.1.16.5 has STALE_STATEID for NFSv4.0 only, which shows only
/// where a session lives on.
nfsstat4 ServerState::status_of_old_boot() const {
  return habits.survives == Habits::Survives::nothing ? NFS4ERR_STALE_STATEID : NFS4ERR_BAD_STATEID;
}

void ServerState::restart(Instant::duration grace) {
  for (auto& [id, client] : clients) {
    if (!client.confirmed) continue;
    auto& before = opened_before_[client.owner];
    // Who had not finished with the restart before this one may still have that one's to reclaim.
    if (client.reclaimed || (client.v40 && !grace_is_open_)) before.clear();
    for (const auto& [inode, access] : client.opened) before[inode] |= access;
  }
  for (const auto& [number, one] : locks) {
    if (one.revoked == Revoked::by_admin && one.was_lost)
      taken_before_.emplace(clients.at(one.client).owner, one.inode);
  }
  // Who had not reclaimed yet when a grace period was cut short may still do so (8.4.2.1).
  if (!grace_is_open_) may_reclaim_.clear();
  may_reclaim_.insert(recorded_.begin(), recorded_.end());
  ++boot;
  for (const auto& [id, client] : clients) lose_delegations(id);
  outlive_restart();
  recent_.clear();
  sequences_.clear();
  closed_.clear();
  expired_.clear();
  for (const auto& [number, one] : opens) doomed_.insert(one.inode);
  opens.clear();
  std::erase_if(locks, [](const auto& entry) { return entry.second.client != 0; });
  waiting.clear();
  copies.clear();
  for (auto& [id, inode] : inodes) {
    if (inode.type == NF4REG) drop_unstable(inode);
  }
  grace_until = now_() + grace;
  grace_is_open_ = true;
  if (habits.grace_ends_early && may_reclaim_.empty()) grace_until = now_();
  if (!in_grace()) end_grace();
  bury();
}

void ServerState::end_grace() {
  grace_until = std::min(grace_until, now_());
  grace_is_open_ = false;
  // Who has not come back has nothing any more, after another restart either.
  // In NFSv4.0 nobody says that he is through: it shows in what he has.
  const auto is_through = [&](const ClientState& client) {
    if (!client.v40) return client.reclaimed;
    const auto before = opened_before_.find(client.owner);
    return before == opened_before_.end() || std::ranges::all_of(before->second, [&](const auto& had) {
             return client.opened.contains(had.first);
           });
  };
  for (const Octets& owner : may_reclaim_) {
    if (std::ranges::none_of(clients, [&](const auto& one) {
          return one.second.confirmed && is_through(one.second) && one.second.owner == owner;
        })) {
      recorded_.erase(owner);
      lost_state.insert(owner);
    }
  }
  may_reclaim_.clear();
  taken_before_.clear();
  for (const auto& [id, inode] : inodes) {
    if (inode.links == 0) doomed_.insert(id);
  }
}

/// Whether a client may reclaim what it had before the restart: stable storage knows who had state (8.4.2.1).
nfsstat4 ServerState::check_reclaim(const Execution& at) {
  const ClientState& client = clients.at(at.client);
  if (!in_grace() || (client.reclaimed && !client.v40)) {
    // What it had open before its locks it had again in time.
    if (client.v40) lost_state.insert(client.owner);
    return NFS4ERR_NO_GRACE;
  }
  if (!may_reclaim_.contains(client.owner)) return NFS4ERR_RECLAIM_BAD;
  return NFS4_OK;
}

/// The storage below fails: Linux says so by a new verifier and COMMITs that do not match.
void ServerState::fail_writeback() {
  ++verifier_;
  for (auto& [id, inode] : inodes) {
    if (inode.type == NF4REG) drop_unstable(inode);
  }
}

void ServerState::on_connection_lost(unsigned connection) {
  ended_.insert(connection);
  for (auto& [id, session] : sessions) {
    session.connections.erase(connection);
    session.backchannels.erase(connection);
    session.refused.erase(connection);
  }
  strangers_.erase(connection);
}

}  // namespace nfsrdma::testing
