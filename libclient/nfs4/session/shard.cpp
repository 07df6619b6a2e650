#include "nfs4/session/shard.h"

#include <algorithm>
#include <utility>

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

// ---- on the shard's loop ----

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

async::Task<void> Shard::read(engine::ShardRead& given, std::span<std::byte> data) {
  auto& read = static_cast<PreparedRead&>(given);  // NOLINT(cppcoreguidelines-pro-type-static-cast-downcast)
  std::optional<SlotTable::Use> use = co_await slots_.wait(read.deadline);
  if (!use) co_return;
  // A server that has restarted may give the id of an earlier session to another one.
  if (read.epoch > session_.epoch) stop();
  if (!works_ || read.epoch != session_.epoch) {
    use->unsent();
    co_return;
  }
  const SEQUENCE4args sequence{session_.id, use->sequence(), use->slot(), slots_.table().highest_busy(),
                               false};
  rpcrdma::Call call;
  call.message = channel_.take_message();
  read.made().fill(call, sequence, read.stateid, read.offset, data, session_.max_response);
  // Making the connection may be impossible, and an old one may have ended since the last READ.
  call.deadline =
      channel_.up() ? read.deadline : std::min(read.deadline, channel_.loop().now() + kConnecting);
  if (!generation_) generation_ = channel_.generation() + (channel_.up() ? 0 : 1);
  rpc::Outcome outcome = co_await channel_.call(std::move(call));
  take_outcome(read, *use, std::move(outcome), data.size());
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
    const bool current = use.current();
    use.answered();
    if (current) slots_.set_target(sequence.sr_target_highest_slotid);
    return;
  }
  // A READ that the server has refused leaves the session as it was.
  CompoundReply refusal(channel_, std::move(reply));
  SEQUENCE4res sequenced;
  if (refusal.begin(nullptr, kReadCall, channel_.server()) && refusal.take<op::SEQUENCE>(sequenced)) {
    use.answered();
    return;
  }
  use.retire();
  stop();
}

}  // namespace nfsrdma::nfs4
