// An NFSv4.1/4.2 session (RFC 8881 2.10) over one or more Channels: client id, slots, lease, recovery.
//
// An attempt of a call (the loop around it is in state/client_lease.h):
//   a free slot → SEQUENCE filled in → Channel → verdict on the slot → the session's own errors lead to a
//   recovery.
//
// Exactly once (RFC 8881 2.10.6). A request that has left stays in its slot, with its sequence id, until the
// server answers it: it is sent again over a new connection, over another one, and while SEQUENCE is answered
// with DELAY, which on Linux means that the request is still being executed. If the waiting ends in another
// way (a deadline, or a caller that goes away), no other request gets the slot until the server has said what
// became of the first one: a SEQUENCE alone, in its place, asks for that (ask_about()). If the session
// itself is lost while a request is under way, this client can no longer find out from the slot whether the
// server executed the request. A request that does no harm the second time is then made again. A request that
// may do harm (Compound::repeatable() is false) ends with ErrorKind::unknown_outcome, and its caller looks at
// the names (files/outcome.cpp). Both happen only when the server has destroyed the lost session, because
// until then it may still be executing the request (session_recovery.h). A session that is replaced although
// it works is not lost to the requests under way in it: they go on in their slots until the server answers
// them.
//
// The other tasks are done by parts, which the session owns and gives out. The parts make their calls through
// it, as a CallLayer, and know nothing else of it:
//
//   lanes()          connections: which of them takes a call, BIND_CONN_TO_SESSION
//   of ClientLease   what belongs to the client id (state/client_lease.h)
//   inside           slots (slot_queue.h), client id and session (handshake.h), recovery, backchannel, READs
//                    that need no call loop while all goes well (fast_reads.h), and READs and WRITEs in further
//                    sessions on other loops (shard.h)
//
// Recovery is one task at a time (session_recovery.h). Calls wait for it up to their own deadlines. When a connection
// ends while another one is up, its calls are made again there, in their slots with their sequence ids, so
// that none is executed twice.
//
// A server that caches no Replies, or none of the size needed (ca_maxresponsesize_cached), is not asked to
// cache them. Requests that are not idempotent are sent all the same, because otherwise nothing could be
// changed on such a server (a deviation from RFC 8881 2.10.6.1.3). If the answer to one of them is lost, the
// server says RETRY_UNCACHED_REP when the request is sent again, and the outcome is not known.
//
// A slot whose last call ended with a Reply that cannot be used is retired (RFC 8267 4.5), and so is one about which
// the server has not answered in time. When too few slots are left, the session is replaced by a new one. The slots
// themselves are in compound/slot_table.h.
//
// Confined to the thread that runs the loop.
#pragma once

#include <cstdint>

#include "nfs4/session/backchannel.h"
#include "nfs4/session/fast_reads.h"
#include "nfs4/session/handshake.h"
#include "nfs4/session/lanes.h"
#include "nfs4/session/session_recovery.h"
#include "nfs4/session/shard.h"
#include "nfs4/session/slot_queue.h"
#include "nfs4/state/client_lease.h"

namespace nfsrdma::nfs4 {

class Session final : public ClientLease {
 public:
  Session(rpc::Channel& channel, SessionOptions options, NoticeSink notices);
  ~Session() override;

  /// Creates client id and session, sends RECLAIM_COMPLETE, and fetches the lease time. The channel must be
  /// connected.
  async::Task<Status> open(async::TimePoint deadline) override;
  /// Sends DESTROY_SESSION and DESTROY_CLIENTID, as far as the server answers in time.
  async::Task<Status> close(async::TimePoint deadline) override;

  bool start_read(FastReadFile& file, engine::FastRead& read) override {
    return fast_reads_.start(file, read);
  }

  std::unique_ptr<engine::ShardRead> prepare_read(FastReadFile& file, std::size_t size,
                                                  std::uint64_t offset) override;
  /// Makes a shard (shard.h) with this number, in place of the one before it. `channel`: its connection, on its loop,
  /// which nothing else uses and which must outlive it. The shard connects when it begins.
  async::Task<Result<std::unique_ptr<engine::Shard>>> make_shard(std::size_t number, rpc::Channel& channel,
                                                                 async::TimePoint deadline);
  /// Has calls that write data in memory made by shards from now on, as far as `shards` takes them; null: none. `shards` must
  /// stay until then.
  void use_shards(engine::ShardCalls* shards) { shards_ = shards; }
  /// Takes the answer to a READ that a shard has made. `sent`: a time before that.
  void take_answer_of_shard(const PreparedRead::Answer& answer, const Lease::Sent& sent);
  [[nodiscard]] Lease::Sent lease_at_turn() const { return lease_.at_turn(); }
  /// Whether the server has answered a request that was sent after `when`, over a connection of the session's own. A
  /// connection that a shard made at that time leads to the same instance of the server then: had another one taken its
  /// place before, this session's connections would have ended, and server_instance() would say so.
  [[nodiscard]] bool is_answered_since(async::TimePoint when) const { return answered_ > when; }

  /// Reaction to a SEQUENCE that the server has refused.
  enum class Refused : std::uint8_t {
    wait,        ///< send the same request in the same slot, after a pause
    bind,        ///< likewise, once the connection is bound to the session
    lower_high,  ///< likewise, with a lower sa_highest_slotid
    uncached,    ///< likewise, without sa_cachethis
    other_slot,  ///< the slot cannot be used any more
    executed,    ///< the request was executed, and its Reply is not cached
    session,     ///< the session is gone
    caller,      ///< the caller gets the error
  };
  static Refused judge_sequence(nfsstat4 status);

  [[nodiscard]] Lanes& lanes() { return lanes_; }
  [[nodiscard]] const SessionFacts& facts() const override { return handshake_.facts(); }
  [[nodiscard]] engine::ServerHoldings holdings() const override;

 private:
  // ---- for the parts only ----
  [[nodiscard]] std::uint64_t connections_made() const override { return lanes_.connections_made(); }
  /// Checks a connection by a SEQUENCE if a slot is free. If none is, calls without an answer may hold all
  /// slots, and the Channel calls the NULL procedure.
  void check_connections(std::chrono::milliseconds every) override {
    lanes_.check_health(every,
                        [this](rpc::Channel& over) { return slots_.table().has_free() && renew_over(over); });
  }
  Compound begin_alone(const char* what) override;
  async::Task<Result<CompoundReply>> call_over(rpc::Channel& channel, Compound& compound,
                                               async::TimePoint deadline) override;

  struct Request;

  async::Task<Result<CompoundReply>> attempt(Compound& compound, Course& course, Attempt& attempt) override;
  [[nodiscard]] bool may_go_to_shard(const Compound& compound, const Course& course) const;
  async::Task<std::optional<Result<CompoundReply>>> attempt_in_shard(Compound& compound,
                                                                     async::TimePoint deadline,
                                                                     Attempt& attempt);
  async::Task<void> settle(const Compound& compound, const Result<CompoundReply>& reply, Course& course,
                           Attempt& attempt) override;
  Recovery& recovery() override { return recovery_; }
  [[nodiscard]] const Recovery& recovery() const override { return recovery_; }
  std::optional<SlotTable::Use> slot_of_its_own(SentRequest* sent_request, Course& course);
  SEQUENCE4args begin_sequence(Request& request);
  void take_executed(Request& request, const CompoundReply& reply, const SEQUENCE4resok& ok,
                     const Lease::Sent& sent);
  async::Task<bool> goes_on(Request& request, nfsstat4 status, const rpc::Channel& channel);
  async::Task<bool> bind_for(Request& request, const rpc::Channel& channel);
  void leave_slot(Request& request, nfsstat4 status);
  async::Task<void> ask_about(std::uint32_t slot, std::uint64_t generation);
  void take_sequence(const SEQUENCE4resok& ok, bool current, const Lease::Sent& sent, bool for_recovery);
  void take_flags_of_shard(std::uint32_t flags, const Lease::Sent& sent);
  void handle_status_flags(std::uint32_t flags);

  SlotQueue slots_;
  Lanes lanes_;
  Backchannel backchannel_;
  Handshake handshake_;
  SessionRecovery recovery_;
  FastReads fast_reads_;
  engine::ShardCalls* shards_ = nullptr;
  async::TimePoint answered_{};  // when the last request was sent that was answered (is_answered_since())
};

}  // namespace nfsrdma::nfs4
