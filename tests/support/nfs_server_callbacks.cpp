// The test server's Calls to clients (RFC 8881 20).
#include "support/nfs_server_callbacks.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::testing {

using namespace nfs4;

CallbackQueue::Ticket CallbackQueue::add(clientid4 client, Build build, Read read, Done done) {
  auto one = std::make_unique<Pending>();
  one->ticket = ++last_;
  one->client = client;
  one->build = std::move(build);
  one->read = std::move(read);
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
    // Nobody would know whether its slot in the backchannel has been used.
    if (one->sequence != 0) state_.sessions.erase(one->session);
    if (one->done) one->done(NFS4ERR_BADSESSION);
  }
}

void CallbackQueue::pump() {
  // Nobody is left to be called.
  std::vector<Done> ended;
  std::erase_if(queue_, [&](const auto& one) {
    const bool gone = one->client != 0 && !state_.clients.contains(one->client);
    if (gone && one->done) ended.push_back(std::move(one->done));
    return gone;
  });
  for (const Done& done : ended) done(NFS4ERR_BADSESSION);
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
      // CB_NULL has no CB_SEQUENCE, and so uses no sequence id of the slot.
      if (one.build && (one.sequence == 0 || one.session != id)) {
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
  } else if (status == NFS4_OK && one->read) {
    one->read(results);
  }
  if (one->done) one->done(status);
  pump();
}

void CallbackQueue::on_lost(unsigned connection) {
  for (const auto& one : queue_) {
    if (one->connection == connection) one->connection = 0;
  }
  pump();
}

}  // namespace nfsrdma::testing
