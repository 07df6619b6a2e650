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

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "async/event.h"
#include "async/tasks.h"
#include "locking/lock_wait.h"
#include "nfs4/callback.h"
#include "nfs4/compound.h"
#include "nfs4/copies_beside.h"
#include "nfs4/create_sequence.h"
#include "nfs4/open_state.h"
#include "nfs4/slot_table.h"
#include "nfs4/statistics.h"
#include "nfsrdma/client.h"

namespace nfsrdma::nfs4 {

using locking::LockWait;

struct SessionOptions {
  unsigned minor_version = 2;
  bool minor_version_fixed = false;
  std::uint32_t rsize = 1U << 20, wsize = 1U << 20;
  std::uint32_t slots = 64;
  std::uint32_t callback_slots = 0;  // at most the channels' backward credits; 0: no backchannel
  rpc::Credential credential;
  std::string owner_id;  // co_ownerid: unique to this client instance
  verifier4 verifier{};  // new for every instance (RFC 8881 18.35.3)
  std::chrono::milliseconds timeout{60000};
  /// How long a call without a deadline of its own is tried, if that is not `timeout`.
  std::optional<std::chrono::milliseconds> patience;
  /// Locks of a lease that has expired are asked for again, though somebody else may have had them in the
  /// meantime and changed what they protect. Else they are lost at once, as with Linux.
  bool recover_expired_locks = false;
};

/// What the server agreed to.
struct SessionFacts {
  unsigned minor_version = 0;
  clientid4 client_id = 0;
  sessionid4 session_id{};
  std::uint32_t slots = 0;
  std::uint32_t max_request = 0, max_response = 0, max_response_cached = 0, max_operations = 0;
  std::uint32_t lease_seconds = 0;
  std::uint64_t max_read = ~0ULL, max_write = ~0ULL;  ///< bytes in one READ and WRITE, as the server says
  bool backchannel = false;                           // the server took it
  std::string implementation_name, implementation_domain, server_owner, server_scope;
  std::optional<Time> implementation_date;
};

class Session final : private CallbackHandler {
 public:
  using NoticeSink = std::function<void(const std::string&)>;

  Session(rpc::Channel& channel, SessionOptions options, NoticeSink notices);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// One more connection for the session, beside the one that it began with.
  async::Task<Status> add(rpc::Channel& channel, async::TimePoint deadline);
  [[nodiscard]] std::size_t usable_connections() const;

  /// Client id, session, RECLAIM_COMPLETE, lease time. The channel is connected.
  async::Task<Status> open(async::TimePoint deadline);
  /// DESTROY_SESSION and DESTROY_CLIENTID, as far as the server answers in time.
  async::Task<Status> close(async::TimePoint deadline);

  /// A COMPOUND with SEQUENCE in it, on behalf of `caller`.
  Compound begin(const char* what, const Caller& caller = nullptr);
  /// Makes the call. The Reply stands behind its SEQUENCE result; operations after it may have failed.
  async::Task<Result<CompoundReply>> call(Compound compound, async::TimePoint deadline);
  /// The same with the default deadline.
  async::Task<Result<CompoundReply>> call(Compound compound);

  /// The Error of a Reply whose take() failed: the server's status, or the fault of the Reply.
  [[nodiscard]] Error error_of(const CompoundReply& reply, const char* what, const std::string& path) const;

  /// Registers an open file for recovery, until it is released.
  void hold(const std::shared_ptr<Open>& open);
  void release(Open& open);
  /// After a status that says the stateid is gone (BAD_STATEID, EXPIRED, …): has it again, or says why not.
  /// `used`: the stateid that was refused; if it is another one by now, somebody else had it again.
  async::Task<Status> reopen(std::shared_ptr<Open> held, stateid4 used, nfsstat4 why,
                             async::TimePoint deadline);
  static bool is_lost_state(nfsstat4 status);
  /// Whether it says that the server has taken the state away. It remembers that until FREE_STATEID says that
  /// the client knows, and has a flag for it in every SEQUENCE meanwhile (RFC 8881 18.38, 18.46.3).
  static bool is_revoked(nfsstat4 status);
  /// FREE_STATEID, beside whatever else is done: of state that is not used any more.
  void free_beside(const stateid4& stateid);
  /// OPEN by handle with `open->access`, for whatever reason the server does not know of all of it.
  async::Task<Status> renew_open(std::shared_ptr<Open> open);
  /// The open's state was replaced by another: what was locked under it is locked no more.
  void lose_locks(Open& open);
  void lose_locks(Open& open, std::uint64_t owner, const Error& why);

  /// An OPEN under way. While one lives, a recall of an unknown delegation is taken for one that it is about
  /// to bring; and it hears what is closed meanwhile, since that may overtake its Reply.
  class Opening {
   public:
    explicit Opening(Session& session) : session_(session) { session_.openings_.push_back(this); }
    ~Opening() {
      std::erase(session_.openings_, this);
      if (session_.openings_.empty()) session_.on_last_opening();
    }
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;
    /// What it has brought is there no more: it has been closed, or went with the client id of then. Seqids
    /// do not tell, since they order what happens to one state only (RFC 8881 8.2.2).
    [[nodiscard]] bool is_over(const stateid4& stateid, const CompoundReply& reply) const {
      return reply.epoch() != session_.epoch_ || closed_.size() == kMostClosed ||
             std::ranges::find(closed_, stateid.other) != closed_.end();
    }

   private:
    friend class Session;
    static constexpr std::size_t kMostClosed = 1000;  ///< then an OPEN more costs less than to know
    Session& session_;
    std::vector<decltype(stateid4::other)> closed_;
  };
  /// The server has closed it.
  void closed(const stateid4& stateid);
  /// Whether OPEN may ask for a delegation.
  [[nodiscard]] bool wants_delegations() const { return facts_.backchannel && !closing_; }
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
  [[nodiscard]] bool delegations_good() {
    return loop().lease_now() < leased_until_ && !recovering_ && !finding_revoked_;
  }
  [[nodiscard]] std::size_t delegations() const;
  /// Changes with what this client does that may change the file's attributes, begun and ended.
  [[nodiscard]] std::uint64_t modifications(const nfs_fh4& file) const {
    return changed_any_ + changed_[hash_of(file) % changed_.size()];
  }

  /// While one lives, CB_NOTIFY_LOCK for the file and the lock owner wakes `wait`.
  class LockWaiting {
   public:
    LockWaiting(Session& session, const nfs_fh4& file, std::uint64_t owner, LockWait& wait);
    ~LockWaiting();
    LockWaiting(const LockWaiting&) = delete;
    LockWaiting& operator=(const LockWaiting&) = delete;

   private:
    friend class Session;
    Session& session_;
    const nfs_fh4 file_;
    const std::uint64_t owner_;
    LockWait& wait_;
  };
  /// COPYs under way that the server may make beside.
  [[nodiscard]] CopiesBeside& copies() { return copies_; }
  [[nodiscard]] lock_owner4 lock_owner(std::uint64_t owner) const;
  /// The number of a lock owner of this client; none for anybody else's.
  [[nodiscard]] std::optional<std::uint64_t> own_lock_owner(const lock_owner4& owner) const;
  /// close() was called: nothing is begun beside any more.
  [[nodiscard]] bool ending() const { return closing_; }
  /// OPENs under way: what they bring may be later than what is known.
  [[nodiscard]] bool opening() const { return !openings_.empty(); }

  [[nodiscard]] const SessionFacts& facts() const { return facts_; }
  /// The most bytes of one READ and of one WRITE, as of now: another server program may have come up with
  /// smaller limits.
  [[nodiscard]] std::size_t most_read() const;
  [[nodiscard]] std::size_t most_written() const;
  [[nodiscard]] const SessionCounters& counters() const { return counters_; }
  [[nodiscard]] SessionHoldings holdings() const;
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] async::Loop& loop() { return channel_.loop(); }
  /// Where tasks run that use the session and that nobody waits for.
  [[nodiscard]] async::Tasks& beside() { return beside_; }
  [[nodiscard]] async::TimePoint default_deadline() {
    return loop().now() + options_.patience.value_or(options_.timeout);
  }
  [[nodiscard]] std::uint64_t next_owner() { return ++last_owner_; }
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

 private:
  /// A connection of the session.
  struct Lane final : rpc::BackwardService {
    Lane(Session& s, rpc::Channel& c) : session(s), channel(c) {}
    void on_backward_call(rpcrdma::BackwardId id, fabric::ConstBytes message) override {
      session.answer_callback(*this, id, message);
    }
    Session& session;
    rpc::Channel& channel;
    bool bound = false;  ///< to the session of the moment
    bool binding = false;
    bool refused = false;  ///< the server does not want it
    [[nodiscard]] bool usable() const { return channel.up() && bound; }
  };
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
  class Modifying;
  void note(const Changes& changes);

  async::Task<std::optional<SlotTable::Use>> wait_for_slot(async::TimePoint deadline);
  async::Task<Result<CompoundReply>> call_once(Compound& compound, async::TimePoint deadline,
                                               Attempt& attempt, bool recovering);
  async::Task<Result<CompoundReply>> call_raw(Compound& compound, async::TimePoint deadline,
                                              rpc::Channel* over = nullptr);
  async::Task<Result<CompoundReply>> call_raw_once(Compound& compound, async::TimePoint deadline,
                                                   rpc::Channel& channel);
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
  struct Sent {
    async::TimePoint when;
    async::LeaseTime lease;
  };
  void take_sequence(const SEQUENCE4resok& ok, bool current, const Sent& sent, bool recovering);
  [[nodiscard]] Error unknown_outcome(const Compound& compound, const Error& why) const;
  async::Task<bool> ready(async::TimePoint deadline);
  async::Task<Result<CompoundReply>> call_in_recovery(Compound compound, async::TimePoint deadline);

  // lanes.cpp
  [[nodiscard]] bool wants_backchannel() const { return options_.callback_slots != 0; }
  Lane& add_lane(rpc::Channel& channel);
  Lane& route();
  [[nodiscard]] channel_attrs4 backchannel_attributes() const;
  void on_link(Lane& lane, bool up);
  void bind_if_needed(Lane& lane);
  async::Task<void> bind(Lane& lane, bool again = false);
  async::Task<bool> bind_again(Lane& lane, async::Clock::duration pause, async::TimePoint deadline);
  void rebind_all(const rpc::Channel& bound);

  // callbacks.cpp
  void answer_callback(Lane& lane, rpcrdma::BackwardId id, fabric::ConstBytes message);
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
  async::Task<void> free_revoked(stateid4 stateid);
  async::Task<void> free_and_count(stateid4 stateid);
  async::Task<void> find_revoked();
  struct Suspect;
  [[nodiscard]] std::vector<Suspect> suspects() const;
  async::Task<bool> test(std::span<const Suspect> suspects);
  void lose(const Suspect& suspect, nfsstat4 why);
  void hold_connections();
  void heed_flags(std::uint32_t flags);
  void mend_backchannel(bool by_new_session);

  // recovery.cpp
  /// `works`: the session that is to be replaced still answers, and what is under way is waited for.
  void start_recovery(const char* why, bool works = false);
  async::Task<void> recover(bool works);
  async::Task<void> drain();
  async::Task<Status> recover_once(async::TimePoint deadline);
  async::Task<Status> begin_session(async::TimePoint deadline);
  async::Task<Status> exchange_id(async::TimePoint deadline);
  async::Task<Status> create_session(async::TimePoint deadline, nfsstat4& status);
  async::Task<Status> create_session_once(async::TimePoint deadline, nfsstat4& status);
  void be_another_instance();
  async::Task<Status> reclaim_opens(async::TimePoint deadline);
  async::Task<Status> reclaim_open(std::shared_ptr<Open> open, async::TimePoint deadline);
  void end_delegation_of_before(Open& open);
  async::Task<void> close_stray(nfs_fh4 file, stateid4 stateid);
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

  void arm_lease();
  async::Task<void> renew();

  rpc::Channel& channel_;  // the first
  std::vector<std::unique_ptr<Lane>> lanes_;
  SessionOptions options_;
  const NoticeSink notices_;
  SessionFacts facts_;
  SessionCounters counters_;
  CreateSequence create_sequence_;

  SlotTable slots_;
  async::Event slot_free_;
  async::Event slots_idle_;  // no request is under way

  bool open_ = false;
  bool closing_ = false;
  bool recovering_ = false;
  bool reclaim_needed_ = false;  // the server said that it restarted or revoked state
  std::optional<Error> last_recovery_error_;
  bool reclaim_pending_ = false;  // a new client id, and RECLAIM_COMPLETE was not said
  async::Event recovered_;
  async::Event bind_ended_;
  async::Event reopened_;
  std::uint64_t epoch_ = 0;                               // counts client ids
  std::map<std::uint64_t, std::shared_ptr<Open>> opens_;  // in the order in which they were registered
  std::uint64_t last_open_ = 0;
  std::uint64_t last_owner_ = 0;

  CallbackService callbacks_;
  std::vector<Opening*> openings_;
  std::function<void(const nfs_fh4&)> delegation_end_;
  struct Recalled {
    nfs_fh4 file;
    stateid4 stateid;
  };
  std::vector<Recalled> early_recalls_;  // of what an OPEN that is under way may bring
  std::vector<Recalled> recalled_;       // by the Call that is being answered
  /// The answer to an OPEN was lost with its session: the server may have granted a delegation that nobody
  /// here knows of.
  bool open_in_doubt_ = false;
  std::vector<stateid4> returning_;  // DELEGRETURNs under way
  unsigned tidying_ = 0;             // CLOSEs of what nobody has open, and FREE_STATEIDs beside, under way
  async::Event returned_;            // none of these is under way any more, or no OPEN
  std::vector<LockWaiting*> lock_waits_;
  CopiesBeside copies_;
  bool finding_revoked_ = false;
  async::TimePoint last_search_{};
  async::TimePoint last_rebind_{};
  std::uint64_t changed_any_ = 0;
  std::array<std::uint64_t, 256> changed_{};  // by hash of the handle: those of some more files

  async::TimePoint last_renewal_{};
  async::LeaseTime leased_until_{};  // by the last SEQUENCE that the server answered
  async::Loop::TimerId lease_timer_ = 0;
  bool renewing_ = false;
  async::Tasks beside_;  // the last: they use the others
};

}  // namespace nfsrdma::nfs4
