// The test server's NFSv4.0 (RFC 7530): client ids without sessions, owners and their seqids, a memory of calls.
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;

/// What stands for COMPOUND among the procedures of NFSv3 in the memory of calls.
constexpr std::uint32_t kCompound = 1000;

/// RFC 7530 9.1.7: it has not been looked at whose it is.
bool advances(nfsstat4 status) {
  switch (status) {
    case NFS4ERR_STALE_CLIENTID:
    case NFS4ERR_STALE_STATEID:
    case NFS4ERR_BAD_STATEID:
    case NFS4ERR_BAD_SEQID:
    case NFS4ERR_BADXDR:
    case NFS4ERR_RESOURCE:
    case NFS4ERR_NOFILEHANDLE:
    case NFS4ERR_MOVED:
      return false;
    default:
      return true;
  }
}

verifier4 confirm_of(clientid4 id) {
  verifier4 out{};
  xdr::store_u64(out.data(), id ^ 0x5a5a5a5a5a5a5a5aU);
  return out;
}

}  // namespace

// ---- the memory of calls ----

/// True: there is nothing to execute.
bool ServerState::begin40(Execution& run, const SeenCall& seen) {
  // Linux remembers WRITE, too (nfsd4_ops, OP_CACHEME). Otherwise a WRITE that takes long would be executed behind the data
  // that the client wrote in its place after the retransmission had been answered.
  const bool remembered = std::ranges::any_of(seen.ops, [](nfs_opnum4 number) {
    const OperationRow* row = find_operation(number);
    return number == OP_WRITE || (row != nullptr && row->repeat == Repeat::modifies);
  });
  if (!remembered) return false;
  run.recent = Recent{seen.xid, kCompound, Octets(run.body.begin(), run.body.end()), {}};
  const auto known = std::ranges::find_if(recent_, [&](const Recent& one) { return one.same(*run.recent); });
  if (known == recent_.end()) {
    keep(*run.recent);
    return false;
  }
  if (!known->reply && habits.counts_twice) {
    known->twice = true;
    return false;
  }
  if (!known->reply) {
    run.stage = Execution::Stage::dropped;
    return true;
  }
  run.stage = Execution::Stage::answered;
  run.answer = std::make_unique<Answer>();
  run.answer->replayed = true;
  xdr::Encoder(run.answer->message).fixed(*known->reply);
  return true;
}

/// Linux looks at the seqid before it begins, so that both executions find it in order.
bool ServerState::is_executed_twice(const Execution& run) const {
  if (!run.recent) return false;
  const auto known = std::ranges::find_if(recent_, [&](const Recent& one) { return one.same(*run.recent); });
  return known != recent_.end() && known->twice;
}

void ServerState::end40(const Execution& run, bool good) {
  if (run.procedure || !run.recent) return;
  const auto known = std::ranges::find_if(recent_, [&](const Recent& one) { return one.same(*run.recent); });
  if (known == recent_.end()) return;
  if (good)
    known->reply = flattened(run.answer->message);
  else
    recent_.erase(known);
}

// ---- client ids ----

/// 16.33.5: what a client says of itself waits to be confirmed, unless it only calls from elsewhere.
nfsstat4 ServerState::run(Execution& at, op::SETCLIENTID, const SETCLIENTID4args& args,
                          SETCLIENTID4res& res) {
  last_setclientid = args;
  auto confirmed = clients.end(), unconfirmed = clients.end();
  for (auto one = clients.begin(); one != clients.end(); ++one) {
    if (one->second.owner == args.client.id.value) (one->second.confirmed ? confirmed : unconfirmed) = one;
  }
  if (confirmed != clients.end() && !(confirmed->second.principal == at.who)) {
    if (!is_expired(confirmed->second) && has_state(confirmed->first)) {
      res.emplace<NFS4ERR_CLID_INUSE>() = args.callback.cb_location;
      return NFS4ERR_CLID_INUSE;
    }
    discard_client(confirmed->first);
    confirmed = clients.end();
  }
  const bool known = confirmed != clients.end() && confirmed->second.verifier == args.client.verifier;
  clientid4 id = known ? confirmed->first : 0;
  if (!known) {
    if (unconfirmed != clients.end()) clients.erase(unconfirmed);
    id = (boot << 32) + next_id++;
    ClientState& made = clients[id];
    made.owner = args.client.id.value;
    made.verifier = args.client.verifier;
    made.principal = at.who;
    made.v40 = true;
  }
  clients.at(id).renewed = now_();
  res.emplace<NFS4_OK>() = {id, confirm_of(id)};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::SETCLIENTID_CONFIRM, const SETCLIENTID_CONFIRM4args& args,
                          SETCLIENTID_CONFIRM4res& res) {
  const auto found = clients.find(args.clientid);
  if (found == clients.end() || args.setclientid_confirm != confirm_of(args.clientid))
    return plain(res, NFS4ERR_STALE_CLIENTID);
  ClientState& client = found->second;
  if (!(client.principal == at.who)) return plain(res, NFS4ERR_CLID_INUSE);
  if (!client.confirmed) {
    const auto old = std::ranges::find_if(
        clients, [&](const auto& one) { return one.second.confirmed && one.second.owner == client.owner; });
    if (old != clients.end()) discard_client(old->first);  // an earlier instance of the client
    client.confirmed = true;
  }
  client.renewed = now_();
  at.client = args.clientid;
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::RENEW, const RENEW4args& args, RENEW4res& res) {
  return plain(res, name_client(at, args.clientid));
}

/// A request names its client itself.
nfsstat4 ServerState::name_client(Execution& at, clientid4 id) {
  if (id >> 32U != boot) return NFS4ERR_STALE_CLIENTID;
  const auto found = clients.find(id);
  if (found == clients.end() || !found->second.confirmed) return NFS4ERR_EXPIRED;
  at.client = id;
  found->second.renewed = now_();
  return NFS4_OK;
}

/// What is wrong with the state that it begins from comes before anything else, so that it is known whose request it is.
nfsstat4 ServerState::client_of_lock(Execution& at, const LOCK4args& args) {
  if (const auto* fresh = args.locker.get<true>()) {
    if (const auto bad = name_client(at, fresh->lock_owner.clientid); bad != NFS4_OK) return bad;
    if (boot_of(fresh->open_stateid) != boot) return NFS4ERR_STALE_STATEID;
    return opens.contains(number_of(fresh->open_stateid)) ? NFS4_OK : NFS4ERR_BAD_STATEID;
  }
  const stateid4& stateid = args.locker.get<false>()->lock_stateid;
  if (boot_of(stateid) != boot) return NFS4ERR_STALE_STATEID;
  const auto lock = locks.find(number_of(stateid));
  if (lock == locks.end()) return NFS4ERR_BAD_STATEID;
  at.client = lock->second.client;
  return NFS4_OK;
}

void ServerState::forget_sequences(clientid4 client) {
  std::erase_if(sequences_, [&](const auto& one) { return std::get<0>(one.first) == client; });
  std::erase_if(closed_, [&](const auto& one) { return std::get<0>(one.second) == client; });
}

// ---- owners ----

std::optional<OwnerKey> ServerState::open_owner_of(const stateid4& stateid) const {
  if (boot_of(stateid) != boot) return std::nullopt;
  const std::uint64_t number = number_of(stateid);
  if (const auto open = opens.find(number); open != opens.end())
    return OwnerKey{open->second.client, false, open->second.owner};
  // Known still, for a CLOSE that comes again.
  const auto closed = closed_.find(number);
  if (closed == closed_.end()) return std::nullopt;
  return closed->second;
}

namespace {

std::vector<CountedRequest> of_open(const std::optional<OwnerKey>& owner, seqid4 seqid) {
  if (!owner) return {};
  return {{*owner, seqid}};
}

}  // namespace

std::vector<CountedRequest> ServerState::counted(const OPEN4args& args) {
  const auto client = clients.find(args.owner.clientid);
  if (client == clients.end() || !client->second.confirmed) return {};
  return {{{args.owner.clientid, false, args.owner.owner.value}, args.seqid}};
}
std::vector<CountedRequest> ServerState::counted(const OPEN_CONFIRM4args& args) {
  return of_open(open_owner_of(args.open_stateid), args.seqid);
}
std::vector<CountedRequest> ServerState::counted(const CLOSE4args& args) {
  return of_open(open_owner_of(args.open_stateid), args.seqid);
}
std::vector<CountedRequest> ServerState::counted(const OPEN_DOWNGRADE4args& args) {
  return of_open(open_owner_of(args.open_stateid), args.seqid);
}
std::vector<CountedRequest> ServerState::counted(const LOCK4args& args) {
  if (const auto* known = args.locker.get<false>()) {
    const auto lock = locks.find(number_of(known->lock_stateid));
    if (boot_of(known->lock_stateid) != boot || lock == locks.end()) return {};
    return {{{lock->second.client, true, lock->second.owner}, known->lock_seqid}};
  }
  const open_to_lock_owner4& fresh = *args.locker.get<true>();
  std::vector<CountedRequest> out = of_open(open_owner_of(fresh.open_stateid), fresh.open_seqid);
  if (out.empty() || !clients.contains(fresh.lock_owner.clientid)) return {};
  out.push_back({{fresh.lock_owner.clientid, true, fresh.lock_owner.owner.value}, fresh.lock_seqid});
  return out;
}
std::vector<CountedRequest> ServerState::counted(const LOCKU4args& args) {
  const auto lock = locks.find(number_of(args.lock_stateid));
  if (boot_of(args.lock_stateid) != boot || lock == locks.end()) return {};
  return {{{lock->second.client, true, lock->second.owner}, args.seqid}};
}

/// The first LOCK of a lock owner is counted for the open owner and for the lock owner. It is a retransmission
/// if both seqids say so. As Linux does, the lock owner's seqid is looked at only if the open owner's fits.
const OwnerSequence* ServerState::check_sequence(const std::vector<CountedRequest>& requests, nfs_opnum4 op,
                                                 nfsstat4& status) {
  const OwnerSequence* last = nullptr;
  std::size_t next = 0, again = 0;
  for (const CountedRequest& request : requests) {
    const auto found = sequences_.find(request.owner);
    if (found == sequences_.end() || request.seqid == found->second.last + 1) {
      ++next;
    } else if (request.seqid == found->second.last && found->second.op == op) {
      ++again;
      last = &found->second;
    } else {
      if (request.seqid == found->second.last) problem("a seqid is used again for another operation");
      break;
    }
  }
  if (next == requests.size()) return nullptr;
  if (again == requests.size()) return last;
  // Linux would repeat the answer to the open owner's last request, whatever that was.
  if (next != 0 && again != 0) problem("a LOCK has the seqid of an earlier request of one of its owners");
  status = NFS4ERR_BAD_SEQID;
  return nullptr;
}

void ServerState::count(const std::vector<CountedRequest>& requests, const OwnerSequence& now) {
  if (!advances(now.status)) return;
  for (const CountedRequest& request : requests) {
    if (!clients.contains(std::get<0>(request.owner))) continue;
    OwnerSequence& one = sequences_[request.owner];
    const bool confirmed = one.confirmed;
    one = now;
    one.last = request.seqid;
    one.confirmed = confirmed || (now.op == OP_OPEN_CONFIRM && now.status == NFS4_OK);
  }
}

/// 16.18.5: of an owner that the server has not heard of. What it opened and did not confirm is dropped.
bool ServerState::needs_confirmation(const Execution& at, const OPEN4args& args) {
  const OwnerKey owner{at.client, false, args.owner.owner.value};
  if (at.minor != 0 || !habits.confirms_owners) return false;
  const auto known = sequences_.find(owner);
  if (known != sequences_.end() && known->second.confirmed) return false;
  if (args.claim.tag() == CLAIM_PREVIOUS) {
    sequences_[owner].confirmed = true;
    sequences_[owner].last = args.seqid - 1;
    return false;
  }
  std::erase_if(opens, [&](const auto& one) {
    const bool its = one.second.unconfirmed && one.second.client == at.client &&
                     one.second.owner == args.owner.owner.value;
    if (its) doomed_.insert(one.second.inode);
    return its;
  });
  return true;
}

nfsstat4 ServerState::run(Execution& at, op::OPEN_CONFIRM, const OPEN_CONFIRM4args& args,
                          OPEN_CONFIRM4res& res) {
  if (current(at) == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (boot_of(args.open_stateid) != boot) return plain(res, NFS4ERR_STALE_STATEID);
  const std::uint64_t number = number_of(args.open_stateid);
  const auto found = opens.find(number);
  if (found == opens.end()) return plain(res, NFS4ERR_BAD_STATEID);
  OpenState& open = found->second;
  const auto bad = check_known(args.open_stateid, open.seqid, open.client, open.inode, open.revoked, at);
  if (bad != NFS4_OK) return plain(res, bad);
  if (!open.unconfirmed) problem("OPEN_CONFIRM of what is confirmed");
  open.unconfirmed = false;
  open.seqid = seqid_behind(open.seqid);
  res.emplace<NFS4_OK>().open_stateid = stateid_of(number, open.seqid);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::RELEASE_LOCKOWNER, const RELEASE_LOCKOWNER4args& args,
                          RELEASE_LOCKOWNER4res& res) {
  if (const auto bad = name_client(at, args.lock_owner.clientid); bad != NFS4_OK) return plain(res, bad);
  const auto is_its = [&](const auto& one) {
    return one.second.client == at.client && one.second.owner == args.lock_owner.owner.value;
  };
  for (const auto& one : locks) {
    if (is_its(one) && !one.second.pieces.empty()) return plain(res, NFS4ERR_LOCKS_HELD);
  }
  std::erase_if(locks, is_its);
  sequences_.erase({at.client, true, args.lock_owner.owner.value});
  return plain(res, NFS4_OK);
}

}  // namespace nfsrdma::testing
