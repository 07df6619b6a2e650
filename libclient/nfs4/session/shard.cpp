#include "nfs4/session/shard.h"

#include <algorithm>
#include <utility>

#include "async/backoff.h"
#include "nfs4/compound/pacing.h"
#include "nfs4/session/session.h"
#include "nfs4/state/file_state.h"

namespace nfsrdma::nfs4 {
namespace {

async::TimePoint deadline_of(Session& session) {
  const async::TimePoint now = session.loop().now();
  return now + engine::Shard::patience(session.default_deadline() - now);
}

stateid4 stateid_for_read(const FileState& file, std::uint64_t offset, std::size_t size) {
  return RangeStateid(file.state(), {offset, size}, RangeStateid::Use::read).now();
}

}  // namespace

// ---- on the Session's loop ----

PreparedRead::PreparedRead(Session& session, FastReadFile& file, std::size_t size, std::uint64_t from)
    : offset(from),
      stateid(stateid_for_read(file.file_state(), from, size)),
      deadline(deadline_of(session)),
      epoch(session.epoch()),
      session_(session),
      file_(file),
      in_use_(file.file_state().use()),
      as_of_(file.as_of()),
      sent_(session.lease_at_turn()) {}

std::optional<std::size_t> PreparedRead::finish() {
  if (!answer) return std::nullopt;
  if (session_.epoch() == epoch) session_.take_answer_of_shard(*answer, sent_);
  if (!session_.is_answered_since(answer->connected) || file_.is_outdated(as_of_)) return std::nullopt;
  return answer->count;
}

PreparedCall::PreparedCall(Compound& compound, std::uint32_t max_response, async::TimePoint until,
                           std::uint64_t in_epoch)
    : what(compound.what()),
      deadline(until),
      epoch(in_epoch),
      sequence_at_(compound.sequence_at()),
      memory_(compound.data_memory()) {
  rpcrdma::Call call = compound.release(max_response, until);
  message_ = std::move(call.message);
  outcome_.failure = rpcrdma::Failure::cancelled;
  reply_max_inline_ = call.reply_max_inline;
  reply_max_reduced_ = call.reply_max_reduced;
}

void PreparedCall::ended() {
  ended_ = true;
  if (waiting_) waiting_.resume();
}

rpc::Outcome PreparedCall::take_outcome() {
  rpc::Outcome out = std::move(outcome_);
  out.message = std::move(message_);
  return out;
}

// ---- on the shard's loop ----

rpcrdma::Call PreparedCall::call(const SEQUENCE4args& sequence, async::TimePoint until) {
  rpcrdma::Call out;
  out.message = std::move(message_);
  put_sequence(out.message.stream.data() + sequence_at_, sequence);
  out.reply_max_inline = reply_max_inline_;
  out.reply_max_reduced = reply_max_reduced_;
  out.deadline = until;
  return out;
}

void PreparedCall::take(rpc::Outcome& outcome) {
  message_ = std::move(outcome.message);
  outcome_.failure = outcome.failure;
  outcome_.error = outcome.error;
  outcome_.reply.reset();
  if (!outcome.reply) return;
  const fabric::ConstBytes reply = outcome.reply->message;
  rpcrdma::Reply& copy = outcome_.reply.emplace();
  copy.trip = outcome.reply->trip;
  copy.long_reply.reset(new std::byte[reply.size()]);
  std::ranges::copy(reply, copy.long_reply.get());
  copy.message = {copy.long_reply.get(), reply.size()};
}

Shard::Shard(rpc::Channel& channel, const Handshake::FurtherSession& session)
    : channel_(channel), session_(session), slots_(channel.loop(), counters_) {
  slots_.reset(session_.slots);
  slots_.table().on_spent = [this] { stop(); };
}

/// The READs that wait for slots get some, and end.
void Shard::stop() {
  if (!std::exchange(works_, false)) return;
  slots_.reset(session_.slots);
}

/// Returns whether a call that was prepared in that epoch can be sent.
bool Shard::takes(std::uint64_t epoch) {
  // A server that has restarted may give the id of an earlier session to another one.
  if (epoch > session_.epoch) stop();
  return works_ && epoch == session_.epoch;
}

SEQUENCE4args Shard::sequence_of(const SlotTable::Use& use) {
  return {session_.id, use.sequence(), use.slot(), slots_.table().highest_busy(), false};
}

/// Returns the deadline for the channel.
async::TimePoint Shard::begin_call(async::TimePoint deadline) {
  if (!generation_) generation_ = channel_.generation() + (channel_.up() ? 0 : 1);
  // Making the connection may be impossible, and an old one may have ended since the last call.
  return channel_.up() ? deadline : std::min(deadline, channel_.loop().now() + kConnecting);
}

async::Task<void> Shard::read(engine::ShardRead& given, std::span<std::byte> data) {
  auto& read = static_cast<PreparedRead&>(given);  // NOLINT(cppcoreguidelines-pro-type-static-cast-downcast)
  std::optional<SlotTable::Use> use = co_await slots_.wait(read.deadline);
  if (!use) co_return;
  if (!takes(read.epoch)) {
    use->unsent();
    co_return;
  }
  rpcrdma::Call call;
  call.message = channel_.take_message();
  read.made().fill(call, sequence_of(*use), read.stateid, read.offset, data, session_.max_response);
  call.deadline = begin_call(read.deadline);
  rpc::Outcome outcome = co_await channel_.call(std::move(call));
  take_outcome(read, *use, std::move(outcome), data.size());
}

/// The call does not wait for a slot: the Session has more of them, and chooses the stateid when the call gets one.
async::Task<void> Shard::call(engine::ShardCall& given) {
  auto& call = static_cast<PreparedCall&>(given);  // NOLINT(cppcoreguidelines-pro-type-static-cast-downcast)
  if (call.is_given_up() || !takes(call.epoch)) co_return;
  std::optional<SlotTable::Use> use = slots_.take_now();
  if (!use) co_return;
  const SEQUENCE4args sequence = sequence_of(*use);
  std::uint32_t sends = 0;
  for (async::Backoff pause(kFirstDelay, kMostDelay);;) {
    call.sent_in = session_.id;
    rpcrdma::Call transmission = call.call(sequence, begin_call(call.deadline));
    rpc::Outcome outcome = co_await channel_.call(std::move(transmission));
    sends += outcome.sends;
    if (sends == 0) call.sent_in.reset();
    call.take(outcome);
    if (!outcome.reply) {
      take_failure(sends, *use);
      co_return;
    }
    const nfsstat4 status = take_sequence(std::move(*outcome.reply), call.what, *use);
    if (status == NFS4_OK) call.is_made_by(channel_.made_at());
    // The server may still be executing what it got over another connection: once more in the same slot.
    const bool waits = Session::judge_sequence(status) == Session::Refused::wait;
    if (!waits || channel_.loop().now() + pause.next() >= call.deadline) {
      leave_slot(call, *use, status);
      co_return;
    }
    co_await channel_.loop().sleep_for(pause.take());
  }
}

/// Ends the use of a slot whose request has an answer. `status`: of SEQUENCE.
void Shard::leave_slot(PreparedCall& call, SlotTable::Use& use, nfsstat4 status) {
  if (Session::judge_sequence(status) == Session::Refused::executed) {
    call.sent_in.reset();
    use.answered();
  } else if (status != NFS4_OK) {
    use.retire();
  }
  if (status != NFS4_OK || channel_.generation() != generation_) stop();
}

/// Ends the use of a slot whose request has no answer, after so many transmissions.
void Shard::take_failure(std::uint32_t sends, SlotTable::Use& use) {
  if (sends == 0)
    use.unsent();
  else
    use.retire();
  if (sends != 0 || !channel_.up()) stop();
}

/// Returns the status of SEQUENCE in the answer, which has ended the use of the slot if it is NFS4_OK. An answer that cannot be
/// decoded is NFS4ERR_BADXDR.
nfsstat4 Shard::take_sequence(rpcrdma::Reply answer, const char* what, SlotTable::Use& use) {
  CompoundReply reply(channel_, std::move(answer));
  SEQUENCE4res sequenced;
  if (!reply.begin(nullptr, what, channel_.server())) return NFS4ERR_BADXDR;
  if (!reply.take<op::SEQUENCE>(sequenced))
    return reply.failed_status() == NFS4_OK ? NFS4ERR_BADXDR : reply.failed_status();
  has_answer(*sequenced.get<NFS4_OK>(), use);
  return NFS4_OK;
}

void Shard::has_answer(const SEQUENCE4resok& sequence, SlotTable::Use& use) {
  const bool current = use.current();
  use.answered();
  if (current) slots_.set_target(sequence.sr_target_highest_slotid);
}

void Shard::take_outcome(PreparedRead& read, SlotTable::Use& use, rpc::Outcome outcome, std::size_t asked) {
  if (outcome.failure != rpcrdma::Failure::none || channel_.generation() != generation_) {
    use.retire();
    return stop();
  }
  rpcrdma::Reply& reply = *outcome.reply;
  SEQUENCE4resok sequence;
  if (const auto count = usual_read_reply(reply, asked, sequence)) {
    std::size_t received = reply.message.size();
    for (const xdr::Placement& one : reply.placements) received += one.placed;
    read.answer =
        PreparedRead::Answer{*count,     sequence.sr_status_flags, outcome.message.unreduced_size(), received,
                             reply.trip, channel_.made_at()};
    channel_.give_back(std::move(reply));
    channel_.give_back(std::move(outcome.message));
    return has_answer(sequence, use);
  }
  // A READ that the server has refused leaves the session as it was.
  if (take_sequence(std::move(reply), kReadCall, use) == NFS4_OK) return;
  use.retire();
  stop();
}

}  // namespace nfsrdma::nfs4
