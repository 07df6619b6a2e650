// Handles the messages from the server (RFC 8166 4.2, 4.3, 4.5; RFC 8797 4.1).
//
// Every message uses up a Receive, whatever kind it is. A message that belongs to no RPC, or cannot be read,
// changes nothing else (4.5: MUST silently discard; a requester MUST NOT answer with RDMA_ERROR, 4.2.4). The
// RPC that it may have been meant for continues to wait until its own time-out. reply_check.h lists the
// faults that end an RPC instead. A message that is recognisably a Call of the server's is handled as
// backward.h describes.
#include <cerrno>

#include "rpcrdma/reply_check.h"
#include "rpcrdma/state.h"

namespace nfsrdma::rpcrdma {

void Requester::State::on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated,
                                   TimePoint now) {
  if (link != Link::up) return;
  heard_at = now;
  if (posted > 0) --posted;
  take_message(std::move(buffer), invalidated, now);
  if (link != Link::up) return;
  pump(now);
  if (link == Link::up) top_up_receives();
}

void Requester::State::take_message(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated,
                                    TimePoint now) {
  const Decoded header = decode(buffer.message(), incoming);
  Rpc* rpc = header.fault == HeaderFault::too_short ? nullptr : table.find_xid(incoming.rdma_xid);
  if (rpc != nullptr && !rpc->unanswered) rpc = nullptr;  // a duplicate, or not sent on this connection
  const MessageKind what =
      header.fault == HeaderFault::none
          ? kind_of(incoming, buffer.message().subspan(header.size), rpc ? &rpc->header : nullptr)
          : MessageKind::foreign;
  BackwardForm form = BackwardForm::none;
  if (what != MessageKind::reply && what != MessageKind::error) {
    form = backward_form(incoming, header, buffer.message());
    if (form != BackwardForm::none) rpc = nullptr;  // a backward Call, whatever its xid is: RFC 8167 2.4
  }
  if (invalidated && !take_invalidated(rpc, *invalidated)) return;
  if (rpc == nullptr || (what != MessageKind::reply && what != MessageKind::error)) {
    take_other(std::move(buffer), header.size, form);
    return;
  }
  const char* const fault = what == MessageKind::reply
                                ? reply_fault(rpc->header, incoming, buffer.message().size() - header.size)
                                : nullptr;
  answered(*rpc, now);
  ++arrivals;
  // The message of a Long Reply is checked in complete(), after its memory is out of the server's reach. If
  // the caller has gone, the memory has gone, too.
  const bool is_long = what == MessageKind::reply && incoming.proc == rdma_proc::RDMA_NOMSG;
  if (is_long) rpc->grant = {incoming.rdma_credit, arrivals};
  if (fault == nullptr && !is_long) take_grant({incoming.rdma_credit, arrivals});
  if (rpc->stage != Rpc::Stage::sent) {
    take_late_answer(*rpc, now);
    return;
  }
  if (what == MessageKind::error) {
    take_error(*rpc);
  } else if (fault != nullptr) {
    take_bad_reply(*rpc, fault);
  } else {
    take_reply(*rpc, std::move(buffer), header.size, now);
  }
  settle(*rpc, now);
}

/// Handles the answer to an RPC whose caller has gone (8.1.3). The late Reply returns the credit, and shows
/// that the server has finished with the handles.
void Requester::State::take_late_answer(Rpc& rpc, TimePoint now) {
  ++facts.discarded;
  overdue_abandoned = false;  // the next scan finds out whether there is another
  lower_wake(now);
  if (!rpc.abandoned.empty()) actions.push(Forget{std::exchange(rpc.abandoned, {})});
  remove_if_finished(rpc);
}

/// Handles an invalidated handle. RFC 8797 4.1: the handle MUST belong to the RPC that the message answers; a
/// Call of the server's answers none. Returns false, and closes the connection, if the peer invalidated any
/// other handle.
bool Requester::State::take_invalidated(Rpc* rpc, std::uint32_t handle) {
  if (rpc == nullptr || !rpc->offered(handle)) {
    close_link(
        error(ErrorKind::protocol, EPROTO,
              "the server invalidated a memory handle of another call; report it to the server's maker"));
    return false;
  }
  std::erase_if(rpc->exposed, [handle](const RemoteSegment& one) { return one.handle == handle; });
  // 8797 4.1 requires both sides' flags for remote invalidation. Linux's server sets no flag of its own, and
  // invalidates if the client's is set.
  if (!(config.announce && bears_invalidation))
    oddity("the server invalidates memory handles, although that was not negotiated");
  return true;
}

/// Called when the server has answered the RPC, successfully or not.
void Requester::State::answered(Rpc& rpc, TimePoint now) {
  give_credit_back(rpc);
  if (rpc.id == on_trial) on_trial = 0;
  rpc.call.losses = 0;
  heard(rpc, now);
}

void Requester::State::take_grant(Grant grant) {
  if (grant.arrival <= newest_grant) return;
  newest_grant = grant.arrival;
  std::uint32_t credits = grant.credits;
  if (credits == 0) {
    // 3.3.1: a grant of 0 MUST NOT be sent, because it would be a deadlock. Treat it as a grant of 1.
    if (!zero_grant_seen) {
      notice(Notice::Kind::protocol_oddity, peer + ": the server grants no credits; continuing with one");
    }
    zero_grant_seen = true;
    credits = 1;
  }
  facts.granted = credits;
  has_grant = true;
}

void Requester::State::heard(const Rpc& rpc, TimePoint now) {
  last_heard = now;
  if (!rpc.call.first) attempts = 0;
  silent_connections = 0;
  told_lost = told_reconnected = false;
  last_failure.reset();
  if (told_silent) notice(Notice::Kind::responding_again, peer + ": responding again");
  told_silent = false;
}

void Requester::State::take_error(Rpc& rpc) {
  if (incoming.err == rpc_rdma_errcode::ERR_VERS) {
    rpc.failure = Failure::err_vers;
    rpc.error = error(ErrorKind::protocol, EPROTONOSUPPORT,
                      "the server speaks RPC-over-RDMA versions " + std::to_string(incoming.rdma_vers_low) +
                          " to " + std::to_string(incoming.rdma_vers_high) +
                          ", and this client version 1; use another server");
    return;
  }
  rpc.failure = Failure::err_chunk;
  rpc.error = error(
      ErrorKind::protocol, EREMOTEIO,
      rpc.header.has_rdma_reply
          ? "the server could not use the memory chunks of this call (ERR_CHUNK): the reply may be "
            "larger than expected; try smaller requests"
          : "the server could not use the memory chunks of this call (ERR_CHUNK); try smaller requests");
}

void Requester::State::take_bad_reply(Rpc& rpc, const char* fault) {
  rpc.failure = Failure::bad_reply;
  rpc.error = error(
      ErrorKind::protocol, EPROTO,
      std::string("the server's reply breaks the protocol: ") + fault + "; report it to the server's maker");
}

void Requester::State::take_reply(Rpc& rpc, fabric::ReceiveBuffer buffer, std::size_t header_size,
                                  TimePoint now) {
  const bool is_long = incoming.proc == rdma_proc::RDMA_NOMSG;
  Reply& reply = rpc.reply.emplace();
  reply.trip = {rpc.sent_at - rpc.submitted_at, now - rpc.sent_at, rpc.sends};
  facts.bytes_received += buffer.message().size();
  reply.placements.reserve(rpc.call.results.size());
  for (std::size_t i = 0; i < rpc.call.results.size(); ++i) {
    const bool listed = i < rpc.header.rdma_writes.size();
    reply.placements.push_back(
        {rpc.call.results[i].destination, listed && !rpc.header.rdma_writes[i].empty(),
         listed ? static_cast<std::uint32_t>(chunk_length(incoming.rdma_writes[i])) : 0U});
    facts.bytes_placed += reply.placements.back().placed;
  }
  if (is_long) {
    reply.long_reply = std::move(rpc.long_reply);
    reply.message = {reply.long_reply.get(), static_cast<std::size_t>(chunk_length(incoming.rdma_reply))};
    ++facts.long_replies;
    facts.bytes_placed += reply.message.size();
  } else {
    reply.message = buffer.message().subspan(header_size);
    reply.buffer.emplace(std::move(buffer));  // moving the buffer does not move its storage
  }
  ++facts.replies;
}

}  // namespace nfsrdma::rpcrdma
