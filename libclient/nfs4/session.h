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
// Recovery is one task at a time. CREATE_SESSION first, which is enough where the server still knows the
// client; else EXCHANGE_ID, CREATE_SESSION, a reclaim of every registered Open, RECLAIM_COMPLETE. Calls wait
// for it up to their own deadlines.
//
// Connections. Calls go to the one with the least to do among those that stand and that the server knows to
// be the session's (BIND_CONN_TO_SESSION; the first is by CREATE_SESSION). When one ends while another
// stands, its calls are made again there, in their slots with their sequence ids, so that none is executed
// twice.
//
// The backchannel (callback.h) is on every connection that the server takes for it. What it is for: read
// delegations, held beside the open state of files (RFC 8881 10.4). One that is recalled is returned at once,
// since the file's own stateid goes on; a recall that overtakes the OPEN which brings the delegation is
// remembered. While one is held the connections are kept up (RFC 8167 5.4). One that the server revoked is
// found by its flags in SEQUENCE, tested and freed.
//
// A slot whose last call ended without a usable Reply is retired, too (RFC 8267 4.5). When too few are left,
// the session is made anew. The slots themselves: slot_table.h.
//
// Confined to the thread that runs the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/tasks.h"
#include "nfs4/callback.h"
#include "nfs4/calls.h"
#include "nfs4/copies_beside.h"
#include "nfs4/create_sequence.h"
#include "nfs4/lanes.h"
#include "nfs4/lease.h"
#include "nfs4/leftovers.h"
#include "nfs4/lock_waits.h"
#include "nfs4/modifications.h"
#include "nfs4/open_state.h"
#include "nfs4/openings.h"
#include "nfs4/opens.h"
#include "nfs4/slot_queue.h"
#include "nfs4/statistics.h"

namespace nfsrdma::nfs4 {

class Session final : public Calls, private CallbackHandler {
 public:
  using NoticeSink = std::function<void(const std::string&)>;

  Session(rpc::Channel& channel, SessionOptions options, NoticeSink notices);
  ~Session();

  /// Client id, session, RECLAIM_COMPLETE, lease time. The channel is connected.
  async::Task<Status> open(async::TimePoint deadline);
  /// DESTROY_SESSION and DESTROY_CLIENTID, as far as the server answers in time.
  async::Task<Status> close(async::TimePoint deadline);

  using Calls::begin;
  using Calls::call;
  Compound begin(const char* what, const Caller& caller) override;
  async::Task<Result<CompoundReply>> call(Compound compound, async::TimePoint deadline) override;

  /// After a status that says the stateid is gone (BAD_STATEID, EXPIRED, …): has it again, or says why not.
  /// `used`: the stateid that was refused; if it is another one by now, somebody else had it again.
  async::Task<Status> reopen(std::shared_ptr<Open> held, stateid4 used, nfsstat4 why,
                             async::TimePoint deadline);
  /// OPEN by handle with `open->access`, for whatever reason the server does not know of all of it.
  async::Task<Status> renew_open(std::shared_ptr<Open> open);
  /// The open's state was replaced by another: what was locked under it is locked no more.
  void lose_locks(Open& open);
  void lose_locks(Open& open, std::uint64_t owner, const Error& why);

  /// Whether OPEN may ask for a delegation.
  [[nodiscard]] bool wants_delegations() const { return facts_.backchannel && !ending(); }
  /// OPEN brought this along: keeps a read delegation, returns anything else.
  void take_delegation(Open& open, const open_delegation4& delegation);
  /// The same for an OPEN of what nobody has open: returns it.
  void return_stray(const nfs_fh4& file, const open_delegation4& delegation);
  /// DELEGRETURN, beside whatever else is done. The file's own open state goes on.
  void start_return(Open& open);
  /// Called with the file's handle when what a delegation promised ends: before the server hears of it, where
  /// it is returned.
  void on_delegation_end(std::function<void(const nfs_fh4&)> sink) { delegation_end_ = std::move(sink); }
  /// Call this before a COMPOUND with DELEGRETURN is sent, so that a recall that arrives meanwhile is
  /// answered OK.
  void returns_delegation(Open& open);
  /// Whether what a delegation promises can be relied upon: the lease lasts (RFC 8881 10.2.1), and nothing is
  /// known to have been revoked or lost.
  [[nodiscard]] bool delegations_good() { return lease_.lasts() && !recovering_ && !finding_revoked_; }
  [[nodiscard]] std::size_t delegations() const;

  // ---- the parts ----
  [[nodiscard]] Lanes& lanes() { return lanes_; }
  [[nodiscard]] const Lanes& lanes() const { return lanes_; }
  [[nodiscard]] Opens& opens() { return opens_; }
  [[nodiscard]] Openings& openings() { return openings_; }
  [[nodiscard]] Leftovers& leftovers() { return leftovers_; }
  [[nodiscard]] const Modifications& modifications() const { return modifications_; }
  [[nodiscard]] LockWaits& lock_waits() { return lock_waits_; }
  /// COPYs under way that the server may make beside.
  [[nodiscard]] CopiesBeside& copies() { return copies_; }

  [[nodiscard]] Phase phase() const override { return phase_; }
  [[nodiscard]] const SessionFacts& facts() const override { return facts_; }
  /// The most bytes of one READ and of one WRITE, as of now: another server program may have come up with
  /// smaller limits.
  [[nodiscard]] std::size_t most_read() const;
  [[nodiscard]] std::size_t most_written() const;
  [[nodiscard]] const SessionCounters& counters() const { return counters_; }
  [[nodiscard]] SessionHoldings holdings() const;
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] async::Loop& loop() override { return channel_.loop(); }
  [[nodiscard]] async::Tasks& beside() override { return beside_; }
  [[nodiscard]] async::TimePoint default_deadline() override {
    return loop().now() + options_.patience.value_or(options_.timeout);
  }

 private:
  void notice(const std::string& text) override { notices_(text); }
  [[nodiscard]] bool recovering() const override { return recovering_; }
  using Calls::start_recovery;
  void start_recovery(const char* why, bool works) override;
  async::Task<bool> ready(async::TimePoint deadline) override;
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
  /// The transmissions of one request in its slot: how many left, and how many of them the server refused at
  /// SEQUENCE, before it looked at the request. Where the two differ it may have executed it.
  struct Transmissions {
    std::uint32_t sent = 0, refused = 0;
    [[nodiscard]] bool in_doubt() const { return sent > refused; }
  };

  async::Task<Result<CompoundReply>> call_once(Compound& compound, async::TimePoint deadline,
                                               Attempt& attempt, bool recovering);
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
  void take_sequence(const SEQUENCE4resok& ok, bool current, const Lease::Sent& sent, bool recovering);
  [[nodiscard]] Error unknown_outcome(const Compound& compound, const Error& why) const;

  // callbacks.cpp
  void answer_callback(rpc::Channel& over, rpcrdma::BackwardId id, fabric::ConstBytes message);
  nfsstat4 recall(const Recall& recall) override;
  std::optional<DelegatedAttributes> getattr(const nfs_fh4& file) override;
  void recall_any(std::uint32_t objects_to_keep, const bitmap4& types) override;
  void recall_slot(slotid4 target_highest_slotid) override;
  void notify_lock(const nfs_fh4& file, const lock_owner4& owner) override;
  nfsstat4 copy_ended(const CB_OFFLOAD4args& args) override;
  void on_last_opening();
  void end_delegation(Open& open);
  void set_recalled(Open& open);
  async::Task<void> give_back(nfs_fh4 file, stateid4 stateid);
  async::Task<void> find_revoked();
  struct Suspect;
  [[nodiscard]] std::vector<Suspect> suspects() const;
  async::Task<bool> test(std::span<const Suspect> suspects);
  void lose(const Suspect& suspect, nfsstat4 why);
  void hold_connections();
  void heed_flags(std::uint32_t flags);

  // recovery.cpp
  async::Task<void> recover(bool works);
  async::Task<Status> recover_once(async::TimePoint deadline);
  async::Task<Status> begin_session(async::TimePoint deadline);
  async::Task<Status> exchange_id(async::TimePoint deadline);
  async::Task<Status> create_session(async::TimePoint deadline, nfsstat4& status);
  async::Task<Status> create_session_once(async::TimePoint deadline, nfsstat4& status);
  void be_another_instance();
  async::Task<Status> reclaim_opens(async::TimePoint deadline);
  async::Task<Status> reclaim_open(std::shared_ptr<Open> open, async::TimePoint deadline);
  void end_delegation_of_before(Open& open);
  template <class Op>
  async::Task<Status> call_alone(typename Op::Args args, async::TimePoint deadline, nfsstat4& status);
  async::Task<void> destroy_old_session(sessionid4 session, async::TimePoint deadline);
  async::Task<Status> destroy(async::TimePoint deadline, nfsstat4& status);
  async::Task<Status> reclaim_complete(async::TimePoint deadline);
  async::Task<Status> claim(std::shared_ptr<Open> open, bool previous, bool recovering,
                            async::TimePoint deadline, nfsstat4& status);
  async::Task<Status> fetch_limits(async::TimePoint deadline);
  // lock_recovery.cpp
  async::Task<Status> claim_locks(std::shared_ptr<Open> open, bool reclaim, bool recovering,
                                  async::TimePoint deadline);
  async::Task<Status> claim_lock(std::shared_ptr<Open> open, std::shared_ptr<LockState> state,
                                 std::uint64_t owner, HeldLock held, bool reclaim, bool recovering,
                                 async::TimePoint deadline, nfsstat4& status);

  rpc::Channel& channel_;  // the first
  Phase phase_ = Phase::beginning;
  SessionOptions options_;
  const NoticeSink notices_;
  SessionFacts facts_;
  SessionCounters counters_;
  CreateSequence create_sequence_;

  SlotQueue slots_;
  Lanes lanes_;
  Lease lease_;
  Outstanding outstanding_;
  Opens opens_;
  Openings openings_;
  Leftovers leftovers_;
  Modifications modifications_;
  LockWaits lock_waits_;

  bool recovering_ = false;
  bool reclaim_needed_ = false;  // the server said that it restarted or revoked state
  std::optional<Error> last_recovery_error_;
  bool reclaim_pending_ = false;  // a new client id, and RECLAIM_COMPLETE was not said
  async::Event recovered_;
  async::Event reopened_;

  CallbackService callbacks_;
  std::function<void(const nfs_fh4&)> delegation_end_;
  struct Recalled {
    nfs_fh4 file;
    stateid4 stateid;
  };
  std::vector<Recalled> early_recalls_;  // of what an OPEN that is under way may bring
  std::vector<Recalled> recalled_;       // by the Call that is being answered
  std::vector<stateid4> returning_;      // DELEGRETURNs under way
  CopiesBeside copies_;
  bool finding_revoked_ = false;
  async::TimePoint last_search_{};
  async::Tasks beside_;  // the last: they use the others
};

}  // namespace nfsrdma::nfs4
