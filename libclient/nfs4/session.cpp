#include "nfs4/session.h"

#include <cerrno>

#include "async/backoff.h"
#include "async/buggify.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr async::Clock::duration kFirstDelay = 20ms, kMostDelay = 2s;
/// What stands around the data of a READ's Reply or a WRITE's Call, at most. create_session() refuses
/// sessions that are not larger.
constexpr std::uint32_t kDataEnvelope = 1024;
/// How often a call is made again at once, in another slot or session, before there are pauses.
constexpr int kQuickTries = 4;

}  // namespace

Session::Session(rpc::Channel& channel, SessionOptions options, NoticeSink notices)
    : channel_(channel),
      options_(std::move(options)),
      notices_(std::move(notices)),
      slots_(channel.loop(), counters_),
      lanes_(*this, channel, options_.callback_slots,
             [this](rpc::Channel& over, rpcrdma::BackwardId id, fabric::ConstBytes message) {
               answer_callback(over, id, message);
             }),
      lease_(*this),
      outstanding_(channel.loop()),
      openings_(*this, outstanding_),
      leftovers_(*this, outstanding_),
      recovered_(channel.loop()),
      reopened_(channel.loop()),
      callbacks_(*this, CallbackOptions()),
      beside_(channel.loop()) {
  slots_.table().on_spent = [this] { start_recovery("too many requests went unanswered", true); };
  openings_.on_last = [this] { on_last_opening(); };
  opens_.on_release = [this] { hold_connections(); };
}

Session::~Session() {
  phase_ = Phase::ending;
  beside_.drop();
}

Compound Session::begin(const char* what, const Caller& caller) {
  return {channel_.take_message(), caller ? *caller : options_.credential, facts_.minor_version, what};
}

Compound Session::begin_alone(const char* what) {
  return {channel_.take_message(), options_.credential, facts_.minor_version, what, false};
}

std::size_t Session::most_read() const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(facts_.max_read, facts_.max_response - kDataEnvelope));
}
std::size_t Session::most_written() const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(facts_.max_write, facts_.max_request - kDataEnvelope));
}

async::Task<bool> Session::ready(async::TimePoint deadline) {
  return async::until(recovered_, deadline, [this] { return !recovering_; });
}

// ---- calls ----

Error Session::unknown_outcome(const Compound& compound, const Error& why) const {
  return {ErrorKind::unknown_outcome,
          why.errno_value(),
          why.status(),
          compound.what(),
          channel_.server(),
          why.message() + "; whether the server did it is not known: look before it is done again"};
}

async::Task<Result<CompoundReply>> Session::call(Compound compound, async::TimePoint deadline) {
  const Modifications::Scope scope(modifications_, compound.changes());
  async::Backoff delay(kFirstDelay, kMostDelay);
  bool in_doubt = false;
  int tries = 0;
  for (;;) {
    // g++ 12 miscompiles a co_await behind "&&".
    bool is_ready = true;
    if (recovering_) is_ready = co_await ready(deadline);
    if (!is_ready) {
      std::string text = "the session with the server could not be had again in time";
      if (last_recovery_error_) text += " (" + last_recovery_error_->text() + ")";
      co_return Error(ErrorKind::timeout, ETIMEDOUT, compound.what(), channel_.server(),
                      text + "; check the server, or give more time with timeo=");
    }
    Attempt attempt;
    auto reply = co_await call_once(compound, deadline, attempt, false);
    in_doubt = in_doubt || attempt.in_doubt;
    if (attempt.in_doubt) openings_.doubt();
    if (attempt.verdict != Verdict::answered && in_doubt && !compound.repeatable()) {
      if (attempt.verdict == Verdict::recover) start_recovery("the session is gone");
      const Error why =
          unknown_outcome(compound, reply ? status_error(reply->status(), compound.what(), channel_.server())
                                          : reply.error());
      channel_.give_back(compound.take_message());
      co_return why;
    }
    if (attempt.verdict == Verdict::recover) start_recovery("the session is gone");
    bool again = attempt.verdict == Verdict::again;
    // At the beginning and end of the session there is no recovery.
    if (attempt.verdict == Verdict::recover) again = recovering_;
    bool pause = again && ++tries > kQuickTries;
    if (attempt.verdict == Verdict::answered) {
      // What stands before the operation that failed would run again: harmless unless it changes something.
      pause = again = (reply->status() == NFS4ERR_DELAY || reply->status() == NFS4ERR_GRACE) &&
                      reply->executed() <= compound.first_modifying() + 1;
    }
    if (!again || (pause && loop().now() + delay.next() >= deadline)) {
      channel_.give_back(compound.take_message());
      co_return reply;
    }
    if (pause) co_await loop().sleep_for(delay.take());
  }
}

/// For recovery itself, which is what other calls wait for.
async::Task<Result<CompoundReply>> Session::call_in_recovery(Compound compound, async::TimePoint deadline) {
  async::Backoff delay(kFirstDelay, kMostDelay);
  for (;;) {
    Attempt attempt;
    auto reply = co_await call_once(compound, deadline, attempt, true);
    const bool wait = attempt.verdict == Verdict::again ||
                      (attempt.verdict == Verdict::answered && reply->status() == NFS4ERR_DELAY);
    if (!wait || loop().now() + delay.next() >= deadline) {
      channel_.give_back(compound.take_message());
      co_return reply;
    }
    co_await loop().sleep_for(delay.take());
  }
}

/// One request in one slot, from its first transmission to the answer that settles what became of it.
async::Task<Result<CompoundReply>> Session::call_once(Compound& compound, async::TimePoint deadline,
                                                      Attempt& attempt, bool recovering) {
  auto use = slots_.take_now();
  if (!use) use = co_await slots_.wait(deadline);
  if (!use) {
    co_return Error(ErrorKind::timeout, ETIMEDOUT, compound.what(), channel_.server(),
                    "no session slot came free in time; the server is not answering");
  }
  counters_.highest_slot = std::max(counters_.highest_slot, use->slot());
  // The session may have gone while this waited for a slot.
  if (recovering_ && !recovering) {
    use->unsent();
    attempt.verdict = Verdict::recover;
    co_return Error(ErrorKind::connection, EAGAIN, compound.what(), channel_.server(), "the session is gone");
  }
  // What is not idempotent is asked to be kept (RFC 8881 2.10.6.1.3). Only the attributes that come along
  // behind it could exceed what the server keeps, and those may be missing from a Reply.
  SEQUENCE4args sequence{facts_.session_id, use->sequence(), use->slot(), slots_.table().highest_busy(),
                         compound.modifies()};
  compound.set_sequence(sequence);
  const std::uint64_t epoch = facts_.epoch;
  Transmissions transmissions;
  async::Backoff pause(kFirstDelay, kMostDelay);
  bool high_lowered = false;
  for (;;) {
    rpc::Channel& channel = lanes_.route();
    const Lease::Sent sent = lease_.now();
    rpc::Outcome outcome = co_await channel.call(compound.release(facts_.max_response, deadline));
    compound.restore(std::move(outcome.message));
    transmissions.sent += outcome.sends;
    attempt.in_doubt = transmissions.in_doubt();
    CallCounters& counted = counters_.of(compound.what());
    counted.ended(compound.message(), outcome);
    // Its connection has ended, and there are others: the same request there, for the server to recognise.
    if (outcome.failure == rpcrdma::Failure::cancelled) continue;
    if (outcome.failure != rpcrdma::Failure::none) {
      if (!attempt.in_doubt) use->unsent();
      co_return *outcome.error;
    }
    CompoundReply reply(channel, std::move(*outcome.reply));
    reply.set_epoch(epoch);
    // RFC 8267 4.5: a Reply that cannot be used leaves the slot retired.
    const bool begun = reply.begin();
    counted.refused += begun && reply.status() == NFS4_OK ? 0 : 1;
    if (!begun) co_return rpc::refusal_error(reply.rpc_header(), compound.what(), channel_.server());
    SEQUENCE4res result;
    if (reply.take<op::SEQUENCE>(result)) {
      const bool current = use->current();
      use->answered();
      take_sequence(*result.get<NFS4_OK>(), current, sent, recovering);
      // Linux and Ganesha say so behind a good SEQUENCE. They keep the Replies that were asked to be kept.
      const bool lost = reply.status() == NFS4ERR_RETRY_UNCACHED_REP;
      attempt.in_doubt = lost;
      attempt.verdict = lost ? Verdict::again : Verdict::answered;
      co_return reply;
    }
    const nfsstat4 status = reply.failed_status();
    const Error error = error_of(reply, compound.what(), channel_.server());
    if (status == NFS4_OK) co_return error;  // it cannot be decoded: nobody knows what became of it
    ++transmissions.refused;
    attempt.in_doubt = transmissions.in_doubt();
    const bool current = use->current();
    switch (judge_sequence(status)) {
      case Refused::wait:
        if (loop().now() + pause.next() >= deadline) break;
        co_await loop().sleep_for(pause.take());
        continue;
      case Refused::bind: {
        lanes_.unbound(channel);
        bool bound = current && loop().now() + pause.next() < deadline;
        if (bound) bound = co_await lanes_.bind_again(channel, pause.take(), deadline);
        if (bound) continue;
        attempt.verdict = Verdict::recover;
        break;
      }
      case Refused::lower_high:
        if (!high_lowered && current) {
          high_lowered = true;
          sequence.sa_highest_slotid = sequence.sa_slotid;
          compound.set_sequence(sequence);
          continue;
        }
        attempt.verdict = Verdict::recover;
        break;
      case Refused::other_slot:
        if (status == NFS4ERR_BADSLOT && current) slots_.table().cut(use->slot());
        attempt.verdict = status == NFS4ERR_BADSLOT && use->slot() == 0 ? Verdict::recover : Verdict::again;
        use->retire();
        co_return error;
      case Refused::executed:
        use->answered();
        attempt.in_doubt = true;
        attempt.verdict = Verdict::again;
        co_return error;
      case Refused::session:
        attempt.verdict = Verdict::recover;
        break;
      case Refused::caller:
        break;
    }
    if (!attempt.in_doubt) use->unsent();
    // The session that it was sent on has been replaced meanwhile.
    if (attempt.verdict == Verdict::recover && !current && !recovering_) attempt.verdict = Verdict::again;
    if (attempt.verdict == Verdict::recover && recovering) attempt.verdict = Verdict::failed;
    co_return error;
  }
}

/// What a good SEQUENCE says of the session.
void Session::take_sequence(const SEQUENCE4resok& ok, bool current, const Lease::Sent& sent,
                            bool recovering) {
  lease_.renewed(sent);
  if (current) slots_.set_target(async::buggify(loop()) ? 0 : ok.sr_target_highest_slotid);
  if (!recovering) heed_flags(ok.sr_status_flags);
  if (async::buggify(loop(), 1)) start_recovery("a whim", true);
}

/// What a refused SEQUENCE asks for (RFC 8881 18.46.3, 2.10.6.1.3). None of it was executed by this try.
Session::Refused Session::judge_sequence(nfsstat4 status) {
  switch (status) {
    // The slot is not free: the server may be at work on an earlier transmission (Linux), or has not looked.
    // RFC 8881 15.1.1.3: the same slot and sequence id again.
    case NFS4ERR_DELAY:
      return Refused::wait;
    case NFS4ERR_CONN_NOT_BOUND_TO_SESSION:
      return Refused::bind;
    case NFS4ERR_BAD_HIGH_SLOT:
      return Refused::lower_high;
    // The server's table has no such slot, or stands elsewhere in it than we do.
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
