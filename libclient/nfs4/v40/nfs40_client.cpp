#include "nfs4/v40/nfs40_client.h"

#include <algorithm>
#include <cerrno>

#include "async/backoff.h"
#include "async/until.h"
#include "nfs4/compound/pacing.h"
#include "rpc/make_call.h"
#include "rpc/route.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;
using Room = Compound::Room;

/// Whether EXPIRED concerns the client id itself: the operation that ended with it has no stateid.
bool is_of_client(const Compound& compound, const CompoundReply& reply) {
  return std::ranges::any_of(compound.owned(), [&](const OwnedOperation& one) {
    return one.of_client_alone && one.index + 1 == reply.executed();
  });
}

/// Whether the OPEN in the compound succeeded, whatever became of the operations behind it.
bool has_opened(const Compound& compound, const CompoundReply& reply) {
  if (!compound.opens()) return false;
  return std::ranges::any_of(compound.owned(), [&](const OwnedOperation& one) {
    const bool is_last = one.index + 1 == reply.executed();
    return one.index < reply.executed() && (!is_last || reply.status() == NFS4_OK);
  });
}

/// Whether the server's answer to a request that was sent twice could be the effect of its first
/// transmission: EXIST after this client's own CREATE, NOENT after its own REMOVE.
bool is_as_if_done(const Compound& compound, const CompoundReply& reply) {
  return !compound.repeatable() && reply.executed() == compound.first_modifying() + 1 &&
         (reply.status() == NFS4ERR_EXIST || reply.status() == NFS4ERR_NOENT);
}

Error too_late(const Compound& compound, const std::string& server) {
  return {ErrorKind::timeout, ETIMEDOUT, compound.what(), server,
          "earlier calls have not completed in time; the server is not answering"};
}

}  // namespace

Nfs40Client::Nfs40Client(std::vector<rpc::Channel*> channels, SessionOptions options, NoticeSink notices)
    : ClientLease(*channels.front(), std::move(options), std::move(notices), [](bool) {}),
      channels_(std::move(channels)),
      owners_(channel_.loop()),
      registration_(*this, options_),
      callbacks_(state_.delegations, options_.callback.ident),
      places_(channel_.loop(), options_.slots),
      recovery_({*this, registration_, state_, lease_, counters_, options_.timeout}) {}

Nfs40Client::~Nfs40Client() {
  phase_ = Phase::ending;
  for (rpc::Channel* const one : channels_) one->end_health_checks();
  background_.drop();
}

async::Task<Status> Nfs40Client::open(async::TimePoint deadline) {
  if (auto done = co_await registration_.set_client(deadline); !done) co_return done;
  if (auto done = co_await registration_.fetch_limits(deadline); !done) co_return done;
  phase_ = Phase::open;
  lease_.arm();
  co_return Status();
}

async::Task<Status> Nfs40Client::close(async::TimePoint deadline) {
  phase_ = Phase::ending;
  (void)co_await ready(deadline);
  const bool all_returned = co_await state_.outstanding.none(end_of_waiting(deadline));
  lease_.stop();
  if (all_returned && !in_doubt_ && state_.opens.empty()) co_return Status();
  registration_.be_another_instance();
  co_return co_await registration_.set_client(deadline);
}

engine::ServerHoldings Nfs40Client::holdings() const {
  engine::ServerHoldings out = ClientLease::holdings();
  out.slots = options_.slots;
  out.slots_busy = places_.taken();
  return out;
}

std::size_t Nfs40Client::connections() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(channels_, [](const rpc::Channel* one) { return one->up(); }));
}

std::uint64_t Nfs40Client::connections_made() const {
  std::uint64_t out = 0;
  for (const rpc::Channel* one : channels_) out += one->generation();
  return out;
}

// ---- calls ----

async::Task<Result<CompoundReply>> Nfs40Client::call_over(rpc::Channel& channel, Compound& compound,
                                                          async::TimePoint deadline) {
  std::uint32_t sends = 0;
  const Turns none;
  co_return co_await transmit(channel, compound, deadline, none, sends);
}

async::Task<Result<CompoundReply>> Nfs40Client::attempt(Compound& compound, Course& course,
                                                        Attempt& attempt) {
  const Lease::Sent sent = lease_.now();
  // A caller without a ticket waits for one before it takes a place, which other calls may be waiting for.
  if (rpc::Protection* const seal = compound.protection(); seal != nullptr && !seal->is_ready()) {
    if (auto ready = co_await seal->ready(course.deadline); !ready) co_return ready.error();
  }
  Turns turns;
  if (auto taken = co_await take_turns(compound, course.deadline, turns); !taken) co_return taken.error();
  // A recovery, and a renewal of the lease, do not wait for a place.
  const bool first = course.for_recovery || compound.is_renewal();
  if (!first && places_.must_wait()) {
    ++counters_.slot_waits;
    const bool in_time = co_await places_.wait(course.deadline);
    if (!in_time) co_return too_late(compound, channel_.server());
  }
  const async::Places::Place place(places_);
  for (;;) {
    // The client id, or the reason for the call, may have been lost during the wait.
    if ((recovering() && !course.for_recovery) || !compound.is_wanted()) {
      attempt.verdict = Verdict::at_once;
      co_return too_late(compound, channel_.server());
    }
    rpc::Channel* const only = compound.over();
    rpc::Channel& channel = only != nullptr ? *only : rpc::route(channels_, compound.data_size());
    auto reply = co_await transmit(channel, compound, course.deadline, turns, course.sends);
    if (!reply) co_return reply;
    // The turns are kept until a seqid fits, so that no other request of the owners intervenes.
    if (turns.try_again()) continue;
    const nfsstat4 status = reply->status();
    attempt.verdict = status == NFS4_OK ? Verdict::answered : Verdict::unsettled;
    // The turn is not kept if the OPEN was refused: the holder of the Reply may send another OPEN, which would
    // wait for it.
    if (has_opened(compound, *reply)) reply->keep_turn(turns.open);
    if (compound.is_renewal() && (status == NFS4_OK || status == NFS4ERR_CB_PATH_DOWN)) lease_.renewed(sent);
    co_return reply;
  }
}

async::Task<void> Nfs40Client::settle(const Compound& compound, const Result<CompoundReply>& reply,
                                      Course& course, Attempt& attempt) {
  course.in_doubt = false;
  if (attempt.verdict == Verdict::at_once) co_return;
  if (!reply) {
    course.in_doubt = course.sends != 0;
    co_return;
  }
  const nfsstat4 status = reply->status();
  const bool names_client = is_of_client(compound, *reply);
  attempt.verdict = Verdict::answered;
  if (course.for_recovery) {
    const bool forgotten = status == NFS4ERR_STALE_CLIENTID || status == NFS4ERR_STALE_STATEID ||
                           (status == NFS4ERR_EXPIRED && names_client);
    if (!forgotten) co_return;
    // The client id is lost again, so the whole recovery begins anew.
    registration_.lost();
    attempt.verdict = Verdict::failed;
    attempt.error = Error(ErrorKind::connection, EAGAIN, compound.what(), channel_.server(),
                          "the server has forgotten this client again");
  } else if (status == NFS4ERR_STALE_STATEID && !compound.is_renewal()) {
    // The stateid may be from before a restart. If this client does not know of the restart yet, RENEW
    // reveals it. The RENEW ends after the recovery, and the caller then finds another stateid.
    (void)co_await call(renewal(), course.deadline);
  } else if (handle_reply(*reply, names_client)) {
    attempt.verdict = Verdict::again;
  } else if (is_put_off(compound, *reply)) {
    // The server did not execute this transmission, but may have executed an earlier one.
    course.in_doubt = --course.sends != 0;
  } else if (course.sends > 1 && is_as_if_done(compound, *reply)) {
    course.in_doubt = true;
    attempt.verdict = Verdict::failed;
  }
}

async::Task<Status> Nfs40Client::take_turns(const Compound& compound, async::TimePoint deadline,
                                            Turns& turns) {
  using enum OwnedOperation::Whose;
  bool in_time = true;
  // The turns are always taken in this order, so that two calls cannot wait for each other.
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
                  "an earlier request of the same open or lock owner has not completed in time");
}

void Nfs40Client::fill_in(Compound& compound, const Turns& turns) {
  using enum OwnedOperation::Whose;
  for (const OwnedOperation& one : compound.owned()) {
    const Turn& turn = one.whose == lock_owner ? turns.lock : turns.open;
    const bool counted = one.whose != nobody && turn != nullptr;
    const seqid4 seqid = counted && one.seqid_at != 0 ? turn->seqid(facts().epoch) : 0;
    compound.fill_in(one, facts().client_id, seqid, counted ? turn->generation() : 0);
  }
}

/// Sends the request under one xid, as often as needed, until there is an answer or the deadline comes.
async::Task<Result<CompoundReply>> Nfs40Client::transmit(rpc::Channel& channel, Compound& compound,
                                                         async::TimePoint deadline, const Turns& turns,
                                                         std::uint32_t& sends) {
  fill_in(compound, turns);
  compound.choose_stateid();
  const std::uint64_t epoch = facts().epoch;
  rpc::Outcome outcome = co_await rpc::make_call(
      channel, compound.release(xdr::kUnbounded, deadline, Room::usual), compound.protection());
  compound.restore(std::move(outcome.message));
  // RFC 8267 4.2.1: if the Reply may be larger than usual, and is, the request is sent once more with room
  // for that.
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
  // State that an owner opened stays at the server under the name that the owner gives up.
  if (reply && reply->status() == NFS4ERR_BAD_SEQID) in_doubt_ = true;
  co_return reply;
}

/// Tells the turns what became of their seqids.
void Nfs40Client::judge(const Compound& compound, const Turns& turns, const Result<CompoundReply>& reply,
                        std::uint32_t sends) {
  for (const OwnedOperation& one : compound.owned()) {
    const Turn& turn = one.whose == OwnedOperation::Whose::lock_owner ? turns.lock : turns.open;
    if (one.seqid_at == 0 || turn == nullptr) continue;
    if (!reply || one.index >= reply->executed()) {
      // The answered transmission did not get to this operation. An earlier one, over another connection, may
      // have executed it.
      const bool in_doubt = reply ? sends > 1 : sends != 0;
      in_doubt ? turn->doubt() : turn->unsent();
      continue;
    }
    const bool last = one.index + 1 == reply->executed();
    const nfsstat4 status = last ? reply->status() : NFS4_OK;
    // The first LOCK of a lock owner is listed for the open owner, and then for the lock owner.
    const bool has_two = std::ranges::count(compound.owned(), one.index, &OwnedOperation::index) == 2;
    if (status != NFS4ERR_BAD_SEQID || !has_two)
      turn->answered(status, one.generation_at != 0, sends - 1);
    else if (turn == turns.lock)
      Owners::Turn::refused_both(*turns.open, *turns.lock);
  }
}

/// Called when the client id under which the request was sent is gone. Returns false if it is not being
/// recovered either, as at the end of the session.
bool Nfs40Client::is_had_anew(const CompoundReply& reply, const char* why) {
  if (reply.epoch() != facts().epoch) return true;
  start_recovery(why);
  return recovering();
}

/// Acts on what a Reply says of the client id. `named`: the request named the client id. Returns true if the
/// client id is being recovered, or has been since the request was sent.
bool Nfs40Client::handle_reply(const CompoundReply& reply, bool named) {
  switch (reply.status()) {
    case NFS4ERR_STALE_CLIENTID:
      return is_had_anew(reply, "the server has restarted");
    case NFS4ERR_EXPIRED:
      return named && is_had_anew(reply, "the lease has expired");
    case NFS4ERR_CB_PATH_DOWN:
      if (!ending()) background_.spawn(renew_callback());
      return false;
    default:
      return false;
  }
}

/// Announces the callback address anew. Does nothing during a recovery, which announces it as well.
async::Task<void> Nfs40Client::renew_callback() {
  const async::Mutex::Lock turn = co_await registration_.turn().lock(default_deadline());
  if (!turn || recovering()) co_return;
  const std::uint64_t before = facts().epoch;
  (void)co_await registration_.set_client(default_deadline());
  // The server did not know the client id any more, so the state under it must be recovered.
  if (facts().client_id == 0 || facts().epoch != before) start_recovery("the server has restarted");
}

// ---- owners ----

async::Task<Status> Nfs40Client::settle_owner(CompoundReply& reply, OPEN4resok& ok, nfs_fh4 file,
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
  for (;;) {
    std::uint32_t sends = 0;
    auto confirmed = co_await transmit(rpc::route(channels_, 0), compound, deadline, turns, sends);
    if (!confirmed) co_return confirmed.error();
    if (turns.try_again()) continue;
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
    // The state that was opened is gone already. The call that uses it finds this out, and has the file
    // opened again.
    const nfsstat4 status = confirmed->failed_status();
    (void)handle_reply(*confirmed, false);
    if (is_lost_state(status)) co_return Status();
    co_return error_of(*confirmed, "OPEN_CONFIRM", channel_.server());
  }
}

void Nfs40Client::check_connections(std::chrono::milliseconds every) {
  for (rpc::Channel* const one : channels_)
    one->check_health(every, NFS_V4, [this, one] { return renew_over(*one); });
}

Compound Nfs40Client::renewal() {
  Compound compound = begin("RENEW", nullptr);
  compound.add<op::RENEW>({facts().client_id});
  return compound;
}

void Nfs40Client::forget_lock_owner(std::uint64_t unique) {
  owners_.forget(OwnedOperation::Whose::lock_owner, unique);
}

}  // namespace nfsrdma::nfs4
