#include "nfs4/v40/sessionless.h"

#include <algorithm>
#include <cerrno>

#include "async/backoff.h"
#include "async/until.h"
#include "nfs4/pacing.h"
#include "nfs4/types/status.h"
#include "rpc/make_call.h"
#include "rpc/route.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;
using Room = Compound::Room;

/// Decides whether a request that was refused with BAD_SEQID is sent again with the next seqid that the server may expect.
class SeqidSearch {
 public:
  /// Called once for each answer. `other_seqid`: the answer is BAD_SEQID, and there is another seqid to try.
  bool goes_on(bool other_seqid) {
    // Any other answer ends the search, because the server has then accepted a seqid, or counts anew under another
    // client id. A request that waits for GRACE or DELAY begins a new search whenever a connection breaks meanwhile, so
    // a limit over all of its answers would fail a request that only has to wait.
    refused_in_a_row_ = other_seqid ? refused_in_a_row_ + 1 : 0;
    return other_seqid && refused_in_a_row_ < kMostInARow;
  }

 private:
  /// This covers the doubts that an owner may have (owners.h), and some tries under the owner's next name.
  static constexpr int kMostInARow = 6;
  int refused_in_a_row_ = 0;
};

/// Whether EXPIRED is said of the client id itself: the operation that ended with it has no stateid.
bool is_of_client(const Compound& compound, const CompoundReply& reply) {
  return std::ranges::any_of(compound.owned(), [&](const OwnedOperation& one) {
    return one.of_client_alone && one.index + 1 == reply.executed();
  });
}

/// Whether its OPEN went well, whatever became of what stands behind it.
bool has_opened(const Compound& compound, const CompoundReply& reply) {
  if (!compound.opens()) return false;
  return std::ranges::any_of(compound.owned(), [&](const OwnedOperation& one) {
    const bool is_last = one.index + 1 == reply.executed();
    return one.index < reply.executed() && (!is_last || reply.status() == NFS4_OK);
  });
}

/// Whether what the server says of a request that was sent twice is what it would say of one that it has done: EXIST of
/// our own CREATE, NOENT of our own REMOVE.
bool is_as_if_done(const Compound& compound, const CompoundReply& reply) {
  return !compound.repeatable() && reply.executed() == compound.first_modifying() + 1 &&
         (reply.status() == NFS4ERR_EXIST || reply.status() == NFS4ERR_NOENT);
}

Error too_late(const Compound& compound, const std::string& server) {
  return {ErrorKind::timeout, ETIMEDOUT, compound.what(), server,
          "no other call came to its end in time; the server is not answering"};
}

}  // namespace

Sessionless::Sessionless(std::vector<rpc::Channel*> channels, SessionOptions options, NoticeSink notices)
    : LeaseHolder(*channels.front(), std::move(options), std::move(notices), [](bool) {}),
      channels_(std::move(channels)),
      owners_(channel_.loop()),
      registration_(*this, options_),
      callbacks_(state_.delegations, options_.callback.ident),
      places_(channel_.loop(), options_.slots),
      recovered_(channel_.loop()),
      registering_(channel_.loop()) {}

Sessionless::~Sessionless() {
  phase_ = Phase::ending;
  for (rpc::Channel* const one : channels_) one->end_health_checks();
  beside_.drop();
}

async::Task<Status> Sessionless::open(async::TimePoint deadline) {
  if (auto done = co_await registration_.set_client(deadline); !done) co_return done;
  if (auto done = co_await registration_.fetch_limits(deadline); !done) co_return done;
  phase_ = Phase::open;
  lease_.arm();
  co_return Status();
}

async::Task<Status> Sessionless::close(async::TimePoint deadline) {
  phase_ = Phase::ending;
  (void)co_await ready(deadline);
  const bool all_returned = co_await state_.outstanding.none(end_of_waiting(deadline));
  lease_.stop();
  if (all_returned && !in_doubt_ && state_.opens.empty()) co_return Status();
  registration_.be_another_instance();
  co_return co_await registration_.set_client(deadline);
}

engine::ServerHoldings Sessionless::holdings() const {
  engine::ServerHoldings out = LeaseHolder::holdings();
  out.slots = options_.slots;
  out.slots_busy = places_.taken();
  return out;
}

std::size_t Sessionless::connections() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(channels_, [](const rpc::Channel* one) { return one->up(); }));
}

std::uint64_t Sessionless::connections_made() const {
  std::uint64_t out = 0;
  for (const rpc::Channel* one : channels_) out += one->generation();
  return out;
}

// ---- calls ----

async::Task<Result<CompoundReply>> Sessionless::call(Compound compound, async::TimePoint deadline) {
  if (auto error = gamble(compound)) co_return *std::move(error);
  const engine::Modifications::Scope scope(modifications_, compound.changes());
  async::Backoff delay(kFirstDelay, kMostDelay);
  std::uint32_t sends = 0;  // without those that the server asked to wait for
  int tries = 0;
  SeqidSearch seqids;
  for (;;) {
    // g++ 12 miscompiles a co_await behind "&&".
    bool is_ready = true;
    if (recovering()) is_ready = co_await ready(deadline);
    if (!is_ready) co_return not_recovered(compound, last_error_);
    Attempt attempt;
    const Lease::Sent sent = lease_.now();
    auto reply = co_await call_once(compound, deadline, attempt, false);
    sends += attempt.sends;
    if (attempt.too_late) continue;
    if (!reply) {
      const bool harmful = sends != 0 && !compound.repeatable();
      const Error why = harmful ? unknown_outcome(compound, reply.error()) : reply.error();
      channel_.give_back(compound.take_message());
      co_return why;
    }
    const nfsstat4 status = reply->status();
    if (compound.is_renewal() && (status == NFS4_OK || status == NFS4ERR_CB_PATH_DOWN)) lease_.renewed(sent);
    bool again = seqids.goes_on(attempt.other_seqid);
    bool pause = false;
    // The stateid may be one of before a restart that is known already. Who was told that it is stale finds another
    // one when it is over.
    if (status == NFS4ERR_STALE_STATEID && !compound.is_renewal()) (void)co_await call(renewal(), deadline);
    if (!again && heed(*reply, is_of_client(compound, *reply))) {
      again = true;
      pause = ++tries > kQuickTries;
    }
    // What stands before the operation that failed would run again: harmless unless it changes something.
    const bool waits =
        retry_of(status) == Retry::later && reply->executed() <= compound.first_modifying() + 1;
    if (waits) {
      pause = again = true;
      --sends;
    }
    if (!again || (pause && loop().now() + delay.next() >= deadline)) {
      channel_.give_back(compound.take_message());
      // The server did not look at what it asked to wait for, but may have executed what was sent before.
      const bool may_be_done =
          waits ? sends != 0 && !compound.repeatable() : sends > 1 && is_as_if_done(compound, *reply);
      if (may_be_done)
        co_return unknown_outcome(compound, status_error(status, compound.what(), channel_.server()));
      co_return reply;
    }
    reply->let_go();
    if (pause) co_await loop().sleep_for(delay.take());
  }
}

/// For recovery itself, which is what other calls wait for, and for the beginning.
async::Task<Result<CompoundReply>> Sessionless::call_in_recovery(Compound compound,
                                                                 async::TimePoint deadline) {
  async::Backoff delay(kFirstDelay, kMostDelay);
  for (SeqidSearch seqids;;) {
    Attempt attempt;
    auto reply = co_await call_once(compound, deadline, attempt, true);
    if (seqids.goes_on(reply && attempt.other_seqid)) continue;
    const nfsstat4 status = reply ? reply->status() : NFS4_OK;
    if (retry_of(status) == Retry::later && loop().now() + delay.next() < deadline) {
      co_await loop().sleep_for(delay.take());
      continue;
    }
    channel_.give_back(compound.take_message());
    const bool forgotten = status == NFS4ERR_STALE_CLIENTID || status == NFS4ERR_STALE_STATEID ||
                           (status == NFS4ERR_EXPIRED && is_of_client(compound, *reply));
    if (!forgotten) co_return reply;
    // Once more: all of it begins anew.
    registration_.lost();
    co_return Error(ErrorKind::connection, EAGAIN, compound.what(), channel_.server(),
                    "the server has forgotten this client again");
  }
}

async::Task<Result<CompoundReply>> Sessionless::call_over(rpc::Channel& channel, Compound& compound,
                                                          async::TimePoint deadline) {
  std::uint32_t sends = 0;
  const Turns none;
  co_return co_await transmit(channel, compound, deadline, none, sends);
}

async::Task<Result<CompoundReply>> Sessionless::call_once(Compound& compound, async::TimePoint deadline,
                                                          Attempt& attempt, bool for_recovery) {
  // Whoever has no ticket waits for one without a place that others wait for.
  if (rpc::Protection* const seal = compound.protection(); seal != nullptr && !seal->is_ready()) {
    if (auto ready = co_await seal->ready(deadline); !ready) co_return ready.error();
  }
  Turns turns;
  if (auto taken = co_await take_turns(compound, deadline, turns); !taken) co_return taken.error();
  // The lease does not wait for anybody.
  const bool first = for_recovery || compound.is_renewal();
  if (!first && places_.must_wait()) {
    ++counters_.slot_waits;
    const bool in_time = co_await places_.wait(deadline);
    if (!in_time) co_return too_late(compound, channel_.server());
  }
  const async::Places::Place place(places_);
  // Meanwhile the client id may have gone.
  if (recovering() && !for_recovery) {
    attempt.too_late = true;
    co_return too_late(compound, channel_.server());
  }
  rpc::Channel* const only = compound.over();
  rpc::Channel& channel = only != nullptr ? *only : rpc::route(channels_, compound.data_size());
  auto reply = co_await transmit(channel, compound, deadline, turns, attempt.sends);
  attempt.other_seqid = turns.try_again();
  // Not of an OPEN that was refused: whoever has the Reply in hand may ask again, and would wait for himself.
  if (reply && has_opened(compound, *reply)) reply->keep_turn(turns.open);
  co_return reply;
}

async::Task<Status> Sessionless::take_turns(const Compound& compound, async::TimePoint deadline,
                                            Turns& turns) {
  using enum OwnedOperation::Whose;
  bool in_time = true;
  // In this order always.
  if (compound.open_owner()) {
    turns.open = co_await owners_.take(open_owner, *compound.open_owner(), deadline);
    in_time = turns.open != nullptr;
  }
  if (in_time && compound.lock_owner()) {
    turns.lock = co_await owners_.take(lock_owner, *compound.lock_owner(), deadline);
    in_time = turns.lock != nullptr;
  }
  if (in_time) co_return Status();
  co_return Error(ErrorKind::timeout, ETIMEDOUT, compound.what(), channel_.server(),
                  "an earlier request of the same owner has not come to its end in time");
}

void Sessionless::fill_in(Compound& compound, const Turns& turns) {
  using enum OwnedOperation::Whose;
  for (const OwnedOperation& one : compound.owned()) {
    const Turn& turn = one.whose == lock_owner ? turns.lock : turns.open;
    const bool counted = one.whose != nobody && turn != nullptr;
    const seqid4 seqid = counted && one.seqid_at != 0 ? turn->seqid(facts().epoch) : 0;
    compound.fill_in(one, facts().client_id, seqid, counted ? turn->generation() : 0);
  }
}

/// One xid: as often as it takes, until there is an answer or the deadline.
async::Task<Result<CompoundReply>> Sessionless::transmit(rpc::Channel& channel, Compound& compound,
                                                         async::TimePoint deadline, const Turns& turns,
                                                         std::uint32_t& sends) {
  fill_in(compound, turns);
  const std::uint64_t epoch = facts().epoch;
  rpc::Outcome outcome = co_await rpc::make_call(
      channel, compound.release(xdr::kUnbounded, deadline, Room::usual), compound.protection());
  compound.restore(std::move(outcome.message));
  // RFC 8267 4.2.1: once more where the Reply may be larger, and is.
  const bool too_large = outcome.failure == rpcrdma::Failure::err_chunk;
  if (too_large && compound.reply_size().beyond != 0 && !compound.modifies()) {
    sends += outcome.sends;
    outcome = co_await rpc::make_call(channel, compound.release(xdr::kUnbounded, deadline, Room::most),
                                      compound.protection());
    compound.restore(std::move(outcome.message));
  }
  sends += outcome.sends;
  auto reply = reply_of(channel, compound, outcome);
  judge(compound, turns, reply, outcome.sends);
  if (!reply && outcome.sends != 0 && !compound.owned().empty()) in_doubt_ = true;
  if (reply) reply->set_epoch(epoch);
  // What an owner has opened stays behind with the name that it gives up.
  if (reply && reply->status() == NFS4ERR_BAD_SEQID) in_doubt_ = true;
  co_return reply;
}

/// What became of the seqids.
void Sessionless::judge(const Compound& compound, const Turns& turns, const Result<CompoundReply>& reply,
                        std::uint32_t sends) {
  for (const OwnedOperation& one : compound.owned()) {
    const Turn& turn = one.whose == OwnedOperation::Whose::lock_owner ? turns.lock : turns.open;
    if (one.seqid_at == 0 || turn == nullptr) continue;
    if (!reply || one.index >= reply->executed()) {
      // Whoever answers has not come to it. Where it was sent before, over another connection, it may have been executed.
      const bool in_doubt = reply ? sends > 1 : sends != 0;
      in_doubt ? turn->doubt() : turn->unsent();
    } else {
      const bool last = one.index + 1 == reply->executed();
      turn->answered(last ? reply->status() : NFS4_OK, one.generation_at != 0, sends - 1);
    }
  }
}

/// The client id of the Reply's request is gone. False: and it is not had anew, as at the end of the session.
bool Sessionless::is_had_anew(const CompoundReply& reply, const char* why) {
  if (reply.epoch() != facts().epoch) return true;
  start_recovery(why);
  return recovering_;
}

/// What a Reply says of the client id, which the request named or did not. True: it is had anew now, or has been since
/// the request was sent.
bool Sessionless::heed(const CompoundReply& reply, bool named) {
  switch (reply.status()) {
    case NFS4ERR_STALE_CLIENTID:
      return is_had_anew(reply, "the server has restarted");
    case NFS4ERR_EXPIRED:
      return named && is_had_anew(reply, "the lease has expired");
    case NFS4ERR_CB_PATH_DOWN:
      if (!ending()) beside_.spawn(renew_callback());
      return false;
    default:
      return false;
  }
}

/// Nothing where a recovery is under way, which says it as well.
async::Task<void> Sessionless::renew_callback() {
  const async::Mutex::Lock turn = co_await registering_.lock(default_deadline());
  if (!turn || recovering_) co_return;
  const std::uint64_t before = facts().epoch;
  (void)co_await registration_.set_client(default_deadline());
  // The server turns out to know nothing of the client id: what there was under it is to be had again.
  if (facts().client_id == 0 || facts().epoch != before) start_recovery("the server has restarted");
}

// ---- owners ----

async::Task<Status> Sessionless::settle_owner(CompoundReply& reply, OPEN4resok& ok, nfs_fh4 file,
                                              Caller caller) {
  const bool unconfirmed = (ok.rflags & OPEN4_RESULT_CONFIRM) != 0;
  const Turns turns{std::static_pointer_cast<Owners::Turn>(reply.turn()), nullptr};
  reply.let_go();
  if (!turns.open) co_return Status();
  if (!turns.open->opened(ok.stateid)) co_return repeated_answer(channel_.server());
  if (!unconfirmed) co_return Status();
  const async::TimePoint deadline = default_deadline();
  async::Backoff delay(kFirstDelay, kMostDelay);
  Compound compound = begin_on(file, "OPEN_CONFIRM", caller);
  compound.add<op::OPEN_CONFIRM>({ok.stateid, 0});
  for (SeqidSearch seqids;;) {
    std::uint32_t sends = 0;
    auto confirmed = co_await transmit(rpc::route(channels_, 0), compound, deadline, turns, sends);
    if (!confirmed) co_return confirmed.error();
    if (seqids.goes_on(turns.try_again())) continue;
    if (confirmed->status() == NFS4ERR_DELAY && loop().now() + delay.next() < deadline) {
      co_await loop().sleep_for(delay.take());
      continue;
    }
    channel_.give_back(compound.take_message());
    OPEN_CONFIRM4res res;
    if (confirmed->take<op::PUTFH>() && confirmed->take<op::OPEN_CONFIRM>(res)) {
      ok.stateid = res.get<NFS4_OK>()->open_stateid;
      co_return Status();
    }
    // What was opened is gone already: whoever uses it finds out, and has it again.
    const nfsstat4 status = confirmed->failed_status();
    (void)heed(*confirmed, false);
    if (is_lost_state(status)) co_return Status();
    co_return error_of(*confirmed, "OPEN_CONFIRM", channel_.server());
  }
}

void Sessionless::check_connections(std::chrono::milliseconds every) {
  for (rpc::Channel* const one : channels_)
    one->check_health(every, NFS_V4, [this, one] { return renew_over(*one); });
}

Compound Sessionless::renewal() {
  Compound compound = begin("RENEW", nullptr);
  compound.add<op::RENEW>({facts().client_id});
  return compound;
}

void Sessionless::forget_lock_owner(std::uint64_t unique) {
  owners_.forget(OwnedOperation::Whose::lock_owner, unique);
}

// ---- recovery ----

void Sessionless::start_recovery(const char* why, bool /*works*/) {
  if (recovering_ || phase_ != Phase::open) return;
  recovering_ = true;
  registration_.lost();
  ++counters_.recoveries;
  notice(channel_.server() + ": " + why + ", recovering");
  beside_.spawn(recover());
}

async::Task<bool> Sessionless::ready(async::TimePoint deadline) {
  return async::until(recovered_, deadline, [this] { return !recovering_; });
}

async::Task<void> Sessionless::recover() {
  async::Backoff delay(100ms, 5s);
  for (;;) {
    const auto done = co_await recover_once(loop().now() + options_.timeout);
    if (done) break;
    last_error_ = done.error();
    co_await loop().sleep_for(delay.take());
  }
  last_error_.reset();
  recovering_ = false;
  notice(channel_.server() + ": recovered");
  recovered_.notify_all();
}

async::Task<Status> Sessionless::recover_once(async::TimePoint deadline) {
  const Lease::Sent sent = lease_.now();
  {
    const async::Mutex::Lock turn = co_await registering_.lock(deadline);
    if (!turn) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "SETCLIENTID", channel_.server(),
                      "the one before has not come to its end in time");
    }
    if (auto done = co_await registration_.set_client(deadline); !done) co_return done;
  }
  lease_.renewed(sent);
  if (auto done = co_await state_.open_recovery.reclaim_all(deadline); !done) co_return done;
  // Another server program may have come up. One that does not say keeps what it had.
  (void)co_await registration_.fetch_limits(deadline);
  lease_.arm();
  co_return Status();
}

}  // namespace nfsrdma::nfs4
