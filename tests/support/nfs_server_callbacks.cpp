// The test server's read delegations (RFC 8881 10.4), and its Calls to clients.
#include "support/nfs_server_callbacks.h"

#include <algorithm>

namespace nfsrdma::testing {

using namespace nfs4;

// ---- delegations ----

bool ServerState::has_backchannel(clientid4 client) const {
  return std::ranges::any_of(sessions, [&](const auto& entry) {
    return entry.second.client == client && !entry.second.backchannels.empty();
  });
}

/// RFC 8881 10.4: one for a client and a file, where it can be recalled.
void ServerState::delegate(const Context& at, const OPEN4args& args, const Inode& inode,
                           open_delegation4& out) {
  if (!delegate_reads) return;
  const open_delegation_type4* before = args.claim.get<CLAIM_PREVIOUS>();
  const bool wanted = before != nullptr ? *before == OPEN_DELEGATE_READ
                                        : (args.share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK) ==
                                              OPEN4_SHARE_ACCESS_WANT_READ_DELEG;
  if (!wanted || !has_backchannel(at.client)) return;
  for (const auto& [number, one] : delegations) {
    if (one.client == at.client && one.inode == inode.id) return;
  }
  const std::uint64_t number = next_id++;
  delegations[number] = {at.client, inode.id, false};
  out.emplace<OPEN_DELEGATE_READ>().stateid = stateid_of(number, 1);
}

nfsstat4 ServerState::delegation_status(const stateid4& stateid, clientid4 client) const {
  if (boot_of(stateid) != boot) return NFS4ERR_STALE_STATEID;
  const auto found = delegations.find(number_of(stateid));
  if (found == delegations.end() || found->second.client != client) return NFS4ERR_BAD_STATEID;
  return found->second.revoked ? NFS4ERR_DELEG_REVOKED : NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::DELEGRETURN, const DELEGRETURN4args& args, DELEGRETURN4res& res) {
  if (!inodes.contains(at.current)) return plain(res, NFS4ERR_NOFILEHANDLE);
  const nfsstat4 status = delegation_status(args.deleg_stateid, at.client);
  if (status != NFS4_OK) return plain(res, status);
  const auto found = delegations.find(number_of(args.deleg_stateid));
  if (found->second.inode != at.current) {
    problem("a delegation is returned with another file's handle");
    return plain(res, NFS4ERR_BAD_STATEID);
  }
  delegations.erase(found);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Context& at, op::TEST_STATEID, const TEST_STATEID4args& args,
                          TEST_STATEID4res& res) {
  auto& ok = res.emplace<NFS4_OK>();
  for (const stateid4& stateid : args.ts_stateids.value) {
    const auto open = opens.find(number_of(stateid));
    const bool is_open = boot_of(stateid) == boot && open != opens.end() && open->second.client == at.client;
    ok.tsr_status_codes.value.push_back(is_open ? NFS4_OK : delegation_status(stateid, at.client));
  }
  return NFS4_OK;
}

/// RFC 8881 18.38.3: only what is not in use any more.
nfsstat4 ServerState::run(Context& at, op::FREE_STATEID, const FREE_STATEID4args& args,
                          FREE_STATEID4res& res) {
  if (const auto lock = locks.find(number_of(args.fsa_stateid)); lock != locks.end()) {
    if (const auto bad = check_lock(args.fsa_stateid, at); bad != NFS4_OK) return plain(res, bad);
    if (!lock->second.pieces.empty()) return plain(res, NFS4ERR_LOCKS_HELD);
    locks.erase(lock);
    return plain(res, NFS4_OK);
  }
  const nfsstat4 status = delegation_status(args.fsa_stateid, at.client);
  if (status == NFS4_OK) return plain(res, NFS4ERR_LOCKS_HELD);
  if (status != NFS4ERR_DELEG_REVOKED) return plain(res, status);
  delegations.erase(number_of(args.fsa_stateid));
  return plain(res, NFS4_OK);
}

// ---- the server's Calls ----

CallbackQueue::Ticket CallbackQueue::add(clientid4 client, Build build, Done done) {
  auto one = std::make_unique<Pending>();
  one->ticket = ++last_;
  one->client = client;
  one->build = std::move(build);
  one->done = std::move(done);
  one->xid = next_xid_++;
  queue_.push_back(std::move(one));
  pump();
  return last_;
}

void CallbackQueue::drop(Ticket ticket) {
  std::erase_if(queue_, [&](const auto& one) { return one->ticket == ticket && one->sequence == 0; });
  for (const auto& one : queue_) {
    if (one->ticket == ticket) one->done = nullptr;
  }
}

void CallbackQueue::forget() {
  for (const auto& one : std::exchange(queue_, {})) {
    if (one->done) one->done(NFS4ERR_BADSESSION);
  }
}

void CallbackQueue::pump() {
  for (const auto& one : queue_) {
    if (one->connection == 0) send(*one);
  }
}

bool CallbackQueue::is_slot_in_use(const sessionid4& session, const Pending& by_other_than) const {
  return std::ranges::any_of(queue_, [&](const auto& one) {
    return one.get() != &by_other_than && one->sequence != 0 && one->session == session;
  });
}

void CallbackQueue::send(Pending& one) {
  for (auto& [id, session] : state_.sessions) {
    if (one.client != 0 && session.client != one.client) continue;
    if (is_slot_in_use(id, one)) continue;
    for (const unsigned connection : session.backchannels) {
      if (one.sequence == 0 || one.session != id) {
        one.session = id;
        one.sequence = ++session.callback_sequence;
      }
      test::CallbackCall call(id, session.minor);
      test::CallbackCall::Header header;
      header.program = session.callback_program;
      if (one.build) {
        // Kept by the client, so that a request that is repeated gets the same answer.
        call.with(header).sequence(one.sequence, 0, true);
        one.build(call);
      } else {
        header.procedure = CB_NULL;
        call.with(header);
      }
      if (!send_(connection, one.xid, call.bytes(one.xid))) continue;
      one.connection = connection;
      return;
    }
  }
}

void CallbackQueue::on_reply(unsigned connection, std::uint32_t xid, xdr::ConstBytes message) {
  const auto found = std::ranges::find_if(
      queue_, [&](const auto& one) { return one->xid == xid && one->connection == connection; });
  if (found == queue_.end()) {
    // Answered by then over another connection, or from before a restart.
    if (xid < kFirstXid || xid >= next_xid_) state_.problem("an answer to no Call of the server's");
    return;
  }
  const auto one = std::move(*found);
  queue_.erase(found);
  test::CallbackResults results(message);
  nfsstat4 status = one->build ? results.status() : NFS4_OK;
  if (results.rpc().refusal != rpc::Refusal::none) {
    state_.problem("a Call of the server's is refused by RPC");
    status = NFS4ERR_SERVERFAULT;
  } else if (status == NFS4_OK && one->build && results.take<cb_op::CB_SEQUENCE>() != NFS4_OK) {
    state_.problem("CB_COMPOUND is good, and CB_SEQUENCE in it is not");
  }
  if (one->done) one->done(status);
  pump();
}

void CallbackQueue::on_lost(unsigned connection) {
  for (auto& [id, session] : state_.sessions) session.backchannels.erase(connection);
  for (const auto& one : queue_) {
    if (one->connection == connection) one->connection = 0;
  }
  pump();
}

}  // namespace nfsrdma::testing
