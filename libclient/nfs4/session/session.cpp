#include "nfs4/session/session.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "async/backoff.h"
#include "async/buggify.h"
#include "nfs4/compound/pacing.h"
#include "nfs4/session/status_flags.h"
#include "rpc/make_call.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

/// Size of a Reply with the result of one operation without data behind SEQUENCE. A server that caches less
/// than this caches nothing of use.
constexpr std::uint32_t kReplyHeader = 24;     // RFC 5531: xid, REPLY, MSG_ACCEPTED, AUTH_NONE, SUCCESS
constexpr std::uint32_t kCompoundHeader = 12;  // status, no tag, count
constexpr std::uint32_t kSequenceResult = 44;  // operation, status, SEQUENCE4resok
constexpr std::uint32_t kStatusResult = 8;     // operation, status
constexpr std::uint32_t kLeastReply = kReplyHeader + kCompoundHeader + kSequenceResult + kStatusResult;
static_assert(kLeastReply == 88);

/// A shard has this part of the time of one try for a call, in which it is also sent again over another connection.
constexpr int kPartInShard = 2;
/// By a whim it has this time, which is too short where the server is far away or busy.
constexpr async::Clock::duration kBriefly = std::chrono::milliseconds(1);

/// A given-up request may still be on its way or under way: the server has this time before it is asked about it.
constexpr auto kBeforeAsking = std::chrono::milliseconds(5);

/// Whether the server may still answer the request.
bool is_unanswered(rpcrdma::Failure failure) {
  using rpcrdma::Failure;
  return failure != Failure::none && failure != Failure::err_vers && failure != Failure::err_chunk &&
         failure != Failure::bad_reply;
}

}  // namespace

Session::Session(rpc::Channel& channel, SessionOptions options, NoticeSink notices)
    : ClientLease(channel, std::move(options), std::move(notices),
                  [this](bool recallable) { lanes_.hold(recallable); }),
      slots_(channel.loop(), counters_),
      lanes_(*this, channel, options_.callback_slots,
             [this](rpc::Channel& over, rpcrdma::BackwardId id, fabric::ConstBytes message) {
               backchannel_.answer(over, id, message);
             }),
      backchannel_(state_.delegations, lock_waits_, copies_, slots_, lease_),
      handshake_({*this, lanes_, slots_, backchannel_.service(), options_, crossings_}),
      recovery_({*this, handshake_, state_, slots_, lease_, counters_, options_.timeout}),
      fast_reads_({*this, slots_, lanes_, lease_, counters_,
                   [this](const SEQUENCE4resok& ok, bool current, const Lease::Sent& sent) {
                     take_sequence(ok, current, sent, false);
                   }}) {
  slots_.table().on_unanswered = [this](std::uint32_t slot) {
    if (phase_ != Phase::open) return false;
    background_.spawn(ask_about(slot, slots_.table().generation()));
    return true;
  };
  lanes_.prove_by(
      [this](rpc::Channel& over) { return handshake_.leads_to_server(over, default_deadline()); });
}

Session::~Session() {
  phase_ = Phase::ending;
  background_.drop();
}

async::Task<Status> Session::open(async::TimePoint deadline) {
  auto done = co_await handshake_.begin(deadline);
  if (!done) co_return done;
  phase_ = Phase::open;
  lease_.arm();
  co_return Status();
}

async::Task<Status> Session::close(async::TimePoint deadline) {
  phase_ = Phase::ending;
  state_.delegations.hold_connections();
  // A recovery that is under way makes a new session, which must be destroyed as well.
  (void)co_await recovery_.ended(deadline);
  const async::TimePoint waits_until = end_of_waiting(deadline);
  // State that an OPEN under way brings must be given back as well.
  (void)co_await state_.outstanding.none(waits_until);
  lease_.stop();
  // RFC 8881 18.50.3: the server keeps the client id (CLIENTID_BUSY) for as long as it has any session of it.
  (void)co_await recovery_.old_ended(waits_until);
  co_return co_await handshake_.end(deadline);
}

// ---- shards ----

std::unique_ptr<engine::ShardRead> Session::prepare_read(FastReadFile& file, std::size_t size,
                                                         std::uint64_t offset) {
  if (!fast_reads_.is_plain(file, size)) return nullptr;
  return std::make_unique<PreparedRead>(*this, file, size, offset);
}

async::Task<Result<std::unique_ptr<engine::Shard>>> Session::make_shard(std::size_t number,
                                                                        rpc::Channel& channel,
                                                                        async::TimePoint deadline) {
  const auto refused = [this](int errno_value, const char* why) {
    return Error(ErrorKind::connection, errno_value, "CREATE_SESSION", channel_.server(), why);
  };
  if (!takes_calls()) co_return refused(EAGAIN, "the session is being recovered; try again");
  if (begin(kReadCall).protection() != nullptr) co_return refused(EOPNOTSUPP, "shards need sec=sys");
  auto session = co_await handshake_.create_further(number, deadline);
  if (!session) co_return session.error();
  std::unique_ptr<engine::Shard> out = std::make_unique<Shard>(channel, *session);
  co_return out;
}

void Session::take_answer_of_shard(const PreparedRead::Answer& answer, const Lease::Sent& sent) {
  counters_.of(kReadCall).answered(answer.sent, answer.received, answer.trip);
  take_flags_of_shard(answer.status_flags, sent);
}

void Session::take_flags_of_shard(std::uint32_t flags, const Lease::Sent& sent) {
  lease_.renewed(sent);
  // The first session says these of itself.
  constexpr std::uint32_t kOfOneSession = SEQ4_STATUS_CB_PATH_DOWN_SESSION | SEQ4_STATUS_BACKCHANNEL_FAULT;
  if (!recovering()) handle_status_flags(flags & ~kOfOneSession);
}

/// Whether a shard may make the call: one that needs nothing of this session's connection and slots, does no harm the second
/// time, and has its data where it stays.
bool Session::may_go_to_shard(const Compound& compound, const Course& course) const {
  if (shards_ == nullptr || phase_ != Phase::open || recovering() || course.for_recovery) return false;
  return compound.data_memory().data != nullptr && compound.repeatable() && !compound.modifies() &&
         compound.protection() == nullptr && !course.sent_request && !course.use;
}

/// Returns none if the call is to be made here, because there is no answer from a shard that counts, and no shard has the server
/// execute it later. So the rules for what is unusual are those of the call that is made here.
async::Task<std::optional<Result<CompoundReply>>> Session::attempt_in_shard(Compound& compound,
                                                                            async::TimePoint deadline,
                                                                            Attempt& attempt) {
  const async::Clock::duration patience =
      async::buggify(loop()) ? kBriefly : async::Clock::duration(options_.timeout) / kPartInShard;
  const async::TimePoint until = std::min(deadline, loop().now() + patience);
  const Lease::Sent sent = lease_.at_turn();
  std::shared_ptr<PreparedCall> call;
  const auto make = [&] {
    compound.choose_stateid(Compound::Asking::also_later);
    call = std::make_shared<PreparedCall>(compound, facts().max_response, until, epoch());
    return call;
  };
  if (!shards_->start(compound.data_size(), make)) co_return std::nullopt;
  co_await call->end();
  rpc::Outcome outcome = call->take_outcome();
  compound.restore(std::move(outcome.message));
  if (call->is_made()) {
    auto reply = reply_of(channel_, compound, outcome);
    SEQUENCE4res sequence;
    if (!reply || !reply->take<op::SEQUENCE>(sequence)) co_return std::nullopt;
    reply->set_epoch(call->epoch);
    if (epoch() == call->epoch) take_flags_of_shard(sequence.get<NFS4_OK>()->sr_status_flags, sent);
    // The request was executed, and how is not known, because the answer to that was lost with a connection.
    if (reply->status() == NFS4ERR_RETRY_UNCACHED_REP) co_return std::nullopt;
    // To make the call again could overwrite what others have written since, so the session asks for an answer.
    if (!is_answered_since(call->connected())) (void)co_await ClientLease::call(renewal(), deadline);
    if (!is_answered_since(call->connected())) co_return std::nullopt;
    attempt.verdict = Verdict::answered;
    co_return std::move(*reply);
  }
  if (!call->sent_in) co_return std::nullopt;
  const bool gone = co_await handshake_.end_further(*call->sent_in, deadline);
  if (gone && !compound.message().stream.empty()) co_return std::nullopt;
  co_return Error(ErrorKind::timeout, ETIMEDOUT, compound.what(), channel_.server(),
                  "the server does not answer in time; check the server, or give more time with timeo=");
}

engine::ServerHoldings Session::holdings() const {
  engine::ServerHoldings out = ClientLease::holdings();
  out.slots = slots_.table().size();
  out.slots_busy = slots_.table().busy();
  out.slots_retired = slots_.table().retired();
  return out;
}

// ---- calls without a session ----

Compound Session::begin_alone(const char* what) {
  return {channel_.take_message(), options_.flavor->vouch(nullptr), facts().minor_version, what, false};
}

async::Task<Result<CompoundReply>> Session::call_over(rpc::Channel& channel, Compound& compound,
                                                      async::TimePoint deadline) {
  rpcrdma::Call call = compound.release(xdr::kUnbounded, deadline);
  // Calls that wait for credits wait for this call as well, so it goes first.
  call.health_check = call.first = true;
  rpc::Outcome outcome = co_await rpc::make_call(channel, std::move(call), compound.protection());
  compound.restore(std::move(outcome.message));
  co_return reply_of(channel, compound, outcome);
}

// ---- one try: a request in a slot ----

/// A request from its first transmission to the answer that settles what became of it.
struct Session::Request {
  Compound& compound;
  SlotTable::Use use;
  SEQUENCE4args sequence;
  Course& course;
  Attempt& attempt;
  async::Backoff pause{kFirstDelay, kMostDelay};
  bool high_lowered = false;
  int binds = 0;
  /// `sent`: number of transmissions that left. `refused`: number of those that the server refused at
  /// SEQUENCE, before it looked at the request. If the two differ, the server may have executed the request.
  std::uint32_t sent = 0, refused = 0;
  /// Number of connections in a row that ended while the request was in flight on them.
  unsigned losses = 0;
  void note_doubt() const { attempt.in_doubt = sent > refused; }
};

/// Returns the slot in which the request has been sent already, or which the call is a question about. Returns none for
/// other calls.
std::optional<SlotTable::Use> Session::slot_of_its_own(SentRequest* sent_request, Course& course) {
  if (sent_request != nullptr) return std::move(sent_request->use);
  return std::exchange(course.use, std::nullopt);
}

/// Begins the request with SEQUENCE. The server is asked to cache Replies to requests that are not idempotent
/// (RFC 8881 2.10.6.1.3), if it caches any, except those of calls that need_not_be_cached(). Only the attributes
/// that follow could exceed what the server caches, and a Reply may do without those.
SEQUENCE4args Session::begin_sequence(Request& request) {
  if (facts().max_response_cached < kLeastReply) request.course.asks_caching = false;
  const SEQUENCE4args sequence{facts().session_id, request.use.sequence(), request.use.slot(),
                               slots_.table().highest_busy(),
                               request.compound.is_to_be_cached() && request.course.asks_caching};
  request.compound.set_sequence(sequence);
  return sequence;
}

/// Called when the server has accepted SEQUENCE, so that the request was executed as far as the Reply says.
void Session::take_executed(Request& request, const CompoundReply& reply, const SEQUENCE4resok& ok,
                            const Lease::Sent& sent) {
  const bool current = request.use.current();
  request.use.answered();
  take_sequence(ok, current, sent, request.course.for_recovery);
  Attempt& attempt = request.attempt;
  // Linux and Ganesha return RETRY_UNCACHED_REP for an operation behind a good SEQUENCE, and only if they
  // were not asked to cache the Reply.
  const bool lost = reply.status() == NFS4ERR_RETRY_UNCACHED_REP;
  attempt.in_doubt = lost;
  attempt.verdict = lost ? Verdict::again : Verdict::answered;
  // The server has stopped before it executed the operation that is not idempotent (2.10.6.4).
  if (reply.status() == NFS4ERR_REP_TOO_BIG_TO_CACHE && request.sequence.sa_cachethis &&
      reply.executed() <= request.compound.first_modifying() + 1) {
    request.course.asks_caching = false;
    attempt.verdict = Verdict::again;
  }
}

async::Task<Result<CompoundReply>> Session::attempt(Compound& compound, Course& course, Attempt& attempt) {
  // A caller without a ticket waits for one before it takes a slot, which other calls may be waiting for.
  if (rpc::Protection* const seal = compound.protection(); seal != nullptr && !seal->is_ready()) {
    if (auto ready = co_await seal->ready(course.deadline); !ready) co_return ready.error();
  }
  if (may_go_to_shard(compound, course)) {
    auto in_shard = co_await attempt_in_shard(compound, course.deadline, attempt);
    if (in_shard) co_return *std::move(in_shard);
  }
  std::unique_ptr<SentRequest> sent_request = std::move(course.sent_request);
  std::optional<SlotTable::Use> use = slot_of_its_own(sent_request.get(), course);
  if (!use) use = co_await slots_.wait(course.deadline);
  if (!use) co_return no_slot_in_time(compound.what(), channel_.server());
  counters_.highest_slot = std::max(counters_.highest_slot, use->slot());
  // The session may have been lost while this call waited for a slot.
  if (recovering() && !course.for_recovery && !sent_request) {
    use->unsent();
    attempt.verdict = Verdict::at_once;
    co_return Error(ErrorKind::connection, EAGAIN, compound.what(), channel_.server(),
                    "the server no longer has the session");
  }
  Request request{compound, std::move(*use), {}, course, attempt};
  if (!sent_request) compound.choose_stateid();
  request.sequence = sent_request ? sent_request->sequence : begin_sequence(request);
  const std::uint64_t epoch = sent_request ? sent_request->epoch : facts().epoch;
  for (;;) {
    rpc::Channel* const only = compound.over();
    rpc::Channel& channel = sent_request      ? sent_request->channel
                            : only != nullptr ? *only
                                              : lanes_.route(compound.data_size());
    const Lease::Sent sent = sent_request ? sent_request->sent : lease_.now();
    rpc::Outcome outcome;
    if (sent_request) {
      outcome = std::move(std::exchange(sent_request, nullptr)->outcome);
    } else {
      rpcrdma::Call call = compound.release(facts().max_response, course.deadline);
      call.losses = request.losses;
      outcome = co_await rpc::make_call(channel, std::move(call), compound.protection());
    }
    compound.restore(std::move(outcome.message));
    request.losses = outcome.losses;
    request.sent += outcome.sends;
    request.note_doubt();
    auto reply = reply_of(channel, compound, outcome);
    // The connection has ended, and others are up: the same request is sent there, for the server to
    // recognise.
    if (outcome.failure == rpcrdma::Failure::cancelled) continue;
    if (outcome.failure != rpcrdma::Failure::none && !attempt.in_doubt) request.use.unsent();
    if (!reply) {
      if (!is_unanswered(outcome.failure)) request.use.retire();  // RFC 8267 4.5
      co_return reply.error();
    }
    reply->set_epoch(epoch);
    SEQUENCE4res result;
    if (reply->take<op::SEQUENCE>(result)) {
      take_executed(request, *reply, *result.get<NFS4_OK>(), sent);
      co_return reply;
    }
    const nfsstat4 status = reply->failed_status();
    const Error error = error_of(*reply, compound.what(), channel_.server());
    // The Reply cannot be decoded, so it is not known what became of the request.
    if (status == NFS4_OK) {
      request.use.retire();
      co_return error;
    }
    ++request.refused;
    request.note_doubt();
    const bool once_more = co_await goes_on(request, status, channel);
    if (!once_more) co_return error;
  }
}

/// Finds out what became of a request that was given up, by a SEQUENCE alone in its slot. While the server
/// executes the request, it answers DELAY. Afterwards it answers from its reply cache, or says RETRY_UNCACHED_REP or
/// SEQ_FALSE_RETRY. If it never got the request, it executes the SEQUENCE, and a request that comes later is too old. In
/// each case the slot can be used again.
async::Task<void> Session::ask_about(std::uint32_t slot, std::uint64_t generation) {
  co_await loop().sleep_for(kBeforeAsking);
  Course course{.deadline = default_deadline()};
  if (recovering()) (void)co_await ready(course.deadline);
  course.use = slots_.table().ask_again(slot, generation);
  if (!course.use) co_return;
  Compound compound = renewal();
  Attempt attempt;
  (void)co_await this->attempt(compound, course, attempt);
}

/// Binds the connection to the session that the request was sent in, because the server has said that it is
/// not bound. Returns whether it is bound now.
async::Task<bool> Session::bind_for(Request& request, const rpc::Channel& channel) {
  if (request.use.current()) lanes_.unbound(channel);
  if (loop().now() + request.pause.next() >= request.course.deadline) co_return false;
  // A server that keeps refusing although it has bound the connection must not be asked again without a pause.
  if (++request.binds > kQuickTries) co_await loop().sleep_for(request.pause.next());
  if (!co_await lanes_.bind_again(channel, request.pause.take(), request.course.deadline)) co_return false;
  if (request.use.current()) co_return true;
  // The session was replaced meanwhile although it worked. It still has the answer in its reply cache if the
  // request was executed. The session is not destroyed before the request has ended (session_recovery.h).
  const sessionid4 session = request.sequence.sa_sessionid;
  co_return co_await lanes_.bind_to_earlier(channel, session, request.course.deadline);
}

/// Ends the request's use of a slot in which it cannot be sent again. `attempt.verdict` says what follows.
void Session::leave_slot(Request& request, nfsstat4 status) {
  SlotTable::Use& use = request.use;
  // The answer to a question (ask_about()): the request that it is about has been executed.
  if (status == NFS4ERR_SEQ_FALSE_RETRY && use.is_question()) return use.answered();
  const bool is_unknown_slot = status == NFS4ERR_BADSLOT;
  if (is_unknown_slot && use.current()) slots_.table().cut(use.slot());
  request.attempt.verdict = is_unknown_slot && use.slot() == 0 ? Verdict::unsettled : Verdict::again;
  use.retire();
}

/// Called when the server has refused SEQUENCE. Returns true if the request is to be sent again in the same
/// slot. Otherwise its use of the slot has ended, and attempt.verdict says what follows.
async::Task<bool> Session::goes_on(Request& request, nfsstat4 status, const rpc::Channel& channel) {
  SlotTable::Use& use = request.use;
  Attempt& attempt = request.attempt;
  switch (judge_sequence(status)) {
    case Refused::wait:
      if (loop().now() + request.pause.next() >= request.course.deadline) break;
      co_await loop().sleep_for(request.pause.take());
      co_return true;
    case Refused::bind:
      if (co_await bind_for(request, channel)) co_return true;
      attempt.verdict = Verdict::unsettled;
      break;
    case Refused::lower_high:
      if (!request.high_lowered) {
        request.high_lowered = true;
        request.sequence.sa_highest_slotid = request.sequence.sa_slotid;
        request.compound.set_sequence(request.sequence);
        co_return true;
      }
      attempt.verdict = Verdict::unsettled;
      break;
    case Refused::uncached:
      if (request.sequence.sa_cachethis && !attempt.in_doubt) {
        request.course.asks_caching = request.sequence.sa_cachethis = false;
        request.compound.set_sequence(request.sequence);
        co_return true;
      }
      break;
    case Refused::other_slot:
      leave_slot(request, status);
      co_return false;
    case Refused::executed:
      use.answered();
      attempt.in_doubt = true;
      attempt.verdict = Verdict::again;
      co_return false;
    case Refused::session:
      attempt.verdict = Verdict::unsettled;
      break;
    case Refused::caller:
      break;
  }
  const bool current = use.current();
  if (!attempt.in_doubt) use.unsent();
  if (attempt.verdict != Verdict::unsettled) co_return false;
  // The session that the request was sent in has been replaced meanwhile.
  attempt.replaced = !current && !recovering();
  if (attempt.replaced)
    attempt.verdict = Verdict::again;
  else if (request.course.for_recovery)
    attempt.verdict = Verdict::failed;
  co_return false;
}

async::Task<void> Session::settle(const Compound& compound, const Result<CompoundReply>& reply,
                                  Course& course, Attempt& attempt) {
  if (course.for_recovery) co_return;
  course.in_doubt = course.in_doubt || attempt.in_doubt;
  if (attempt.in_doubt) state_.openings.doubt();
  const bool is_gone = attempt.verdict == Verdict::unsettled;
  if (is_gone) start_recovery("the server no longer has the session");
  // While the session begins or ends there is no recovery, so such a call is not made again.
  if (is_gone) attempt.verdict = recovering() ? Verdict::again : Verdict::failed;
  const bool ended = is_gone || attempt.verdict == Verdict::again;
  if (!ended || !attempt.in_doubt || !compound.has_effect()) co_return;
  const bool replaced = attempt.replaced || (is_gone && attempt.verdict == Verdict::again);
  // RFC 8881 18.37.3: until the lost session is destroyed, the server may still be executing the request,
  // which could undo what is done after it. Linux makes no new session before that either
  // (nfs4_reset_session).
  const bool in_time = co_await recovery_.old_ended(course.deadline);
  const nfsstat4 status = reply ? reply->status() : static_cast<nfsstat4>(reply.error().status());
  if (compound.repeatable() && !in_time) {
    attempt.verdict = Verdict::failed;
    attempt.error = not_recovered(compound);
  } else if (!compound.repeatable() && in_time && replaced && !is_lost_session(status)) {
    // The server's last word may have been about the connection or the slot. Now the session has been replaced
    // and destroyed, which BADSESSION says: the request is not executed any more, so its caller may look at
    // the names (files/outcome.cpp).
    attempt.error = status_error(NFS4ERR_BADSESSION, compound.what(), channel_.server());
  }
}

/// Processes what a good SEQUENCE says about the session.
void Session::take_sequence(const SEQUENCE4resok& ok, bool current, const Lease::Sent& sent,
                            bool for_recovery) {
  lease_.renewed(sent);
  answered_ = std::max(answered_, sent.when);
  if (current) slots_.set_target(async::buggify(loop()) ? 0 : ok.sr_target_highest_slotid);
  // An answer of an earlier session may come from its reply cache, so its flags may be old. The present
  // session says what still holds.
  if (current && !for_recovery) handle_status_flags(ok.sr_status_flags);
  if (async::buggify(loop(), 1)) start_recovery("a whim", true);
}

void Session::handle_status_flags(std::uint32_t flags) {
  const Reactions wanted = flags == 0 ? Reactions() : reactions_to(flags);
  // The request for a reclaim is noted before a recovery begins, because the recovery then begins with
  // EXCHANGE_ID. It stays noted until the recovery has ended: an answer without the flag may have been sent
  // before the restart and arrive late.
  const bool known = wanted.recover && handshake_.want_reclaim(true);
  if (wanted.recover && !known) start_recovery("the server restarted");
  if (wanted.mend_backchannel || wanted.new_session) lanes_.mend_backchannel(wanted.new_session);
  if (wanted.find_revoked) state_.revocations.search();
}

/// Returns what a refused SEQUENCE asks for (RFC 8881 18.46.3, 2.10.6.1.3). The server did not execute the
/// request in this try.
Session::Refused Session::judge_sequence(nfsstat4 status) {
  switch (status) {
    // The slot is not free: the server may still be executing an earlier transmission (Linux), or has not
    // looked at this one. RFC 8881 15.1.1.3: send the same slot and sequence id again.
    case NFS4ERR_DELAY:
      return Refused::wait;
    case NFS4ERR_CONN_NOT_BOUND_TO_SESSION:
      return Refused::bind;
    case NFS4ERR_BAD_HIGH_SLOT:
      return Refused::lower_high;
    case NFS4ERR_REP_TOO_BIG_TO_CACHE:
      return Refused::uncached;
    // The server's table has no such slot, or expects another sequence id in it than this client does.
    case NFS4ERR_BADSLOT:
    case NFS4ERR_SEQ_MISORDERED:
    case NFS4ERR_SEQ_FALSE_RETRY:
      return Refused::other_slot;
    case NFS4ERR_RETRY_UNCACHED_REP:
      return Refused::executed;
    case NFS4ERR_BADSESSION:
    case NFS4ERR_DEADSESSION:
    case NFS4ERR_STALE_CLIENTID:
      return Refused::session;
    default:
      return Refused::caller;
  }
}

}  // namespace nfsrdma::nfs4
