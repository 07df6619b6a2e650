// The test server's clients and sessions (RFC 8881 2.10, 18.34 to 18.37, 18.46, 18.50).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;

/// Below these a session could not carry anything (NFS4ERR_TOOSMALL, 18.36.3).
constexpr count4 kLeastMessage = 512, kLeastOperations = 2;

sessionid4 session_id(std::uint64_t boot, std::uint64_t number) {
  sessionid4 out{};
  xdr::store_u64(out.data(), boot);
  xdr::store_u64(out.data() + 8, number);
  return out;
}

}  // namespace

// ---- EXCHANGE_ID ----

/// The nine cases of 18.35.4.
nfsstat4 ServerState::run(Execution& at, op::EXCHANGE_ID, const EXCHANGE_ID4args& args,
                          EXCHANGE_ID4res& res) {
  last_exchange_id = args;
  const client_owner4& owner = args.eia_clientowner;
  const bool update = (args.eia_flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A) != 0;
  auto confirmed = clients.end(), unconfirmed = clients.end();
  for (auto one = clients.begin(); one != clients.end(); ++one) {
    if (one->second.owner == owner.co_ownerid.value) (one->second.confirmed ? confirmed : unconfirmed) = one;
  }
  const bool same_verifier = confirmed != clients.end() && confirmed->second.verifier == owner.co_verifier;
  const bool same_principal = confirmed != clients.end() && confirmed->second.principal == at.who;
  if (update) {
    if (confirmed == clients.end()) return plain(res, NFS4ERR_NOENT);
    if (!same_verifier) return plain(res, NFS4ERR_NOT_SAME);
    if (!same_principal) return plain(res, NFS4ERR_PERM);
  } else if (confirmed != clients.end() && !same_principal) {
    if (!is_expired(confirmed->second) && has_state(confirmed->first)) {
      return plain(res, NFS4ERR_CLID_INUSE);
    }
    discard_client(confirmed->first);
    confirmed = clients.end();
  }
  const bool known = confirmed != clients.end() && same_verifier;
  clientid4 id = known ? confirmed->first : 0;
  if (!known) {
    // A client that restarted keeps its old record until it confirms the new one.
    if (unconfirmed != clients.end()) clients.erase(unconfirmed);
    id = (boot << 32) + next_id++;
    ClientState& made = clients[id];
    made.owner = owner.co_ownerid.value;
    made.verifier = owner.co_verifier;
    made.principal = at.who;
    made.sequence = habits.first_create_sequence;
    made.renewed = now_();
  }
  const state_protect_ops4* const wanted = args.eia_state_protect.get<SP4_MACH_CRED>();
  if (wanted != nullptr && at.security < Security::krb5i) return plain(res, NFS4ERR_INVAL);
  EXCHANGE_ID4resok& ok = res.emplace<NFS4_OK>();
  if (wanted != nullptr && !habits.no_state_protection)
    ok.eir_state_protect.emplace<SP4_MACH_CRED>() = *wanted;
  ok.eir_clientid = id;
  ok.eir_sequenceid = known && habits.no_sequence_hint ? 0xdead : clients[id].sequence;
  ok.eir_flags = EXCHGID4_FLAG_USE_NON_PNFS | (known ? EXCHGID4_FLAG_CONFIRMED_R : 0);
  std::string name = "test server";
  const auto bytes = std::as_bytes(std::span(name));
  ok.eir_server_owner.so_major_id.value.assign(bytes.begin(), bytes.end());
  ok.eir_server_scope.value = ok.eir_server_owner.so_major_id.value;
  if (habits.another_owner) ok.eir_server_owner.so_major_id.value.push_back(static_cast<std::byte>(boot));
  nfs_impl_id4 implementation;
  implementation.nii_domain.value = "example.org";
  implementation.nii_name.value = "in memory";
  implementation.nii_date = {1234, 0};
  ok.eir_server_impl_id.value.push_back(implementation);
  return NFS4_OK;
}

// ---- CREATE_SESSION ----

/// 18.36.4: the sequence id and the answer of the one before are the client id's.
nfsstat4 ServerState::run(Execution& at, op::CREATE_SESSION, const CREATE_SESSION4args& args,
                          CREATE_SESSION4res& res) {
  last_create_session = args;
  const auto found = clients.find(args.csa_clientid);
  if (found == clients.end()) return plain(res, NFS4ERR_STALE_CLIENTID);
  ClientState& client = found->second;
  if (client.last_created && args.csa_sequence + 1 == client.sequence) {
    res = *client.last_created;
    return status_of(res);
  }
  using Failures = Habits::Failures;
  const bool remembers = habits.create_session_failures != Failures::forgotten;
  if (args.csa_sequence != client.sequence) {
    // Whether a DELAY has used its csa_sequence is not for the client to know.
    const bool knows = !habits.no_sequence_hint && !client.was_delayed;
    // A lower one may come late, from a connection that has ended.
    const bool ahead = static_cast<std::int32_t>(args.csa_sequence - client.sequence) > 0;
    if (remembers && knows && ahead) problem("csa_sequence out of order");
    return plain(res, NFS4ERR_SEQ_MISORDERED);
  }
  const nfsstat4 status = create_session(at, client, args, res);
  client.was_delayed = status == NFS4ERR_DELAY;
  const bool counts =
      status == NFS4_OK || (remembers && (status != NFS4ERR_DELAY ||
                                          habits.create_session_failures == Failures::remembered_with_delay));
  if (counts) {
    ++client.sequence;
    client.last_created = res;
  }
  return status;
}

nfsstat4 ServerState::create_session(Execution& at, ClientState& client, const CREATE_SESSION4args& args,
                                     CREATE_SESSION4res& res) {
  if (const auto forced = injected(OP_CREATE_SESSION)) return plain(res, *forced);
  if (const auto late = busy(OP_CREATE_SESSION)) return plain(res, *late);
  static constexpr std::array kFailures{NFS4ERR_SERVERFAULT, NFS4ERR_NOSPC};
  if (habits.failing_percent != 0) {
    auto failed = spell(OP_CREATE_SESSION, kFailures, true);
    // There is room for a client's first session: without, a mount and an unmount end.
    if (failed == NFS4ERR_NOSPC && !client.confirmed) failed = NFS4ERR_SERVERFAULT;
    if (failed) return plain(res, *failed);
  }
  if (!(client.principal == at.who)) return plain(res, NFS4ERR_CLID_INUSE);
  CREATE_SESSION4resok ok;
  ok.csr_fore_chan_attrs = args.csa_fore_chan_attrs;
  channel_attrs4& fore = ok.csr_fore_chan_attrs;
  if (fore.ca_maxrequests == 0) return plain(res, NFS4ERR_INVAL);
  fore.ca_headerpadsize = 0;
  fore.ca_maxrequestsize = std::min(fore.ca_maxrequestsize, max_request);
  fore.ca_maxresponsesize = std::min(fore.ca_maxresponsesize, max_response);
  fore.ca_maxresponsesize_cached =
      std::min({fore.ca_maxresponsesize_cached, fore.ca_maxresponsesize, habits.max_response_cached});
  fore.ca_maxoperations = std::min({fore.ca_maxoperations, max_operations, habits.most_operations});
  fore.ca_maxrequests = std::min({fore.ca_maxrequests, slots, habits.most_slots});
  if (std::min(args.csa_fore_chan_attrs.ca_maxrequestsize, args.csa_fore_chan_attrs.ca_maxresponsesize) <
          kLeastMessage ||
      args.csa_fore_chan_attrs.ca_maxoperations < kLeastOperations) {
    return plain(res, NFS4ERR_TOOSMALL);
  }
  if (habits.grants_more) {
    fore.ca_maxrequestsize *= 2;
    fore.ca_maxresponsesize *= 2;
    fore.ca_maxresponsesize_cached *= 2;
    fore.ca_maxoperations += 10;
    fore.ca_maxrequests += 5;
  }
  if (!client.confirmed) {
    const auto old = std::ranges::find_if(
        clients, [&](const auto& one) { return one.second.confirmed && one.second.owner == client.owner; });
    if (old != clients.end()) {
      if (old->second.at_work > 0) return plain(res, NFS4ERR_DELAY);
      discard_client(old->first);  // an earlier instance of the client
    }
    client.confirmed = true;
  }
  client.renewed = now_();
  ok.csr_sessionid = session_id(boot, next_id++);
  ok.csr_sequence = args.csa_sequence;
  ok.csr_back_chan_attrs = args.csa_back_chan_attrs;
  ++client.sessions;
  SessionState& session = sessions[ok.csr_sessionid];
  session.client = args.csa_clientid;
  session.slots.resize(fore.ca_maxrequests);
  session.granted = fore.ca_maxrequests;
  session.fore = fore;
  session.minor = at.minor;
  session.callback_program = args.csa_cb_program;
  session.connections.insert(at.connection);
  if (habits.calls_clients()) ok.csr_flags = args.csa_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  if (ok.csr_flags != 0) session.backchannels.insert(at.connection);
  res.emplace<NFS4_OK>() = ok;
  return NFS4_OK;
}

/// 18.37.3: not while it has requests under way, other than this one.
nfsstat4 ServerState::run(Execution& at, op::DESTROY_SESSION, const DESTROY_SESSION4args& args,
                          DESTROY_SESSION4res& res) {
  const auto found = sessions.find(args.dsa_sessionid);
  if (found == sessions.end()) return plain(res, status_of_ended(args.dsa_sessionid));
  // On one of its own connections only.
  if (!habits.associates_connections && !found->second.connections.contains(at.connection))
    return plain(res, NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  const bool own = at.in_session && at.session == args.dsa_sessionid;
  const auto busy = std::ranges::count_if(found->second.slots, &Slot::at_work) - (own ? 1 : 0);
  if (busy > 0) return plain(res, NFS4ERR_DELAY);
  sessions.erase(found);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::BIND_CONN_TO_SESSION, const BIND_CONN_TO_SESSION4args& args,
                          BIND_CONN_TO_SESSION4res& res) {
  const auto found = sessions.find(args.bctsa_sessid);
  if (found == sessions.end()) return plain(res, status_of_ended(args.bctsa_sessid));
  if (is_stranger(found->second, at.connection)) return plain(res, NFS4ERR_BADSESSION);
  const bool fore = args.bctsa_dir != CDFC4_BACK;
  const bool back = args.bctsa_dir != CDFC4_FORE && habits.calls_clients();
  if (!fore && !back) return plain(res, NFS4ERR_INVAL);
  if (fore) found->second.connections.insert(at.connection);
  if (back) found->second.backchannels.insert(at.connection);
  found->second.refused.erase(at.connection);
  auto& ok = res.emplace<NFS4_OK>();
  ok.bctsr_sessid = args.bctsa_sessid;
  ok.bctsr_dir = fore && back ? CDFS4_BOTH : fore ? CDFS4_FORE : CDFS4_BACK;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::BACKCHANNEL_CTL, const BACKCHANNEL_CTL4args& args,
                          BACKCHANNEL_CTL4res& res) {
  const auto found = sessions.find(at.session);
  if (found != sessions.end()) found->second.callback_program = args.bca_cb_program;
  return plain(res, NFS4_OK);
}

bool ServerState::has_state(clientid4 client) const {
  const auto is_its = [&](const auto& entry) {
    return entry.second.client == client && entry.second.revoked == Revoked::no;
  };
  return std::ranges::any_of(opens, is_its) || std::ranges::any_of(delegations, is_its) ||
         std::ranges::any_of(locks, is_its);
}

/// 18.50.3: not while there are sessions, open state or delegations.
nfsstat4 ServerState::run(Execution&, op::DESTROY_CLIENTID, const DESTROY_CLIENTID4args& args,
                          DESTROY_CLIENTID4res& res) {
  if (!clients.contains(args.dca_clientid)) return plain(res, NFS4ERR_STALE_CLIENTID);
  // Where a session was lost it may not know of them: the answer to an OPEN was lost with it.
  const bool knows = clients.at(args.dca_clientid).sessions == 1;
  // A client that ends does not have to ask for ever where its DELEGRETURNs were refused.
  if (knows && std::ranges::any_of(delegations, [&](const auto& entry) {
        const DelegationState& one = entry.second;
        return one.client == args.dca_clientid && one.revoked == Revoked::no && !one.return_refused &&
               !one.unanswered;
      })) {
    problem("delegations are out when their client goes");
  }
  const auto is_its = [&](const auto& entry) { return entry.second.client == args.dca_clientid; };
  if (std::ranges::any_of(sessions, is_its) || has_state(args.dca_clientid)) {
    return plain(res, NFS4ERR_CLIENTID_BUSY);
  }
  const Octets owner = clients.at(args.dca_clientid).owner;
  discard_client(args.dca_clientid);
  delegated_before.erase(owner);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::status_of_ended(const sessionid4& session) const {
  const bool of_this_boot = xdr::load_u64(session.data()) == boot;
  return habits.dead_sessions && of_this_boot ? NFS4ERR_DEADSESSION : NFS4ERR_BADSESSION;
}

/// Whether the connection leads to another server behind the same address. A client that has no other connection finds
/// its own server by it, as where a load balancer knows it again.
bool ServerState::is_stranger(const SessionState& session, unsigned connection) {
  if (habits.stranger_percent == 0 || session.connections.empty() || session.connections.contains(connection))
    return false;
  const auto [known, fresh] = strangers_.try_emplace(connection, false);
  if (fresh) known->second = chance.percent(habits.stranger_percent);
  return known->second;
}

// ---- SEQUENCE ----

/// 2.10.3.1: with SP4_NONE a server may associate a connection by itself.
nfsstat4 ServerState::check_connection(SessionState& session, const Execution& at) {
  if (session.connections.contains(at.connection)) return NFS4_OK;
  // It came while its connection was there, and is looked at when that has ended: as if it had been in time.
  if (ended_.contains(at.connection)) return NFS4_OK;
  if (habits.associates_connections) {
    session.connections.insert(at.connection);
    return NFS4_OK;
  }
  // Before the first of them is told so a request may come in each slot. Where BIND_CONN_TO_SESSION is refused for now there
  // is nothing better to do than to try.
  const bool binds = habits.failing_percent == 0 && habits.busy_percent == 0;
  if (++session.refused[at.connection] > session.slots.size() && binds) {
    problem("connection " + std::to_string(at.connection) + " is used, and is not bound");
  }
  return NFS4ERR_CONN_NOT_BOUND_TO_SESSION;
}

/// A sequence id that was used already (2.10.6.1.3).
nfsstat4 ServerState::check_retry(Execution& at, Slot& slot, const SEQUENCE4args& args) {
  const bool same = slot.digest == at.digest && slot.operations == at.count;
  // A SEQUENCE alone asks what became of a request that nobody waits for any more. It may even overtake that one.
  const bool asks = at.count == 1 || slot.operations == 1;
  if (!same && !asks) problem("a sequence id is used again for another request");
  if (slot.at_work) {
    if (habits.at_work == Habits::AtWork::delay) return NFS4ERR_DELAY;
    at.stage = Execution::Stage::parked;
    return NFS4_OK;
  }
  using FalseRetry = Habits::FalseRetry;
  const bool same_shape = slot.operations == at.count && slot.cachethis == args.sa_cachethis;
  if ((habits.false_retry == FalseRetry::exact && !same) ||
      (habits.false_retry == FalseRetry::by_shape && !same_shape)) {
    return NFS4ERR_SEQ_FALSE_RETRY;
  }
  if (!slot.cached) {
    // The client makes the request again, as it was, and does not know what the lost answer granted.
    delayed_.try_emplace({sessions.at(args.sa_sessionid).client, slot.digest}, slot.known_locks);
    const auto granted = delegations.find(slot.granted);
    if (granted != delegations.end()) granted->second.unanswered = true;
  }
  if (!slot.cached && (!habits.uncached_behind_sequence || at.count == 1)) return NFS4ERR_RETRY_UNCACHED_REP;
  at.replay = true;
  return NFS4_OK;
}

/// 2.10.6.1: what the client does not use any more is taken away.
void ServerState::retire_slots(SessionState& session, const SEQUENCE4args& args) {
  const auto all = static_cast<std::uint32_t>(session.slots.size());
  const std::uint32_t wanted = std::min(all, target_highest == ~0U ? all : target_highest + 1);
  if (wanted > session.granted) {
    // They begin anew, or go on: servers take both.
    for (std::uint32_t i = session.granted; i < wanted; ++i) session.slots[i].may_begin_anew = true;
    session.granted = wanted;
  }
  if (!habits.retires_slots || wanted == session.granted || args.sa_highest_slotid >= wanted) return;
  for (std::uint32_t i = wanted; i < session.granted; ++i) {
    if (session.slots[i].at_work) return;
  }
  session.granted = wanted;
}

std::uint32_t ServerState::status_flags(const Execution& at, const SessionState& session) const {
  std::uint32_t out = 0;
  if (habits.tells_path_down && session.backchannels.empty() && session.callback_program != 0 &&
      habits.calls_clients()) {
    out |= SEQ4_STATUS_CB_PATH_DOWN_SESSION;
    if (!has_backchannel(at.client)) out |= SEQ4_STATUS_CB_PATH_DOWN;
  }
  if (clients.at(at.client).survived) out |= SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
  out |= habits.stuck_flags;
  if (!clients.at(at.client).has_revoked) return out;
  bool expired = false, left = false;
  const auto look = [&](const auto& states) {
    for (const auto& [number, one] : states) {
      if (one.client != at.client) continue;
      if (one.revoked == Revoked::no) left = true;
      if (one.revoked == Revoked::expired) expired = true;
      if (one.revoked == Revoked::by_admin) out |= SEQ4_STATUS_ADMIN_STATE_REVOKED;
      if (one.revoked == Revoked::recallable) out |= SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
    }
  };
  look(opens);
  look(locks);
  look(delegations);
  if (expired) {
    out |= left ? SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED : SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED;
  }
  return out;
}

/// 18.46.3. What fails here leaves the slot as it was.
nfsstat4 ServerState::run(Execution& at, op::SEQUENCE, const SEQUENCE4args& args, SEQUENCE4res& res) {
  if (at.in_session) return plain(res, NFS4ERR_SEQUENCE_POS);
  const auto found = sessions.find(args.sa_sessionid);
  if (found == sessions.end()) return plain(res, status_of_ended(args.sa_sessionid));
  SessionState& session = found->second;
  if (is_stranger(session, at.connection)) return plain(res, NFS4ERR_BADSESSION);
  if (const auto bad = check_connection(session, at); bad != NFS4_OK) return plain(res, bad);
  if (args.sa_slotid >= session.granted) {
    if (args.sa_slotid >= session.slots.size()) problem("a slot that was not granted");
    return plain(res, NFS4ERR_BADSLOT);
  }
  if (args.sa_highest_slotid < args.sa_slotid) problem("sa_highest_slotid below sa_slotid");
  if (habits.checks_high_slot && args.sa_highest_slotid >= session.granted) {
    return plain(res, NFS4ERR_BAD_HIGH_SLOT);
  }
  Slot& slot = session.slots[args.sa_slotid];
  at.session = args.sa_sessionid;
  at.slot = args.sa_slotid;
  at.sequence = args.sa_sequenceid;
  const bool anew = slot.may_begin_anew && args.sa_sequenceid == 1;
  if (slot.used && !anew && args.sa_sequenceid == slot.sequence) {
    return plain(res, check_retry(at, slot, args));
  }
  if ((!anew && args.sa_sequenceid != slot.sequence + 1) || slot.at_work) {
    problem(slot.at_work ? "a slot is used while its request is under way" : "a sequence id out of order");
    return plain(res, NFS4ERR_SEQ_MISORDERED);
  }
  const channel_attrs4& fore = session.fore;
  if (at.request_size > fore.ca_maxrequestsize) {
    problem("a request over ca_maxrequestsize");
    return plain(res, NFS4ERR_REQ_TOO_BIG);
  }
  if (at.count > fore.ca_maxoperations) {
    problem("more than ca_maxoperations");
    return plain(res, NFS4ERR_TOO_MANY_OPS);
  }
  at.in_session = true;
  at.client = session.client;
  at.cachethis = args.sa_cachethis;
  at.largest = args.sa_cachethis ? fore.ca_maxresponsesize_cached : fore.ca_maxresponsesize;
  at.too_large = args.sa_cachethis ? NFS4ERR_REP_TOO_BIG_TO_CACHE : NFS4ERR_REP_TOO_BIG;
  ClientState& client = clients.at(session.client);
  client.renewed = now_();
  ++client.at_work;
  retire_slots(session, args);
  SEQUENCE4resok& ok = res.emplace<NFS4_OK>();
  ok = {args.sa_sessionid,
        args.sa_sequenceid,
        args.sa_slotid,
        session.granted - 1,
        std::min(static_cast<std::uint32_t>(session.slots.size() - 1), target_highest) +
            (habits.grants_more ? 7 : 0),
        status_flags(at, session)};
  if (flags_times > 0) {
    --flags_times;
    ok.sr_status_flags |= flags;
  }
  slot.sequence = args.sa_sequenceid;
  slot.used = slot.at_work = true;
  slot.cached = slot.may_begin_anew = false;
  slot.cachethis = args.sa_cachethis;
  slot.operations = at.count;
  slot.digest = at.digest;
  slot.answer = ok;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::RECLAIM_COMPLETE, const RECLAIM_COMPLETE4args& args,
                          RECLAIM_COMPLETE4res& res) {
  if (args.rca_one_fs) {
    return plain(res, current(at) != nullptr ? NFS4_OK : NFS4ERR_NOFILEHANDLE);
  }
  ClientState& client = clients.at(at.client);
  if (client.reclaimed) return plain(res, NFS4ERR_COMPLETE_ALREADY);
  client.reclaimed = true;
  client.survived = false;
  recorded_.insert(client.owner);
  may_reclaim_.erase(client.owner);
  delegated_before.erase(client.owner);
  if (habits.grace_ends_early && in_grace() && may_reclaim_.empty()) end_grace();
  return plain(res, NFS4_OK);
}

}  // namespace nfsrdma::testing
