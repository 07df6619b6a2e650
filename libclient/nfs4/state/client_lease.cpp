#include "nfs4/state/client_lease.h"

#include <algorithm>
#include <cerrno>

#include "async/backoff.h"
#include "nfs4/compound/pacing.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

/// The most that surrounds the data of a READ's Reply or a WRITE's Call. Handshake refuses sessions
/// that are not larger.
constexpr std::uint32_t kDataEnvelope = 1024;

}  // namespace

ClientLease::ClientLease(rpc::Channel& first, SessionOptions options, NoticeSink notices,
                         Delegations::HoldSink hold)
    : channel_(first),
      options_(std::move(options)),
      notices_(std::move(notices)),
      lease_(*this),
      state_(*this, lease_, modifications_, counters_, options_.recover_expired_locks, std::move(hold)),
      background_(first.loop()) {}

Compound ClientLease::begin(const char* what, const Caller& caller, security::Mark mark) {
  return {channel_.take_message(), options_.flavor->vouch_by(mark, caller),
          facts().minor_version,   what,
          version().has_sequence,  mark};
}

// ---- calls ----

bool ClientLease::is_put_off(const Compound& compound, const CompoundReply& reply) {
  return retry_of(reply.status()) == Retry::later && reply.executed() <= compound.first_modifying() + 1 &&
         !compound.has_what_it_needs(reply.executed());
}

async::Task<Result<CompoundReply>> ClientLease::call(Compound&& compound, async::TimePoint deadline,
                                                     std::unique_ptr<SentRequest> sent_request) {
  return call_loop(std::move(compound), {.deadline = deadline, .sent_request = std::move(sent_request)});
}

async::Task<Result<CompoundReply>> ClientLease::call_in_recovery(Compound&& compound,
                                                                 async::TimePoint deadline) {
  return call_loop(std::move(compound), {.deadline = deadline, .for_recovery = true});
}

async::Task<Result<CompoundReply>> ClientLease::call_loop(Compound compound, Course course) {
  std::optional<engine::Modifications::Scope> scope;
  if (!course.for_recovery) {
    if (auto error = gamble(compound)) co_return *std::move(error);
    scope.emplace(modifications_, compound.changes());
  }
  async::Backoff delay(kFirstDelay, kMostDelay);
  int tries = 0;
  for (;;) {
    // A request that the fast path has sent holds a slot, which a recovery may wait for, so it must not
    // wait. (g++ 12 miscompiles a co_await behind "&&".)
    bool is_ready = true;
    if (recovering() && !course.for_recovery && !course.sent_request)
      is_ready = co_await ready(course.deadline);
    if (!is_ready) co_return not_recovered(compound);
    if (!compound.is_wanted()) {
      channel_.give_back(compound.take_message());
      co_return not_wanted(compound);
    }
    Attempt attempt;
    auto reply = co_await this->attempt(compound, course, attempt);
    if (attempt.verdict != Verdict::answered) co_await settle(compound, reply, course, attempt);

    const bool answered = attempt.verdict == Verdict::answered;
    const bool harmful = course.in_doubt && !compound.repeatable() && !course.for_recovery;
    bool again = attempt.verdict == Verdict::again || attempt.verdict == Verdict::at_once;
    bool pause = attempt.verdict == Verdict::again && (course.for_recovery || ++tries > kQuickTries);
    if (answered) {
      pause = again =
          course.for_recovery ? retry_of(reply->status()) == Retry::later : is_put_off(compound, *reply);
    }
    const bool in_time = !pause || loop().now() + delay.next() < course.deadline;
    if (!again || !in_time || (harmful && !answered)) {
      channel_.give_back(compound.take_message());
      // The server did not execute the transmission that it asked to wait with, but may have executed an
      // earlier one.
      const bool unknown = harmful && (again || !answered);
      if (!unknown && !attempt.error) co_return reply;
      Error why = attempt.error ? *std::move(attempt.error)
                  : reply       ? status_error(reply->status(), compound.what(), channel_.server())
                                : reply.error();
      if (unknown) co_return unknown_outcome(compound, why);
      co_return why;
    }
    if (reply) reply->let_go();
    if (pause) co_await loop().sleep_for(delay.take());
  }
}

engine::ServerHoldings ClientLease::holdings() const {
  engine::ServerHoldings out;
  out.opens = state_.opens.size();
  out.delegations = state_.delegations.count();
  out.locks = state_.opens.locks();
  return out;
}

std::size_t ClientLease::most_read() const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(facts().max_read, facts().max_response - kDataEnvelope));
}
std::size_t ClientLease::most_written() const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(facts().max_write, facts().max_request - kDataEnvelope));
}

bool ClientLease::renew_over(rpc::Channel& channel) {
  if (!takes_calls()) return false;
  Compound compound = renewal();
  compound.over(channel);
  rpc::Protection* const protection = compound.protection();
  // Without a ticket the call would wait, and nothing would be sent.
  const bool is_ready = protection == nullptr || protection->is_ready();
  if (is_ready) background_.spawn(ask_in_background(std::move(compound)));
  return is_ready;
}

async::Task<void> ClientLease::ask_in_background(Compound compound) {
  const auto deadline = loop().now() + std::chrono::seconds(facts().lease_seconds);
  auto reply = co_await call(std::move(compound), deadline);
}

Result<CompoundReply> ClientLease::reply_of(rpc::Channel& channel, const Compound& compound,
                                            rpc::Outcome& outcome) {
  engine::CallCounters& counted = counters_.of(compound.what());
  counted.ended(compound.message(), outcome);
  if (outcome.failure != rpcrdma::Failure::none) return *outcome.error;
  CompoundReply reply(channel, std::move(*outcome.reply));
  reply.set_mark(compound.mark());
  const Status begun = reply.begin(compound.protection(), compound.what(), channel_.server());
  counted.refused += begun && reply.status() == NFS4_OK ? 0 : 1;
  if (!begun) return begun.error();
  return reply;
}

std::optional<Error> ClientLease::gamble(const Compound& compound) const {
  if (!compound.is_a_gamble()) return std::nullopt;
  return Error(ErrorKind::usage, EINVAL, compound.what(), channel_.server(),
               "a request that changes something must not contain an operation whose reply has no size "
               "limit; please report this");
}

Error ClientLease::unknown_outcome(const Compound& compound, const Error& why) const {
  // A refusal may be the effect of an earlier transmission, so its errno says nothing of the outcome.
  return {ErrorKind::unknown_outcome,
          why.kind() == ErrorKind::server ? EIO : why.errno_value(),
          why.status(),
          compound.what(),
          channel_.server(),
          why.message() + "; whether the server did it is not known: check before you repeat it"};
}

Error ClientLease::not_wanted(const Compound& compound) const {
  return {ErrorKind::cancelled, EINTR, compound.what(), channel_.server(), "the call is no longer needed"};
}

Error ClientLease::not_recovered(const Compound& compound) const {
  std::string text = "the session with the server could not be recovered in time";
  if (const auto& last = recovery().last_error()) text += " (" + last->text() + ")";
  return {ErrorKind::timeout, ETIMEDOUT, compound.what(), channel_.server(),
          text + "; check the server, or give more time with timeo="};
}

}  // namespace nfsrdma::nfs4
