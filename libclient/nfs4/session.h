// An NFSv4.1/4.2 session (RFC 8881 2.10) over one or more Channels: client id, slots, lease, recovery.
//
// A call, from top to bottom:
//   ready (no recovery under way) → a free slot → SEQUENCE filled in → Channel → verdict on the slot →
//   the session's own errors are recovered from and the call is made again → DELAY and GRACE are waited for →
//   the Reply goes to the caller, whose operations may still have failed.
//
// Exactly once (RFC 8881 2.10.6). A request that has left stays in its slot, with its sequence id, until the
// server answers it: over a new connection, over another one, and while SEQUENCE says DELAY, which means on
// Linux that the request is still being executed. What ends the waiting otherwise (a deadline, a caller that
// goes) retires the slot: it is given to nobody else. Where the session itself is lost while a request is
// under way, nobody can tell any more whether the server executed it. A request that does no harm the second
// time is made again then. One that may do harm (Compound::repeatable() is false) ends with
// ErrorKind::unknown_outcome, and its caller looks (objects.cpp).
//
// The session is the call loop. What it has to do besides is done by its parts, which it owns and gives out;
// they call by it, as a Calls, and know nothing else of it:
//
//   lanes()          connections: which of them takes a call, BIND_CONN_TO_SESSION
//   delegations()    read delegations: taken, recalled, returned
//   opens()          the registry of open files; openings(): OPENs under way
//   open_recovery()  opens that the server has forgotten; lock_recovery(): byte-range locks
//   leftovers()      state that nobody has a use for
//   modifications()  what this client does that may change attributes
//   lock_waits()     who waits for CB_NOTIFY_LOCK; copies(): who waits for CB_OFFLOAD
//   inside           slots (slot_queue.h), lease, client id and session (handshake.h), recovery, backchannel
//
// Recovery is one task at a time (recovery.h). Calls wait for it up to their own deadlines. When a connection
// ends while another stands, its calls are made again there, in their slots with their sequence ids, so that
// none is executed twice.
//
// A slot whose last call ended without a usable Reply is retired, too (RFC 8267 4.5). When too few are left,
// the session is made anew. The slots themselves: slot_table.h.
//
// Confined to the thread that runs the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "async/tasks.h"
#include "engine/statistics.h"
#include "nfs4/backchannel.h"
#include "nfs4/calls.h"
#include "nfs4/client_state.h"
#include "nfs4/copies_beside.h"
#include "nfs4/handshake.h"
#include "nfs4/lanes.h"
#include "nfs4/lease.h"
#include "nfs4/lock_waits.h"
#include "nfs4/recovery.h"
#include "nfs4/slot_queue.h"

namespace nfsrdma::nfs4 {

class Session final : public Calls {
 public:
  using NoticeSink = std::function<void(const std::string&)>;

  Session(rpc::Channel& channel, SessionOptions options, NoticeSink notices);
  ~Session() override;

  /// Client id, session, RECLAIM_COMPLETE, lease time. The channel is connected.
  async::Task<Status> open(async::TimePoint deadline);
  /// DESTROY_SESSION and DESTROY_CLIENTID, as far as the server answers in time.
  async::Task<Status> close(async::TimePoint deadline);

  using Calls::begin;
  using Calls::call;
  Compound begin(const char* what, const Caller& caller) override;
  async::Task<Result<CompoundReply>> call(Compound compound, async::TimePoint deadline) override;

  // ---- the parts ----
  [[nodiscard]] Lanes& lanes() { return lanes_; }
  [[nodiscard]] Opens& opens() { return state_.opens; }
  [[nodiscard]] Openings& openings() { return state_.openings; }
  [[nodiscard]] Delegations& delegations() { return state_.delegations; }
  [[nodiscard]] OpenRecovery& open_recovery() { return state_.open_recovery; }
  [[nodiscard]] LockRecovery& lock_recovery() { return state_.locks; }
  [[nodiscard]] Leftovers& leftovers() { return state_.leftovers; }
  [[nodiscard]] const engine::Modifications& modifications() const { return modifications_; }
  [[nodiscard]] LockWaits& lock_waits() { return lock_waits_; }
  [[nodiscard]] CopiesBeside& copies() { return copies_; }

  [[nodiscard]] Phase phase() const override { return phase_; }
  [[nodiscard]] const SessionFacts& facts() const override { return handshake_.facts(); }
  /// The most bytes of one READ and of one WRITE, as of now: another server program may have come up with
  /// smaller limits.
  [[nodiscard]] std::size_t most_read() const;
  [[nodiscard]] std::size_t most_written() const;
  [[nodiscard]] const engine::ServerCounters& counters() const { return counters_; }
  [[nodiscard]] engine::ServerHoldings holdings() const;
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] async::Loop& loop() override { return channel_.loop(); }
  [[nodiscard]] async::Tasks& beside() override { return beside_; }
  [[nodiscard]] async::TimePoint default_deadline() override {
    return loop().now() + options_.patience.value_or(options_.timeout);
  }

 private:
  // ---- what only the parts ask for ----
  [[nodiscard]] const std::string& server() const override { return channel_.server(); }
  void notice(const std::string& text) override { notices_(text); }
  [[nodiscard]] bool recovering() const override { return recovery_.under_way(); }
  using Calls::start_recovery;
  void start_recovery(const char* why, bool works) override { recovery_.start(why, works); }
  async::Task<bool> ready(async::TimePoint deadline) override { return recovery_.ended(deadline); }
  async::Task<Result<CompoundReply>> call_in_recovery(Compound compound, async::TimePoint deadline) override;
  Compound begin_alone(const char* what) override;
  async::Task<Result<CompoundReply>> call_over(rpc::Channel& channel, Compound& compound,
                                               async::TimePoint deadline) override;

  /// What one try of a call says about the next.
  enum class Verdict : std::uint8_t {
    answered,  ///< the server has executed it, and this is its Reply
    again,     ///< it has to be tried in another slot
    recover,   ///< the session is gone
    failed,    ///< the Error is the caller's
  };
  struct Attempt {
    Verdict verdict = Verdict::failed;
    /// The server may have executed the request, in a slot that is of no use any more.
    bool in_doubt = false;
  };
  struct Request;
  /// What to do where SEQUENCE was refused.
  enum class Refused : std::uint8_t {
    wait,        ///< the same request in the same slot, after a pause
    bind,        ///< the same, once the connection is the session's
    lower_high,  ///< the same, with a lower sa_highest_slotid
    other_slot,  ///< the slot is of no use
    executed,    ///< it was executed, and its Reply is not kept
    session,     ///< the session is gone
    caller,      ///< the caller hears of it
  };
  static Refused judge_sequence(nfsstat4 status);

  async::Task<Result<CompoundReply>> call_once(Compound& compound, async::TimePoint deadline,
                                               Attempt& attempt, bool for_recovery);
  Result<CompoundReply> reply_of(rpc::Channel& channel, const Compound& compound, rpc::Outcome& outcome);
  async::Task<bool> goes_on(Request& request, nfsstat4 status, const rpc::Channel& channel);
  void take_sequence(const SEQUENCE4resok& ok, bool current, const Lease::Sent& sent, bool for_recovery);
  void heed_flags(std::uint32_t flags);
  [[nodiscard]] Error unknown_outcome(const Compound& compound, const Error& why) const;

  rpc::Channel& channel_;  // the first
  const SessionOptions options_;
  const NoticeSink notices_;
  engine::ServerCounters counters_;
  Phase phase_ = Phase::beginning;
  SlotQueue slots_;
  Lanes lanes_;
  Lease lease_;
  ClientState state_;
  engine::Modifications modifications_;
  LockWaits lock_waits_;
  CopiesBeside copies_;
  Backchannel backchannel_;
  Handshake handshake_;
  Recovery recovery_;
  async::Tasks beside_;  // the last: they use the others
};

}  // namespace nfsrdma::nfs4
