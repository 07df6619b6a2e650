#include "nfs4/session/fast_reads.h"

#include <algorithm>
#include <utility>

#include "async/buggify.h"
#include "nfs4/state/file_state.h"

namespace nfsrdma::nfs4 {
namespace {

async::Task<Result<std::size_t>> fails(Error why) {
  co_return why;
}

}  // namespace

FastReads::~FastReads() {
  for (const auto& one : reads_.all()) {
    if (one->read == nullptr) continue;
    one->read->end();
    drop(*one);
  }
}

bool FastReads::is_plain(FastReadFile& file, std::size_t size) {
  ClientLease& session = parts_.session;
  FileState& state = file.file_state();
  if (!session.takes_calls() || !state.is_useful() || state.state().claiming_locks) return false;
  if (size == 0 || size > session.most_read() || async::buggify(session.loop())) return false;
  return file.made.prepare(session, state);
}

/// Returns the connection for the READ; null if it cannot be sent now.
rpc::Channel* FastReads::way_for(FastReadFile& file, std::size_t size) {
  if (!is_plain(file, size)) return nullptr;
  rpc::Channel& channel = parts_.lanes.route(size);
  return channel.up() ? &channel : nullptr;
}

bool FastReads::start(FastReadFile& file, engine::FastRead& read) {
  ClientLease& session = parts_.session;
  rpc::Channel* const channel = way_for(file, read.data.size());
  if (channel == nullptr) return false;
  One& one = reads_.take(*this);
  one.read = &read;
  one.file = &file;
  one.in_use = file.file_state().use();
  one.deadline = session.default_deadline();
  read.begin(one);
  if (auto use = parts_.slots.take_now())
    send(one, *channel, std::move(*use));
  else
    parts_.slots.join(one, one.deadline);
  return true;
}

void FastReads::take_slot(One& one, std::optional<SlotTable::Use> use) {
  engine::FastRead& read = *one.read;
  if (!use) {
    const ClientLease& session = parts_.session;
    return leave_to(one, fails(no_slot_in_time(kReadCall, session.server())));
  }
  rpc::Channel* const channel = way_for(*one.file, read.data.size());
  if (channel != nullptr && !one.file->is_outdated(one.file->as_of()))
    return send(one, *channel, std::move(*use));
  use->unsent();
  leave_to(one, one.file->read_on(read.data, read.offset, nullptr));
}

void FastReads::send(One& one, rpc::Channel& channel, SlotTable::Use use) {
  const SessionFacts& facts = parts_.session.facts();
  const engine::FastRead& read = *one.read;
  const FileState& state = one.file->file_state();
  one.channel = &channel;
  one.sent = parts_.lease.at_turn();
  one.epoch = facts.epoch;
  one.as_of = one.file->as_of();
  one.sequence = {facts.session_id, use.sequence(), use.slot(), parts_.slots.table().highest_busy(), false};
  parts_.counters.highest_slot = std::max(parts_.counters.highest_slot, use.slot());
  one.use.emplace(std::move(use));

  rpcrdma::Call call;
  call.message = channel.take_message();
  RangeStateid stateid(state.state(), {read.offset, read.data.size()}, RangeStateid::Use::read);
  one.file->made.fill(call, one.sequence, stateid.now(), read.offset, read.data, facts.max_response);
  call.deadline = one.deadline;
  channel.begin(std::move(call), one);
}

void FastReads::give_back(One& one) {
  one.read = nullptr;
  one.channel = nullptr;
  one.use.reset();  // if the request has not ended, its slot is retired
  one.in_use = {};
  reads_.give_back(one);
}

void FastReads::drop(One& one) {
  if (one.channel != nullptr)
    one.channel->leave(one);
  else
    one.stop_waiting();
  give_back(one);
}

/// The READ leaves the fast path: the caller is to run `rest`.
void FastReads::leave_to(One& one, async::Task<Result<std::size_t>> rest) {
  engine::FastRead& read = *one.read;
  read.end();
  give_back(one);
  read.goes_on(std::move(rest));
}

void FastReads::count(const rpcrdma::Complete& how) {
  std::size_t received = how.reply->message.size();
  for (const xdr::Placement& one : how.reply->placements) received += one.placed;
  parts_.counters.of(kReadCall).answered(how.message.unreduced_size(), received, how.reply->trip);
}

void FastReads::completed(One& one, rpcrdma::Complete& how) {
  engine::FastRead& read = *one.read;
  SEQUENCE4resok sequence;
  std::optional<std::size_t> got;
  if (how.failure == rpcrdma::Failure::none) got = usual_read_reply(*how.reply, read.data.size(), sequence);
  if (got && !one.file->is_outdated(one.as_of)) {
    count(how);
    one.channel->give_back(std::move(*how.reply));
    one.channel->give_back(std::move(how.message));
    const bool current = one.use->current();
    one.use->answered();
    parts_.take_sequence(sequence, current, one.sent);
    read.end();
    give_back(one);
    return read.ended(*got);
  }
  auto sent_request = std::make_unique<SentRequest>(SentRequest{
      std::move(*one.use), one.sequence, *one.channel, one.sent, one.epoch, one.as_of, one.deadline,
      rpc::Outcome{how.failure, std::move(how.error), std::move(how.reply), std::move(how.message), how.sends,
                   how.losses},
      std::move(one.in_use)});
  leave_to(one, one.file->read_on(read.data, read.offset, std::move(sent_request)));
}

}  // namespace nfsrdma::nfs4
