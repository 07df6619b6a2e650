// How a client obtains its client id and session, and gives them up (RFC 8881 2.4, 2.10, 18.34 to
// 18.37, 18.50, 18.51): EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE, and at the end DESTROY_SESSION
// and DESTROY_CLIENTID.
//
//     begin():    EXCHANGE_ID -> CREATE_SESSION -> RECLAIM_COMPLETE, the server's limits, and the flavours
//                 that it takes at the target, in one COMPOUND; what the server refuses there is asked again
//                 in a COMPOUND of its own
//     a recovery: some or all of these steps (session_recovery.h)
//     end():      DESTROY_SESSION -> DESTROY_CLIENTID
//
//     shards:     CREATE_SESSION for further sessions under the client id (session/shard.h)
//
// facts() has what the server agreed to, and changes with each step. A new session brings new slots, a new
// backchannel, and connections that have to be bound to it.
//
// Failure. A step without an answer is an Error, and may be made again: EXCHANGE_ID does no harm, and the
// server recognizes a repeated CREATE_SESSION by its sequence id (create_sequence.h). If server and client
// cannot agree on that sequence id, the client becomes another instance of itself, and the server drops the
// state of the instance before.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "async/mutex.h"
#include "nfs4/compound/callback.h"
#include "nfs4/session/create_sequence.h"
#include "nfs4/session/lanes.h"
#include "nfs4/session/slot_queue.h"
#include "nfs4/state/crossing.h"

namespace nfsrdma::nfs4 {

class Handshake {
 public:
  /// The parts that Handshake uses; each must outlive it.
  struct Dependencies {
    CallLayer& calls;
    Lanes& lanes;
    SlotQueue& slots;
    CallbackService& backchannel;
    const SessionOptions& options;
    Crossings& crossings;
  };
  explicit Handshake(const Dependencies& parts)
      : parts_(parts),
        verifier_(parts.options.verifier),
        creating_(parts.calls.loop()),
        protects_state_(parts.options.flavor && parts.options.flavor->is_tamper_proof()) {}
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  [[nodiscard]] const SessionFacts& facts() const { return facts_; }

  /// Obtains client id and session, from nothing. The first connection is up.
  async::Task<Status> begin(async::TimePoint deadline);
  /// Destroys the sessions and the client id, as far as the server answers in time.
  async::Task<Status> end(async::TimePoint deadline);

  // ---- single steps ----

  async::Task<Status> exchange_id(async::TimePoint deadline);
  /// Returns whether the channel leads to the server that facts() describe, so that the session may use the
  /// connection. RFC 8881 2.10.5 requires the same server owner (with its minor id), the same scope and the
  /// same client id. An EXCHANGE_ID with the same arguments changes nothing at the server once the client id
  /// is confirmed. If only the client id differs, the server may have restarted, or may be a clone of
  /// another: NFS4ERR_STALE_CLIENTID.
  async::Task<Result<bool>> leads_to_server(rpc::Channel& channel, async::TimePoint deadline);
  /// `status`: the server's answer; NFS4_OK also if there was none.
  async::Task<Status> create_session(async::TimePoint deadline, nfsstat4& status);
  /// A session in addition to the one of facts(), under the same client id.
  struct FurtherSession {
    sessionid4 id{};
    std::uint32_t slots = 0, max_response = 0;
    std::uint64_t epoch = 0;  ///< facts().epoch
  };
  /// Creates a further session, without a backchannel, in place of the one with this number. That one is destroyed in
  /// the background. end() destroys them all.
  async::Task<Result<FurtherSession>> create_further(std::size_t number, async::TimePoint deadline);
  /// Ends a further session with a request whose answer is missing, whatever the server says to that at first. Returns true once
  /// the server cannot execute the request any more, and false if the deadline came first.
  async::Task<bool> end_further(sessionid4 session, async::TimePoint deadline);
  /// Destroys a session that was given up, if the server still has it, because the client id could not
  /// be destroyed before. Returns whether the server has it no more.
  async::Task<bool> destroy_old_session(sessionid4 session, async::TimePoint deadline);
  async::Task<Status> reclaim_complete(async::TimePoint deadline);
  /// Fetches the server's lease time, and the most bytes that it takes in one READ and WRITE.
  async::Task<Status> fetch_limits(async::TimePoint deadline);

  /// Sets whether the server wants its clients to reclaim their state, and returns what was set before. While
  /// it does, EXCHANGE_ID begins a new epoch, even under the same client id.
  bool want_reclaim(bool wanted) { return std::exchange(reclaim_wanted_, wanted); }
  /// Whether CREATE_SESSION alone may do: the server is not known to have lost the client id and its state.
  [[nodiscard]] bool keeps_client() const { return !reclaim_wanted_ && !reclaim_pending_; }
  /// Begins the client anew if the server and this client have found no csa_sequence that they agree on.
  void start_over_if_hopeless() {
    if (create_sequence_.is_hopeless()) be_another_instance();
  }

 private:
  async::Task<Status> begin_session(async::TimePoint deadline);
  [[nodiscard]] Compound first_compound(bool asks_about_target) const;
  async::Task<Result<bool>> make_first_call(async::TimePoint deadline);
  struct Created;
  enum class Which : std::uint8_t { first, further };
  async::Task<Result<Created>> create(Which which, async::TimePoint deadline, nfsstat4& status);
  async::Task<Result<Created>> create_once(const CREATE_SESSION4args& args, async::TimePoint deadline,
                                           nfsstat4& status);
  [[nodiscard]] Compound exchange_id_compound() const;
  [[nodiscard]] CREATE_SESSION4args create_session_arguments(Which which);
  async::Task<void> settle_unanswered(async::TimePoint deadline);
  void give_up(const sessionid4& session);
  async::Task<void> destroy_further(sessionid4 session, async::TimePoint deadline);
  void take_client(const EXCHANGE_ID4resok& ok);
  void take_session(const CREATE_SESSION4resok& ok, const rpc::Channel& over);
  void be_another_instance();
  template <class Op>
  async::Task<Status> call_alone(typename Op::Args args, async::TimePoint deadline, nfsstat4& status,
                                 rpc::Channel** over = nullptr);
  async::Task<Status> destroy_session(sessionid4 session, async::TimePoint deadline, nfsstat4& status);
  async::Task<Status> destroy(async::TimePoint deadline, nfsstat4& status);

  const Dependencies parts_;
  SessionFacts facts_;
  /// The connection that EXCHANGE_ID was answered on. CREATE_SESSION goes over the same connection, and binds
  /// it. Null once the session exists.
  rpc::Channel* known_over_ = nullptr;
  verifier4 verifier_;  // of this instance of the client
  CreateSequence create_sequence_;
  async::Mutex creating_;  // a CREATE_SESSION is under way: the next one has another sequence id
  /// The CREATE_SESSION that was sent with the next sequence id, and not answered: the server may answer another one with
  /// that sequence id from its cache.
  std::optional<Which> unanswered_;
  std::vector<sessionid4> further_;     // by their numbers; all zeros: none
  std::vector<sessionid4> destroying_;  // further ones that were replaced
  bool protects_state_;                 // EXCHANGE_ID asks for SP4_MACH_CRED
  bool forgotten_ = false;              // the server does not know the client id any more
  bool reclaim_wanted_ = false;
  bool reclaim_pending_ = false;  // a new client id, for which RECLAIM_COMPLETE was not sent
};

}  // namespace nfsrdma::nfs4
