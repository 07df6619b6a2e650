// How a client id and a session are had, and given up (RFC 8881 2.4, 2.10, 18.34 to 18.37, 18.50, 18.51):
// EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE, and at the end DESTROY_SESSION and DESTROY_CLIENTID.
//
//     begin():    EXCHANGE_ID → CREATE_SESSION → RECLAIM_COMPLETE → what the server's limits are
//     a recovery: some or all of these steps (recovery.h)
//     end():      DESTROY_SESSION → DESTROY_CLIENTID
//
// What the server agreed to stands in facts(), which change with each step. A new session brings new slots, a
// new backchannel, and connections that have to be bound to it.
//
// A step without an answer is an Error, and may be made again: EXCHANGE_ID does no harm, and CREATE_SESSION
// is known again by its sequence id (create_sequence.h). Where server and client cannot agree on that the
// client becomes another instance of itself, whose predecessor's state the server drops.
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/callback.h"
#include "nfs4/create_sequence.h"
#include "nfs4/lanes.h"
#include "nfs4/slot_queue.h"

namespace nfsrdma::nfs4 {

class Handshake {
 public:
  /// What it stands on: each must outlive it.
  struct Around {
    Calls& calls;
    Lanes& lanes;
    SlotQueue& slots;
    CallbackService& backchannel;
    const SessionOptions& options;
  };
  explicit Handshake(const Around& around)
      : around_(around),
        verifier_(around.options.verifier),
        protects_state_(around.options.flavor && around.options.flavor->is_tamper_proof()) {}
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  [[nodiscard]] const SessionFacts& facts() const { return facts_; }

  /// Client id and session, from nothing. The first connection stands.
  async::Task<Status> begin(async::TimePoint deadline);
  /// As far as the server answers in time.
  async::Task<Status> end(async::TimePoint deadline);

  // ---- single steps ----

  async::Task<Status> exchange_id(async::TimePoint deadline);
  /// Whether the channel leads to the server that facts() are of, so that its session may have the connection (RFC 8881
  /// 2.10.5: the owner, minor id and all, the scope, and the client id). Asked with the same arguments this changes nothing
  /// there, once the client id is confirmed. Where all but the client id is the same the server may have restarted, or be a
  /// clone of another: NFS4ERR_STALE_CLIENTID.
  async::Task<Result<bool>> leads_to_server(rpc::Channel& channel, async::TimePoint deadline);
  /// `status`: what the server said; NFS4_OK also where it said nothing.
  async::Task<Status> create_session(async::TimePoint deadline, nfsstat4& status);
  /// Of one that was given up, where the server still has it: the client id could not be destroyed otherwise.
  async::Task<void> destroy_old_session(sessionid4 session, async::TimePoint deadline);
  async::Task<Status> reclaim_complete(async::TimePoint deadline);
  /// The server's lease time, and the most that it takes in one READ and WRITE.
  async::Task<Status> fetch_limits(async::TimePoint deadline);

  /// Whether the server wants its clients to reclaim what they had. While it does, EXCHANGE_ID begins a new epoch, also
  /// under the same client id. Gives what was so before.
  bool want_reclaim(bool wanted) { return std::exchange(reclaim_wanted_, wanted); }
  /// The server is not known to have lost the client id and its state: CREATE_SESSION alone may do.
  [[nodiscard]] bool keeps_client() const { return !reclaim_wanted_ && !reclaim_pending_; }
  /// Begins the client anew where the server and this client do not agree on the next csa_sequence, whatever
  /// was tried.
  void start_over_if_hopeless() {
    if (create_sequence_.is_hopeless()) be_another_instance();
  }

 private:
  async::Task<Status> begin_session(async::TimePoint deadline);
  async::Task<Status> create_session_once(async::TimePoint deadline, nfsstat4& status);
  [[nodiscard]] Compound exchange_id_compound() const;
  [[nodiscard]] CREATE_SESSION4args create_session_arguments();
  void take_client(const EXCHANGE_ID4resok& ok);
  void take_session(const CREATE_SESSION4resok& ok, const rpc::Channel& over);
  void be_another_instance();
  template <class Op>
  async::Task<Status> call_alone(typename Op::Args args, async::TimePoint deadline, nfsstat4& status);
  async::Task<Status> destroy(async::TimePoint deadline, nfsstat4& status);

  const Around around_;
  SessionFacts facts_;
  /// The connection that EXCHANGE_ID was answered on, for CREATE_SESSION to go over the same, which it binds.
  /// None once there is the session.
  rpc::Channel* known_over_ = nullptr;
  verifier4 verifier_;  // of this instance of the client
  CreateSequence create_sequence_;
  bool protects_state_;     // EXCHANGE_ID asks for SP4_MACH_CRED
  bool forgotten_ = false;  // the server does not know the client id any more
  bool reclaim_wanted_ = false;
  bool reclaim_pending_ = false;  // a new client id, and RECLAIM_COMPLETE was not said
};

}  // namespace nfsrdma::nfs4
