#include "nfs4/session.h"

#include <cerrno>

#include "async/backoff.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr async::Clock::duration kFirstDelay = 20ms, kMostDelay = 2s;

}  // namespace

Session::Session(rpc::Channel& channel, SessionOptions options, NoticeSink notices)
    : channel_(channel),
      options_(std::move(options)),
      notices_(std::move(notices)),
      slot_free_(channel.loop()),
      recovered_(channel.loop()),
      reopened_(channel.loop()),
      callbacks_(*this, CallbackOptions()),
      returned_(channel.loop()) {
  add_lane(channel).bound = true;  // CREATE_SESSION goes over it
}

Session::~Session() {
  for (const auto& lane : lanes_) {
    lane->channel.set_link_sink(nullptr);
    lane->channel.set_backward(nullptr);
    lane->channel.hold(false);
  }
  if (lease_timer_ != 0) loop().cancel(lease_timer_);
}

Compound Session::begin(const char* what, const Caller& caller) {
  return {channel_.take_message(), caller ? *caller : options_.credential, facts_.minor_version, what};
}

async::Task<Result<CompoundReply>> Session::call(Compound compound) {
  return call(std::move(compound), default_deadline());
}

async::Task<bool> Session::ready(async::TimePoint deadline) {
  while (recovering_) {
    const bool in_time = co_await recovered_.wait_until(deadline);
    if (!in_time) co_return false;
  }
  co_return true;
}

/// Notes what a call may change, before and behind it.
class Session::Modifying {
 public:
  Modifying(Session& session, const Changes& changes) : session_(session), changes_(changes) {
    session_.note(changes_);
  }
  ~Modifying() { session_.note(changes_); }
  Modifying(const Modifying&) = delete;
  Modifying& operator=(const Modifying&) = delete;

 private:
  Session& session_;
  const Changes changes_;
};

void Session::note(const Changes& changes) {
  if (changes.any) ++changed_any_;
  if (changes.handle) ++changed_[*changes.handle % changed_.size()];
}

async::Task<Result<CompoundReply>> Session::call(Compound compound, async::TimePoint deadline) {
  const Modifying scope(*this, compound.changes());
  async::Backoff delay(kFirstDelay, kMostDelay);
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
    Verdict verdict = Verdict::failed;
    auto reply = co_await call_once(compound, deadline, verdict, false);
    if (verdict == Verdict::retry) continue;
    if (verdict == Verdict::recover) {
      start_recovery("the session is gone");
      if (recovering_) continue;
      verdict = Verdict::failed;  // at the beginning or end of the session there is no recovery
    }
    if (verdict == Verdict::good) {
      const nfsstat4 status = reply->status();
      const bool wait = status == NFS4ERR_DELAY || status == NFS4ERR_GRACE;
      // What stands before the operation that failed would run again: harmless unless it changes something.
      if (!wait || reply->executed() > compound.first_modifying() + 1) {
        channel_.give_back(compound.take_message());
        co_return reply;
      }
    } else if (verdict == Verdict::failed) {
      channel_.give_back(compound.take_message());
      co_return reply;
    }
    if (loop().now() + delay.next() >= deadline) {
      channel_.give_back(compound.take_message());
      if (reply) co_return status_error(reply->status(), compound.what(), channel_.server());
      co_return reply;
    }
    co_await loop().sleep_for(delay.take());
  }
}

/// For recovery itself, which is what other calls wait for.
async::Task<Result<CompoundReply>> Session::call_in_recovery(Compound compound, async::TimePoint deadline) {
  async::Backoff delay(kFirstDelay, kMostDelay);
  for (;;) {
    Verdict verdict = Verdict::failed;
    auto reply = co_await call_once(compound, deadline, verdict, true);
    const bool wait =
        verdict == Verdict::again || (verdict == Verdict::good && reply->status() == NFS4ERR_DELAY);
    if (!wait || loop().now() + delay.next() >= deadline) {
      channel_.give_back(compound.take_message());
      co_return reply;
    }
    co_await loop().sleep_for(delay.take());
  }
}

async::Task<Result<CompoundReply>> Session::call_once(Compound& compound, async::TimePoint deadline,
                                                      Verdict& verdict, bool recovering) {
  verdict = Verdict::failed;
  // Whoever waits goes first.
  auto slot = slot_free_.awaited() ? std::nullopt : free_slot();
  if (!slot) slot = co_await wait_for_slot(deadline);
  if (!slot) {
    co_return Error(ErrorKind::timeout, ETIMEDOUT, compound.what(), channel_.server(),
                    "no session slot came free in time; the server is not answering");
  }
  SlotUse use(*this, *slot);
  // The session may have gone while this waited for a slot.
  if (recovering_ && !recovering) {
    use.put(false);
    verdict = Verdict::recover;
    co_return Error(ErrorKind::connection, EAGAIN, compound.what(), channel_.server(), "the session is gone");
  }
  compound.set_sequence(
      {facts_.session_id, slots_[*slot].sequence, *slot, highest_busy_, compound.modifies()});
  bool moved = false;
  for (;;) {
    rpc::Channel& channel = route();
    const async::TimePoint sent = loop().now();
    rpc::Outcome outcome = co_await channel.call(compound.release(facts_.max_response, deadline));
    compound.restore(std::move(outcome.message));
    CallCounters& counted = counters_.of(compound.what());
    counted.ended(compound.message(), outcome);
    if (outcome.failure == rpcrdma::Failure::cancelled) {
      // Its connection has ended, and there are others: the same request there, for the server to recognise.
      moved = true;
      continue;
    }
    if (outcome.failure != rpcrdma::Failure::none) {
      if (outcome.failure == rpcrdma::Failure::cannot_construct) use.put(false);  // it never left
      co_return *outcome.error;
    }
    CompoundReply reply(channel, std::move(*outcome.reply));
    // RFC 8267 4.5: a Reply that cannot be used leaves the slot retired.
    const bool begun = reply.begin();
    counted.refused += begun && reply.status() == NFS4_OK ? 0 : 1;
    if (!begun) co_return rpc::refusal_error(reply.rpc_header(), compound.what(), channel_.server());
    SEQUENCE4res sequence;
    if (reply.take<op::SEQUENCE>(sequence)) {
      last_renewal_ = loop().now();
      leased_until_ = std::max(leased_until_, sent + std::chrono::seconds(facts_.lease_seconds));
      const SEQUENCE4resok& ok = *sequence.get<NFS4_OK>();
      const std::uint32_t target = ok.sr_target_highest_slotid;
      const bool raised = use.current() && target > target_highest_;
      if (use.current()) target_highest_ = target;
      use.put(true);
      if (raised) slot_free_.notify_all();
      if (!recovering) heed_flags(ok.sr_status_flags);
      // Linux and Ganesha say so behind a good SEQUENCE. They keep the Replies that were asked to be kept,
      // those of Calls that change something: this one may be made anew.
      const bool not_kept = reply.status() == NFS4ERR_RETRY_UNCACHED_REP && !compound.modifies();
      verdict = not_kept ? Verdict::again : Verdict::good;
      co_return reply;
    }
    if (reply.failed_status() == NFS4_OK) co_return error_of(reply, compound.what(), channel_.server());
    if (moved && reply.failed_status() == NFS4ERR_DELAY && loop().now() + kFirstDelay < deadline) {
      // Still being executed for the connection that has ended: the slot stays taken.
      co_await loop().sleep_for(kFirstDelay);
      continue;
    }
    const bool current = use.current();
    verdict = judge_sequence(reply.failed_status(), use);
    // The session that it was sent on has been replaced meanwhile.
    if (verdict == Verdict::recover && !current && !recovering_) verdict = Verdict::retry;
    if (verdict == Verdict::recover && recovering) verdict = Verdict::failed;
    co_return error_of(reply, compound.what(), channel_.server());
  }
}

/// What a refused SEQUENCE means for its slot and its session (RFC 8881 18.46.3).
Session::Verdict Session::judge_sequence(nfsstat4 status, SlotUse& slot) {
  switch (status) {
    case NFS4ERR_DELAY:
      slot.put(false);
      return Verdict::again;
    case NFS4ERR_RETRY_UNCACHED_REP:
      // It was executed, and its Reply was not worth keeping: the same again, as a new request.
      slot.put(true);
      return Verdict::again;
    case NFS4ERR_BADSLOT:
    case NFS4ERR_BAD_HIGH_SLOT:
    case NFS4ERR_SEQ_MISORDERED:
    case NFS4ERR_SEQ_FALSE_RETRY:
    case NFS4ERR_BADSESSION:
    case NFS4ERR_DEADSESSION:
    case NFS4ERR_CONN_NOT_BOUND_TO_SESSION:
    case NFS4ERR_STALE_CLIENTID:
      slot.put(false);
      return Verdict::recover;
    default:
      slot.put(false);
      return Verdict::failed;
  }
}

void Session::heed_flags(std::uint32_t flags) {
  constexpr std::uint32_t kStateLost = SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED |
                                       SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED |
                                       SEQ4_STATUS_ADMIN_STATE_REVOKED | SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
  if ((flags & SEQ4_STATUS_RESTART_RECLAIM_NEEDED) != 0 && !reclaim_needed_) {
    reclaim_needed_ = true;
    start_recovery("the server restarted");
  } else if ((flags & kStateLost) == 0) {
    reclaim_needed_ = false;
  }
  heed_callback_flags(flags);
}

Error Session::error_of(const CompoundReply& reply, const char* what, const std::string& path) const {
  if (reply.failed_status() != NFS4_OK) return status_error(reply.failed_status(), what, path);
  return {ErrorKind::protocol, EPROTO, what, path,
          std::string("the server's answer cannot be decoded (") + xdr::to_string(reply.fault()) +
              "); please report this with a capture of the traffic"};
}

bool Session::is_lost_state(nfsstat4 status) {
  switch (status) {
    case NFS4ERR_BAD_STATEID:
    case NFS4ERR_STALE_STATEID:
    case NFS4ERR_OLD_STATEID:
    case NFS4ERR_EXPIRED:
    case NFS4ERR_ADMIN_REVOKED:
    case NFS4ERR_STALE_CLIENTID:
      return true;
    default:
      return false;
  }
}

// ---- the lease (RFC 8881 8.3): renewed by any SEQUENCE; one of its own where nothing else is sent ----

void Session::arm_lease() {
  if (lease_timer_ != 0) loop().cancel(lease_timer_);
  const auto third = std::chrono::milliseconds(std::int64_t{facts_.lease_seconds} * 1000 / 3 + 1);
  lease_timer_ = loop().at(last_renewal_ + third, [this, third] {
    lease_timer_ = 0;
    if (loop().now() - last_renewal_ >= third) {
      last_renewal_ = loop().now();
      if (!renewing_ && !closing_) loop().spawn(renew());
    }
    arm_lease();
  });
}

async::Task<void> Session::renew() {
  renewing_ = true;
  auto reply = co_await call(begin("SEQUENCE"), loop().now() + std::chrono::seconds(facts_.lease_seconds));
  renewing_ = false;  // a failure shows in the calls that people make; the next renewal tries again
}

}  // namespace nfsrdma::nfs4
