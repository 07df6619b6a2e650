// The base class of an NFSv4 client of any minor version towards one server, and the owner of what it
// has there: a lease, the state that lasts as long as the lease, and calls that recover the state if
// the server has lost it.
//
// A call, from top to bottom (call_loop() in client_lease.cpp):
//   no recovery is under way → attempt() → if there is no good answer, settle() finds out what became of the
//   request → the call is made again, or the Reply goes to the caller, whose operations may still have failed.
// A call is made again if the server has lost what the request relied on and a recovery brings it back, and,
// with pauses that grow, if the server answers DELAY or GRACE. If the server may have executed a request that
// must not be executed twice (Compound::repeatable() is false), the call ends with
// ErrorKind::unknown_outcome, and its caller looks at the names (files/outcome.cpp).
//
// The versions differ in how an attempt is made:
//
//   Session      (session/session.h)   NFSv4.1 and 4.2: slots, which have each request executed once
//   Nfs40Client  (v40/nfs40_client.h)  NFSv4.0: owners, whose requests come one after the other
//
// The engine (files/engine.h) and its parts stand on this class. They know the minor version only where an
// operation differs (compound/minor_version.h). State that belongs to the client id, rather than to the way
// of calling, is owned and handed out here:
//
//   delegations()    delegations: taken, recalled, returned
//   opens()          the registry of open files; openings(): OPENs under way
//   open_recovery()  opens that the server has forgotten; lock_recovery(): byte-range locks
//   leftovers()      state without a user, which is given back
//   modifications()  operations of this client that may change attributes
//   crossings()      places where the server wants another flavour
//   hole_reads()     which reads are made by READ_PLUS
//   close_batch()    CLOSEs that are sent together
//   lock_waits()     tasks that wait for CB_NOTIFY_LOCK; copies(): tasks that wait for CB_OFFLOAD
//
// Confined to the thread that runs the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "async/tasks.h"
#include "engine/fast_read.h"
#include "engine/shard.h"
#include "engine/statistics.h"
#include "nfs4/compound/call_layer.h"
#include "nfs4/state/background_copies.h"
#include "nfs4/state/client_state.h"
#include "nfs4/state/close_batch.h"
#include "nfs4/state/crossing.h"
#include "nfs4/state/hole_reads.h"
#include "nfs4/state/lease.h"
#include "nfs4/state/lock_waits.h"
#include "nfs4/state/recovery.h"
#include "nfs4/state/sent_request.h"

namespace nfsrdma::nfs4 {

class FastReadFile;

class ClientLease : public CallLayer {
 public:
  using NoticeSink = std::function<void(const std::string&)>;

  /// Obtains the client id and whatever else is needed to make calls. The first channel is connected.
  virtual async::Task<Status> open(async::TimePoint deadline) = 0;
  /// Tells the server that the client is gone, as far as it answers in time.
  virtual async::Task<Status> close(async::TimePoint deadline) = 0;

  using CallLayer::begin;
  Compound begin(const char* what, const Caller& caller, security::Mark mark) override;

  using CallLayer::call;
  async::Task<Result<CompoundReply>> call(Compound&& compound, async::TimePoint deadline) override {
    return call(std::move(compound), deadline, nullptr);
  }
  /// Makes the call. `sent_request`: its first transmission, which was sent by the fast path
  /// (sent_request.h).
  async::Task<Result<CompoundReply>> call(Compound&& compound, async::TimePoint deadline,
                                          std::unique_ptr<SentRequest> sent_request);
  [[nodiscard]] bool recovering() const override { return recovery().under_way(); }
  /// Whether calls can be sent now: the lease is open, and no recovery is under way.
  [[nodiscard]] bool takes_calls() const { return phase_ == Phase::open && !recovering(); }
  using CallLayer::start_recovery;
  void start_recovery(const char* why, bool works) override { recovery().start(why, works); }
  async::Task<bool> ready(async::TimePoint deadline) override { return recovery().ended(deadline); }
  async::Task<Result<CompoundReply>> call_in_recovery(Compound&& compound,
                                                      async::TimePoint deadline) override;

  /// A number that increases with each connection that is made, and with the epoch. As long as it is
  /// unchanged, the server has not restarted, and no other server has taken its place.
  [[nodiscard]] std::uint64_t server_instance() const { return epoch() + connections_made(); }
  /// Starts a READ by the fast path (session/fast_reads.h). Returns false if that is not possible now, or if
  /// there is no such path.
  virtual bool start_read(FastReadFile& /*file*/, engine::FastRead& /*read*/) { return false; }
  /// Prepares a READ for a shard (engine/shard.h). Returns null if that is not possible now, or if there are no shards.
  virtual std::unique_ptr<engine::ShardRead> prepare_read(FastReadFile& /*file*/, std::size_t /*size*/,
                                                          std::uint64_t /*offset*/) {
    return nullptr;
  }

  // ---- the parts ----
  [[nodiscard]] Opens& opens() { return state_.opens; }
  [[nodiscard]] Openings& openings() { return state_.openings; }
  [[nodiscard]] Delegations& delegations() { return state_.delegations; }
  [[nodiscard]] OpenRecovery& open_recovery() { return state_.open_recovery; }
  [[nodiscard]] LockRecovery& lock_recovery() { return state_.locks; }
  [[nodiscard]] Leftovers& leftovers() { return state_.leftovers; }
  [[nodiscard]] const engine::Modifications& modifications() const { return modifications_; }
  [[nodiscard]] engine::Modifications& modifications() { return modifications_; }
  [[nodiscard]] HoleReads& hole_reads() { return hole_reads_; }
  [[nodiscard]] const HoleReads& hole_reads() const { return hole_reads_; }
  [[nodiscard]] CloseBatch& close_batch() { return close_batch_; }
  [[nodiscard]] LockWaits& lock_waits() { return lock_waits_; }
  [[nodiscard]] BackgroundCopies& copies() { return copies_; }
  [[nodiscard]] Crossings& crossings() { return crossings_; }
  [[nodiscard]] const Crossings& crossings() const { return crossings_; }

  [[nodiscard]] Phase phase() const override { return phase_; }
  [[nodiscard]] security::Mark root_mark() const override { return crossings_.root(); }
  async::Task<Status> cross_root(async::TimePoint deadline) override {
    return nfs4::cross_root(*this, crossings_, *options_.flavor, deadline, true);
  }
  /// The most bytes of one READ and of one WRITE at this time: another server program may have come up
  /// with smaller limits.
  [[nodiscard]] std::size_t most_read() const;
  [[nodiscard]] std::size_t most_written() const;
  /// Size of the largest Call, with its transport header, that needs no Read chunk.
  [[nodiscard]] std::size_t call_threshold() const { return channel_.facts().call_threshold; }
  [[nodiscard]] const engine::ServerCounters& counters() const { return counters_; }
  [[nodiscard]] virtual engine::ServerHoldings holdings() const;
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] async::Loop& loop() override { return channel_.loop(); }
  [[nodiscard]] async::Tasks& background() override { return background_; }
  [[nodiscard]] async::TimePoint default_deadline() override {
    return loop().now() + options_.patience.value_or(options_.timeout);
  }
  [[nodiscard]] const std::string& server() const override { return channel_.server(); }

 protected:
  /// `hold`: called with whether there is something that the server may recall (delegations.h).
  ClientLease(rpc::Channel& first, SessionOptions options, NoticeSink notices, Delegations::HoldSink hold);

  /// Time until which close() waits for what is under way, such as a DELEGRETURN that the server puts off or
  /// a request that hangs in a lost session. The other half of the time up to `deadline` stays for the end
  /// itself, which makes the server drop whatever it still has of this client.
  [[nodiscard]] async::TimePoint end_of_waiting(async::TimePoint deadline) {
    const async::TimePoint now = loop().now();
    return now + (deadline - now) / 2;
  }
  /// Outcome of one attempt of a call, which decides about the next one.
  enum class Verdict : std::uint8_t {
    answered,   ///< the server has executed the request, and this is its Reply
    again,      ///< the call is made again
    at_once,    ///< likewise, without a pause, however often that happens
    unsettled,  ///< settle() decides
    failed,     ///< the Error is for the caller
  };
  struct Attempt {
    Verdict verdict = Verdict::failed;
    /// Session: the server may have executed the request in a slot that cannot be used any more.
    bool in_doubt = false;
    /// Session: the session that the request was sent in has been replaced by another one.
    bool replaced = false;
    /// If settle() sets it: the Error for the caller, in place of the answer.
    std::optional<Error> error;
  };
  /// The state of one call, which its attempts share.
  struct Course {
    const async::TimePoint deadline;
    /// The call belongs to a recovery. Other calls wait for the recovery, so this one must not.
    const bool for_recovery = false;
    /// The first transmission, if the fast path has sent it.
    std::unique_ptr<SentRequest> sent_request = nullptr;
    /// Session: the slot, if the request has to have this one.
    std::optional<SlotTable::Use> use = std::nullopt;
    /// The server may have executed the request although its answer, if there is one, does not say so.
    bool in_doubt = false;
    /// Session: whether the server is asked to cache the Reply if that is to be cached (Compound::is_to_be_cached()).
    /// An attempt sets it to false if the server cannot cache the Reply.
    bool asks_caching = true;
    /// NFSv4.0: number of transmissions, without those answered with DELAY or GRACE.
    std::uint32_t sends = 0;
  };
  /// Sends the request until there is an answer, or none can be expected any more.
  virtual async::Task<Result<CompoundReply>> attempt(Compound& compound, Course& course,
                                                     Attempt& attempt) = 0;
  /// Called with an attempt that is not `answered`. Sets its final verdict, and Course::in_doubt.
  virtual async::Task<void> settle(const Compound& compound, const Result<CompoundReply>& reply,
                                   Course& course, Attempt& attempt) = 0;
  virtual Recovery& recovery() = 0;
  [[nodiscard]] virtual const Recovery& recovery() const = 0;

  /// Counts the connections that all channels have made.
  [[nodiscard]] virtual std::uint64_t connections_made() const = 0;
  void notice(const std::string& text) override { notices_(text); }
  /// Starts a renewal of the lease over that connection, in the background. Returns false if that
  /// is not possible now.
  bool renew_over(rpc::Channel& channel);
  /// Returns the outcome of one transmission: its Reply with the RPC and COMPOUND headers read,
  /// or why there is none.
  Result<CompoundReply> reply_of(rpc::Channel& channel, const Compound& compound, rpc::Outcome& outcome);
  /// Whether the server asks to make the call again later (DELAY, GRACE), and that repeats no operation that
  /// changes something.
  static bool is_put_off(const Compound& compound, const CompoundReply& reply);
  /// Returns the Error of a call for which a recovery has not ended in time.
  [[nodiscard]] Error not_recovered(const Compound& compound) const;

  rpc::Channel& channel_;  // the first channel
  const SessionOptions options_;
  const NoticeSink notices_;
  engine::ServerCounters counters_;
  Phase phase_ = Phase::beginning;
  Lease lease_;
  engine::Modifications modifications_;
  ClientState state_;
  HoleReads hole_reads_{*this, counters_, options_.read_plus};
  CloseBatch close_batch_{*this};
  LockWaits lock_waits_;
  BackgroundCopies copies_;
  Crossings crossings_;
  // Derived classes drop these tasks first, because the tasks use the members above.
  async::Tasks background_;

 private:
  async::Task<Result<CompoundReply>> call_loop(Compound compound, Course course);
  /// Returns an Error if the Compound is_a_gamble().
  [[nodiscard]] std::optional<Error> gamble(const Compound& compound) const;
  [[nodiscard]] Error unknown_outcome(const Compound& compound, const Error& why) const;
  /// The Error of a call whose reason is gone (Compound::only_while).
  [[nodiscard]] Error not_wanted(const Compound& compound) const;
  async::Task<void> ask_in_background(Compound compound);
};

}  // namespace nfsrdma::nfs4
