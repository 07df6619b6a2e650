// The requester's calls: queueing, credits, completion. requester.h describes the life of an RPC, state.h the
// division of the code into files.
#include "rpcrdma/requester.h"

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "rpcrdma/marshal.h"
#include "rpcrdma/reply_check.h"
#include "rpcrdma/state.h"

namespace nfsrdma::rpcrdma {
namespace {

Config checked(Config config) {
  config.credits_wanted = std::max(config.credits_wanted, 1U);
  config.receive_size = std::max(config.receive_size, kDefaultThreshold);
  config.send_size = std::max(config.send_size, kDefaultThreshold);
  return config;
}

}  // namespace

Requester::State::State(const Config& config_in, Exposer& memory_in, std::uint32_t first_xid,
                        std::string peer_in)
    : config(checked(config_in)),
      memory(memory_in),
      peer(std::move(peer_in)),
      table(first_xid),
      backward(config.backward_credits) {}

// ---- calls ----

CallId Requester::State::submit(Call&& call, TimePoint now) {
  Rpc& rpc = table.add();
  const CallId id = rpc.id;
  rpc.call = std::move(call);
  rpc.submitted_at = now;
  ++facts.calls;
  const bool was_idle = pending++ == 0;
  rpc.data_size = rpc.call.data_size();
  pending_data += rpc.data_size;
  pending_bulk += rpc.data_size >= kBulk ? 1 : 0;
  if (shut) {
    rpc.failure = Failure::closed;
    rpc.error = error(ErrorKind::cancelled, ESHUTDOWN, "the connection has been shut down; connect again");
    complete(rpc);
    return id;
  }
  if (was_idle) {
    // The requester was idle, so the earlier reason to look at the clock no longer exists.
    if (link == Link::up && table.active().size() == 1) wake_at = TimePoint::max();
    busy_since = now;
    lower_wake(later(now, config.notice_after));
  }
  lower_wake(rpc.call.deadline);
  rpc.hold_until = end_of_hold(rpc.call, now);
  // No other call waits, and there is a credit, so send at once. pump() would have the same result.
  if (link == Link::up && queue.empty() && health_queue.empty() && has_credit(rpc) &&
      !rpc.call.is_suspect()) {
    send(rpc, now);
    return id;
  }
  const std::deque<Rpc*>& waiting = queue_of(rpc);
  enqueue(rpc);
  want_link(now);
  pump(now);
  if (link == Link::up && !waiting.empty() && waiting.back()->id == id) ++facts.credit_waits;
  return id;
}

void Requester::State::enqueue(Rpc& rpc) {
  if (rpc.call.health_check && rpc.call.first) return health_queue.push_front(&rpc);
  queue_of(rpc).push_back(&rpc);
}

void Requester::State::take_from_queue(Rpc& rpc) {
  std::deque<Rpc*>& from = queue_of(rpc);
  const auto found = std::ranges::find(from, &rpc);
  assert(found != from.end());
  from.erase(found);
}

void Requester::State::cancel(CallId id, TimePoint now) {
  Rpc* rpc = table.find(id);
  if (rpc == nullptr || rpc->stage > Rpc::Stage::sent) return;
  give_up(*rpc, Failure::cancelled, error(ErrorKind::cancelled, ECANCELED, "cancelled by its caller"), now);
}

void Requester::State::disown(CallId id) {
  if (Rpc* const rpc = table.find(id)) rpc->call.owner = nullptr;
  actions.look([id](Action& action) {
    if (Complete* const one = std::get_if<Complete>(&action); one != nullptr && one->id == id)
      one->owner = nullptr;
  });
}

Requester::Memory Requester::State::want_back(CallId id, std::optional<Revoke>& revoke) {
  const Rpc* const rpc = table.find(id);
  if (rpc == nullptr || rpc->stage != Rpc::Stage::revoking) return Memory::free;
  if (link != Link::up) return Memory::out_of_hand;
  (void)actions.drop([&](Action& action) {
    auto* const one = std::get_if<Revoke>(&action);
    if (one == nullptr || one->cookie != id) return false;
    revoke.emplace(*one);  // a copy, because the queue reuses the storage of the segments
    return true;
  });
  return Memory::taken_back;
}

void Requester::State::shut_down(TimePoint now) {
  if (shut) return;
  shut = true;
  wanted = held = false;
  for (Rpc* rpc : table.in_order()) {
    if (rpc->stage > Rpc::Stage::sent) continue;
    give_up(*rpc, Failure::closed,
            error(ErrorKind::cancelled, ESHUTDOWN, "the connection is being shut down"), now);
  }
  const bool not_begun =
      actions.drop([](const Action& a) { return std::holds_alternative<Connect>(a); }) != 0;
  if (link == Link::waiting || not_begun) link = Link::down;
  if (link == Link::connecting || link == Link::up) {
    close_link(error(ErrorKind::cancelled, ESHUTDOWN, "shut down by its user"));
  }
  scan(now);
}

// ---- credits (3.3) ----

/// Returns the number of credits. 3.3.1: the smaller of the number asked for and the number granted. 3.3.3:
/// one until the first Reply.
std::uint32_t Requester::State::limit() const {
  return has_grant ? std::min(config.credits_wanted, facts.granted) : 1;
}

/// Returns the number of credits for calls other than health checks. RFC 8267 4.6: some are kept for health
/// checks, but never the last one.
std::uint32_t Requester::State::most_regular() const {
  const std::uint32_t most = limit();
  return most - std::min(config.reserved_credits, most - 1);
}

bool Requester::State::has_credit(const Rpc& rpc) const {
  return in_flight < limit() && (rpc.call.health_check || regular_in_flight < most_regular());
}

Rpc* Requester::State::next_to_send(TimePoint now) {
  if (in_flight >= limit()) return nullptr;
  const auto take = [](std::deque<Rpc*>& from) {
    Rpc* rpc = from.front();
    from.pop_front();
    return rpc;
  };
  if (!health_queue.empty()) return take(health_queue);
  if (regular_in_flight >= most_regular()) return nullptr;
  if (Rpc* const suspect = next_suspect(now)) return suspect;
  return queue.empty() ? nullptr : take(queue);
}

/// Returns the suspect that may be sent now. On a new connection another call is sent first, so that the
/// connection counts as a good one even if the suspect breaks it.
Rpc* Requester::State::next_suspect(TimePoint now) {
  if (suspects.empty() || (!has_grant && !queue.empty())) return nullptr;
  if (on_trial != 0 && now < trial_until) {
    lower_wake(trial_until);
    return nullptr;
  }
  const auto next = std::ranges::min_element(suspects, std::less<>(), &Rpc::hold_until);
  Rpc* const rpc = *next;
  if (now < rpc->hold_until) {
    lower_wake(rpc->hold_until);
    return nullptr;
  }
  suspects.erase(next);
  on_trial = rpc->id;
  trial_until = later(now, config.trial);
  return rpc;
}

void Requester::State::pump(TimePoint now) {
  if (link != Link::up || nothing_queued()) return;
  while (link == Link::up) {
    Rpc* const rpc = next_to_send(now);
    if (rpc == nullptr) break;
    send(*rpc, now);
  }
  // A suspect in the queue may only be waiting for its time. It waits for a credit if none is left, and then
  // the calls that were given up block it.
  const bool no_credit = in_flight >= limit() || regular_in_flight >= most_regular();
  const bool waits_for_credit = !queue.empty() || !health_queue.empty() || (no_credit && !suspects.empty());
  if (overdue_abandoned && waits_for_credit) {
    close_link(error(ErrorKind::connection, ETIMEDOUT,
                     "the server does not answer calls that were given up, and these hold its credits"));
  }
}

void Requester::State::send(Rpc& rpc, TimePoint now) {
  if (rpc.exposed.capacity() == 0) rpc.exposed = actions.spare_segments();
  if (Status done = marshal(rpc, facts, config.credits_wanted, memory, peer); !done) {
    if (done.error().kind() == ErrorKind::connection) return send_later(rpc, done.error());
    rpc.failure = Failure::cannot_construct;  // 4.5.4
    rpc.error = done.error();
    settle(rpc, now);
    return;
  }
  rpc.stage = Rpc::Stage::sent;
  rpc.unanswered = rpc.send_posted = true;
  rpc.sent_at = now;
  ++in_flight;
  if (!rpc.call.health_check) ++regular_in_flight;
  facts.most_in_flight = std::max(facts.most_in_flight, in_flight);
  facts.retransmissions += rpc.sends != 0 ? 1 : 0;
  ++rpc.sends;
  count_form(rpc);
  lower_wake(later(now, std::min(patience(), config.notice_after)));
  top_up_receives();  // 3.3.1: the Receive must be posted before the Call is sent
  // Send at once only if no action is queued, because queued actions must be performed first.
  if (actions.empty() && memory.send_copy(rpc.bytes.bytes())) {
    rpc.send_posted = false;
  } else {
    actions.push(Send{rpc.id, rpc.bytes.bytes()});
  }
}

/// Queues the call for the next connection. Called when the connection has ended, and on_disconnected() has
/// not been called yet.
void Requester::State::send_later(Rpc& rpc, Error why) {
  rpc.forget_memory();
  queue_of(rpc).push_front(&rpc);
  close_link(std::move(why));
}

void Requester::State::count_form(const Rpc& rpc) {
  const bool is_long = rpc.header.proc == rdma_proc::RDMA_NOMSG;
  const bool reads = !rpc.header.rdma_reads.empty();
  const bool writes = rpc.header.rdma_writes.segment_count() != 0;
  facts.long_calls += is_long ? 1 : 0;
  facts.reduced_calls += reads && !is_long ? 1 : 0;
  facts.plain_calls += !is_long && !reads && !writes && !rpc.header.has_rdma_reply ? 1 : 0;
  facts.write_chunks_offered += writes ? 1 : 0;
  facts.reply_chunks_offered += rpc.header.has_rdma_reply ? 1 : 0;
  facts.bytes_sent += rpc.bytes.size();
  for (const xdr_read_chunk& one : rpc.header.rdma_reads) facts.bytes_exposed += one.target.length;
}

/// Posts Receives: one for each call in flight (3.3.1), and one in addition for each backward credit (RFC
/// 8167 4.3.1). Posts in batches: none while there are enough, then as many as all credits could need.
void Requester::State::top_up_receives() {
  if (posted >= in_flight + config.backward_credits) return;
  const std::uint32_t wanted_now = std::max(in_flight, limit()) + config.backward_credits + kSpareReceives;
  actions.push(PostReceives{wanted_now - posted});
  posted = wanted_now;
}

void Requester::State::give_credit_back(Rpc& rpc) {
  if (!rpc.unanswered) return;
  rpc.unanswered = false;
  --in_flight;
  if (!rpc.call.health_check) --regular_in_flight;
}

// ---- endings ----

/// Takes back a Send that has not been given out. Its handles are about to become invalid (8.1.4), so it need
/// not be sent.
bool Requester::State::retract_send(Rpc& rpc) {
  const bool unseen = actions.drop([&](const Action& action) {
    const Send* one = std::get_if<Send>(&action);
    return one != nullptr && one->cookie == rpc.id;
  }) != 0;
  if (!unseen) return false;
  rpc.send_posted = false;
  --rpc.sends;
  give_credit_back(rpc);
  return true;
}

void Requester::State::give_up(Rpc& rpc, Failure failure, Error why, TimePoint now) {
  assert(rpc.stage == Rpc::Stage::queued || rpc.stage == Rpc::Stage::sent);
  if (rpc.stage == Rpc::Stage::queued) take_from_queue(rpc);
  if (rpc.stage == Rpc::Stage::sent) retract_send(rpc);
  rpc.failure = failure;
  rpc.error = std::move(why);
  settle(rpc, now);
}

/// Takes back the RPC's memory before it completes. 4.4.1, 8.1.3: no RPC completes before its memory is out
/// of the peer's reach.
void Requester::State::settle(Rpc& rpc, TimePoint now) {
  rpc.stage = Rpc::Stage::revoking;
  const bool at_once = link == Link::up && !rpc.unanswered && !rpc.exposed.empty();
  if (at_once && memory.revoke_now(rpc.exposed)) rpc.exposed.clear();
  if (rpc.exposed.empty()) {
    complete(rpc);
  } else if (link == Link::up) {
    rpc.revoke_until = later(now, config.revoke_timeout);
    lower_wake(rpc.revoke_until);
    if (rpc.unanswered) rpc.abandoned = rpc.exposed;
    actions.push(Revoke{rpc.id, std::move(rpc.exposed), rpc.unanswered});
    rpc.exposed.clear();
  }
  // Otherwise the connection is being closed, which invalidates all handles. on_disconnected() then completes
  // the RPC.
}

void Requester::State::on_revoked(CallId cookie, bool ok, TimePoint now) {
  Rpc* rpc = table.find(cookie);
  if (rpc == nullptr || rpc->stage != Rpc::Stage::revoking) return;
  if (!ok) {
    // 4.5.4: MUST close the connection before the RPC completes; on_disconnected() completes it.
    close_link(error(ErrorKind::local, EIO, "the server's access to memory could not be revoked"));
    return;
  }
  complete(*rpc);
  pump(now);
}

void Requester::State::complete(Rpc& rpc) {
  assert(rpc.stage != Rpc::Stage::completed && pending > 0);
  // 4.2.1: the Reply in a Reply chunk is checked only now, because its memory is not read while the peer can
  // change it (4.4.1).
  const bool is_long = rpc.reply && rpc.reply->long_reply;
  if (is_long && is_rpc_reply(rpc.reply->message, rpc.xid)) {
    if (link == Link::up) take_grant(rpc.grant);
  } else if (is_long) {
    rpc.reply.reset();
    rpc.failure = Failure::bad_reply;
    rpc.error = error(ErrorKind::protocol, EPROTO,
                      "the server put something other than this call's reply into the Reply chunk; report it "
                      "to the server's maker");
  }
  rpc.stage = Rpc::Stage::completed;
  --pending;
  pending_data -= rpc.data_size;
  pending_bulk -= rpc.data_size >= kBulk ? 1 : 0;
  actions.add<Complete>(rpc.id, rpc.failure, std::move(rpc.error), std::move(rpc.reply),
                        std::move(rpc.call.message), rpc.sends, rpc.call.losses, rpc.call.owner);
  rpc.error.reset();
  rpc.reply.reset();
  rpc.long_call.reset();
  rpc.long_reply.reset();
  remove_if_finished(rpc);
}

void Requester::State::remove_if_finished(Rpc& rpc) {
  if (rpc.finished()) table.remove(rpc);
}

void Requester::State::on_sent(CallId cookie) {
  Rpc* rpc = table.find(cookie);
  if (rpc == nullptr) return;
  rpc->send_posted = false;
  remove_if_finished(*rpc);
}

// ---- messages for people ----

void Requester::State::notice(Notice::Kind kind, std::string text) {
  actions.push(Notice{kind, std::move(text)});
}

void Requester::State::oddity(const std::string& text) {
  if (oddity_seen) return;
  oddity_seen = true;
  notice(Notice::Kind::protocol_oddity, peer + ": " + text);
}

Error Requester::State::error(ErrorKind kind, int errno_value, std::string text) const {
  return {kind, errno_value, "RPC", peer, std::move(text)};
}

// ---- the public face ----

Requester::Requester(const Config& config, Exposer& memory, std::uint32_t first_xid, std::string peer)
    : state_(std::make_unique<State>(config, memory, first_xid, std::move(peer))) {}
Requester::~Requester() = default;

CallId Requester::submit(Call&& call, TimePoint now) {
  return state_->submit(std::move(call), now);
}
void Requester::cancel(CallId id, TimePoint now) {
  state_->cancel(id, now);
  state_->pump(now);
}
void Requester::connect(TimePoint now) {
  state_->connect(now);
}
void Requester::hold(bool on, TimePoint now) {
  state_->hold(on, now);
}
void Requester::answer(BackwardId id, const xdr::Message& reply) {
  state_->answer(id, reply);
}
void Requester::decline(BackwardId id) {
  state_->decline(id);
}
void Requester::on_answer_sent(BackwardId cookie) {
  state_->backward.remove_answer(cookie);
}
void Requester::on_connected(ConstBytes peer_private_data, TimePoint now) {
  state_->on_connected(peer_private_data, now);
}
void Requester::on_connect_failed(const Error& why, bool permanent, TimePoint now) {
  state_->on_connect_failed(why, permanent, now);
}
void Requester::on_disconnected(const Error& why, TimePoint now) {
  state_->on_disconnected(why, now);
}
void Requester::on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated,
                            TimePoint now) {
  state_->on_received(std::move(buffer), invalidated, now);
}
void Requester::on_sent(CallId cookie, TimePoint /*now*/) {
  state_->on_sent(cookie);
}
void Requester::on_revoked(CallId cookie, bool ok, TimePoint now) {
  state_->on_revoked(cookie, ok, now);
}
void Requester::on_time(TimePoint now) {
  state_->on_time(now);
}
void Requester::shut_down(TimePoint now) {
  state_->shut_down(now);
}

void Requester::disown(CallId id) {
  state_->disown(id);
}
Requester::Memory Requester::want_back(CallId id, std::optional<Revoke>& revoke) {
  return state_->want_back(id, revoke);
}
std::vector<CallId> Requester::owned() const {
  std::vector<CallId> out;
  for (const Rpc* rpc : state_->table.in_order()) {
    if (rpc->stage != Rpc::Stage::completed && rpc->call.owner != nullptr) out.push_back(rpc->id);
  }
  return out;
}

Action* Requester::next() {
  return state_->actions.take();
}
std::optional<Action> Requester::poll() {
  Action* const action = next();
  if (action == nullptr) return std::nullopt;
  return std::move(*action);
}
void Requester::check_health(Duration every, TimePoint now) {
  state_->check_every = every;
  state_->lower_wake(std::max(state_->next_health_check(), now));
}
bool Requester::wants_health_check(TimePoint now) {
  return state_->wants_health_check(now);
}
TimePoint Requester::next_health_check() const {
  return state_->next_health_check();
}
std::optional<TimePoint> Requester::next_deadline() const {
  if (state_->wake_at == TimePoint::max()) return std::nullopt;
  return state_->wake_at;
}
std::vector<std::byte> Requester::private_data() const {
  if (!state_->config.announce) return {};
  const auto octets = encode(state_->announcement());
  return {octets.begin(), octets.end()};
}
std::vector<std::byte> Requester::private_data(bool remote_invalidation) {
  state_->bears_invalidation = remote_invalidation;
  return private_data();
}
const Facts& Requester::facts() const {
  return state_->facts;
}
bool Requester::connected() const {
  return state_->link == State::Link::up;
}
std::size_t Requester::pending() const {
  return state_->pending;
}

std::size_t Requester::load() const {
  constexpr std::size_t kOfCall = 4096;
  return state_->pending_data + state_->pending * kOfCall;
}

std::size_t Requester::bulk_calls() const {
  return state_->pending_bulk;
}
std::uint32_t Requester::in_flight() const {
  return state_->in_flight;
}

}  // namespace nfsrdma::rpcrdma
