// The requester as responder; backward.h describes the rules.
#include "rpcrdma/backward.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "rpcrdma/marshal.h"
#include "rpcrdma/state.h"

namespace nfsrdma::rpcrdma {
namespace {

// RFC 5531 9
constexpr std::uint32_t kCall = 0;
constexpr std::uint32_t kReply = 1;
constexpr std::uint32_t kRpcVersion = 2;

std::uint32_t word(ConstBytes bytes, std::size_t index) {
  return xdr::load_u32(&bytes[index * kWord]);
}

/// Returns whether a Call follows a transport header whose end is unknown.
bool call_behind(ConstBytes message, std::uint32_t xid) {
  for (std::size_t at = kMinHeader; at + 3 * kWord <= message.size(); at += kWord) {
    const ConstBytes rest = message.subspan(at);
    if (word(rest, 0) != xid) continue;
    if (word(rest, 1) == kReply) return false;
    if (word(rest, 1) == kCall && word(rest, 2) == kRpcVersion) return true;
  }
  return false;
}

BackwardForm form_of_msg(const rdma_msg& header, ConstBytes payload) {
  if (payload.size() < 2 * kWord || word(payload, 1) != kCall) return BackwardForm::none;
  if (word(payload, 0) != header.rdma_xid) {
    const bool recognisable = payload.size() >= 3 * kWord && word(payload, 2) == kRpcVersion;
    return recognisable ? BackwardForm::bad_header : BackwardForm::none;
  }
  const bool chunks = !header.rdma_reads.empty() || !header.rdma_writes.empty() || header.has_rdma_reply;
  return chunks ? BackwardForm::chunks : BackwardForm::plain;
}

}  // namespace

BackwardForm backward_form(const rdma_msg& header, const Decoded& decoded, ConstBytes message) {
  if (decoded.fault == HeaderFault::too_short || header.proc == rdma_proc::RDMA_ERROR) {
    return BackwardForm::none;
  }
  if (decoded.fault != HeaderFault::none || header.proc == rdma_proc::RDMA_MSGP) {
    if (!call_behind(message, header.rdma_xid)) return BackwardForm::none;
    return decoded.fault == HeaderFault::bad_version ? BackwardForm::bad_version : BackwardForm::bad_header;
  }
  if (header.proc == rdma_proc::RDMA_MSG) return form_of_msg(header, message.subspan(decoded.size));
  const bool long_call = header.proc == rdma_proc::RDMA_NOMSG && !header.rdma_reads.empty();
  return long_call ? BackwardForm::chunks : BackwardForm::none;
}

// ---- the table ----

BackwardId BackwardTable::add_call(std::uint32_t xid) {
  calls_.push_back({++last_id_, xid});
  return last_id_;
}

std::optional<std::uint32_t> BackwardTable::take_call(BackwardId id) {
  const auto found = std::ranges::find(calls_, id, &Call::id);
  if (found == calls_.end()) return std::nullopt;
  const std::uint32_t xid = found->xid;
  calls_.erase(found);
  return xid;
}

BackwardTable::Answer& BackwardTable::add_answer(BackwardId id) {
  std::unique_ptr<Answer> answer;
  if (free_.empty()) {
    answer = std::make_unique<Answer>();
  } else {
    answer = std::move(free_.back());
    free_.pop_back();
  }
  answer->id = id != 0 ? id : ++last_id_;
  answer->bytes.clear();
  return *answers_.emplace_back(std::move(answer));
}

void BackwardTable::remove_answer(BackwardId id) {
  const auto found = std::ranges::find(answers_, id, &Answer::id);
  if (found == answers_.end()) return;
  free_.push_back(std::move(*found));
  answers_.erase(found);
}

void BackwardTable::clear() {
  calls_.clear();
  for (std::unique_ptr<Answer>& one : answers_) free_.push_back(std::move(one));
  answers_.clear();
}

// ---- the requester's reaction ----

/// Handles every message that is not an answer to an RPC in flight.
void Requester::State::take_other(fabric::ReceiveBuffer buffer, std::size_t header_size, BackwardForm form) {
  switch (config.backward_credits == 0 ? BackwardForm::none : form) {
    case BackwardForm::none:
      ++facts.discarded;
      return;
    case BackwardForm::plain:
      deliver(std::move(buffer), header_size);
      return;
    case BackwardForm::chunks:  // RFC 8167 5.3
      oddity("the server sends callbacks with memory chunks, which are not supported; refused");
      refuse(incoming.rdma_xid, rpc_rdma_errcode::ERR_CHUNK);
      return;
    case BackwardForm::bad_header:  // RFC 8166 4.5.2
      oddity("the server sends callbacks with a malformed transport header; refused");
      refuse(incoming.rdma_xid, rpc_rdma_errcode::ERR_CHUNK);
      return;
    case BackwardForm::bad_version:  // RFC 8166 4.5.1
      oddity("the server sends callbacks of another version of RPC-over-RDMA; refused");
      refuse(incoming.rdma_xid, rpc_rdma_errcode::ERR_VERS);
      return;
  }
}

void Requester::State::deliver(fabric::ReceiveBuffer buffer, std::size_t header_size) {
  if (!backward.accepts_call()) return end_unanswered("the server sends more callbacks than it was granted");
  ++facts.backward_calls;
  const ConstBytes message = buffer.message().subspan(header_size);
  actions.push(Deliver{backward.add_call(incoming.rdma_xid), message, std::move(buffer)});
}

/// Answers a Call by RDMA_ERROR with the Call's xid and version (RFC 8166 4.5).
void Requester::State::refuse(std::uint32_t xid, rpc_rdma_errcode err, BackwardId id) {
  if (!backward.accepts_answer())
    return end_unanswered("the server sends callbacks, but does not receive the replies");
  rdma_msg header;
  header.rdma_xid = xid;
  header.rdma_vers = err == rpc_rdma_errcode::ERR_VERS ? incoming.rdma_vers : kRpcRdmaVersion;
  header.rdma_credit = config.backward_credits;
  header.proc = rdma_proc::RDMA_ERROR;
  header.err = err;
  header.rdma_vers_low = header.rdma_vers_high = kRpcRdmaVersion;
  BackwardTable::Answer& answer = backward.add_answer(id);
  encode(header, answer.bytes);
  // By its XDR (4.1.2) ERR_CHUNK has 20 bytes, but a receiver MUST discard a message of under 28 (4.5).
  // Padded to 28 bytes, it can be read under both rules.
  const std::size_t missing = kMinHeader - std::min(answer.bytes.size(), kMinHeader);
  if (missing != 0) std::memset(answer.bytes.extend(missing), 0, missing);
  ++facts.backward_refused;
  actions.push(SendAnswer{answer.id, answer.bytes.bytes()});
}

void Requester::State::answer(BackwardId id, const xdr::Message& reply) {
  assert(reply.stream.size() >= 2 * kWord && word(reply.stream.bytes(), 1) == kReply);
  const std::optional<std::uint32_t> xid = backward.take_call(id);
  if (!xid || link != Link::up) {
    ++facts.discarded;  // its connection is gone, or it has been answered
    return;
  }
  // RFC 8167 4.2, 5.3: a message that we send is bounded by the call threshold in both directions, and a
  // larger one may cost the connection. Without chunks this Reply cannot be sent in another way. ERR_CHUNK
  // tells the server that no Reply is possible for this xid (8166 4.5.3), and so ends the server's RPC at
  // once.
  const std::size_t size = reply.unreduced_size();
  if (size > facts.call_threshold - kMinHeader) {
    oddity("a reply of " + std::to_string(size) + " bytes to a callback is over the limit of " +
           std::to_string(facts.call_threshold - kMinHeader) + "; the callback is refused");
    refuse(*xid, rpc_rdma_errcode::ERR_CHUNK, id);
    return;
  }
  rdma_msg header;
  header.rdma_xid = *xid;
  header.rdma_credit = config.backward_credits;  // the grant, RFC 8167 5.2
  BackwardTable::Answer& answer = backward.add_answer(id);
  encode(header, answer.bytes);
  std::byte* const payload = answer.bytes.extend(size);
  write_whole(reply, payload);
  xdr::store_u32(payload, *xid);
  ++facts.backward_replies;
  actions.push(SendAnswer{id, answer.bytes.bytes()});
}

void Requester::State::decline(BackwardId id) {
  const std::optional<std::uint32_t> xid = backward.take_call(id);
  if (xid && link == Link::up) refuse(*xid, rpc_rdma_errcode::ERR_CHUNK, id);
}

void Requester::State::end_unanswered(const char* why) {
  ++facts.discarded;
  close_link(error(ErrorKind::protocol, EPROTO, std::string(why) + "; report it to the server's maker"));
}

}  // namespace nfsrdma::rpcrdma
