// The interface by which the parts of a session call the server, and by which they learn about
// the session as a whole.
//
// Session (session/session.h) and, for NFSv4.0, Nfs40Client (v40/nfs40_client.h) are the CallLayers of the
// product. Their parts (session/lanes.h, state/lease.h, state/delegations.h, ...) hold a CallLayer& and never
// one of these classes, so that each part can be tested by itself (tests/support/scripted_call_layer.h).
//
// call() waits while the session is recovered, and makes the call again if the server asks for that. Before
// each try it asks whether the call is still wanted (Compound::only_while). An Error from it says that there
// is no answer that could be used. call_in_recovery() is for the recovery itself,
// which all other calls wait for. call_over() needs no session.
//
// Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "async/tasks.h"
#include "nfs4/compound/compound.h"
#include "nfs4/compound/minor_version.h"
#include "nfs4/compound/session_facts.h"
#include "rpc/channel.h"

namespace nfsrdma::nfs4 {

class CallLayer {
 public:
  CallLayer() = default;
  virtual ~CallLayer();
  CallLayer(const CallLayer&) = delete;
  CallLayer& operator=(const CallLayer&) = delete;

  // ---- the session as a whole ----

  enum class Phase : std::uint8_t {
    beginning,  ///< the session has yet to be opened
    open,
    ending,  ///< the session is being closed: no task is started in the background any more
  };
  [[nodiscard]] virtual Phase phase() const = 0;
  [[nodiscard]] bool ending() const { return phase() == Phase::ending; }
  [[nodiscard]] virtual const SessionFacts& facts() const = 0;
  [[nodiscard]] std::uint64_t epoch() const { return facts().epoch; }
  [[nodiscard]] virtual async::Loop& loop() = 0;
  /// Tasks that use the session and run in the background, without a caller that waits for them.
  [[nodiscard]] virtual async::Tasks& background() = 0;
  [[nodiscard]] virtual async::TimePoint default_deadline() = 0;
  /// The name of the server in messages.
  [[nodiscard]] virtual const std::string& server() const = 0;
  /// Shows a line to the user.
  virtual void notice(const std::string& text) = 0;

  [[nodiscard]] virtual const MinorVersion& version() const { return kNfs41; }
  /// Returns the stateid to remember from an answer. Where owners keep no seqids, that of the stateid is set to
  /// 0, which means the state as it is at the server, so that answers may overtake each other.
  [[nodiscard]] stateid4 to_keep(stateid4 stateid) const {
    if (!version().keeps_seqids) stateid.seqid = 0;
    return stateid;
  }

  // ---- recovery ----

  [[nodiscard]] virtual bool recovering() const = 0;
  /// Starts a recovery, unless one is under way or the session is not open. `works`: the session that is to
  /// be replaced still answers, so the recovery first waits for the requests under way.
  virtual void start_recovery(const char* why, bool works) = 0;
  void start_recovery(const char* why) { start_recovery(why, false); }
  /// Waits until no recovery is under way. Returns false if the deadline came first.
  virtual async::Task<bool> ready(async::TimePoint deadline) = 0;

  // ---- calls ----

  /// Begins a COMPOUND, with SEQUENCE in it if there are sessions, on behalf of `caller`. `mark` names the
  /// flavour that vouches for the caller: that of the handles in the COMPOUND.
  virtual Compound begin(const char* what, const Caller& caller, security::Mark mark) = 0;
  Compound begin(const char* what, const Caller& caller = nullptr) { return begin(what, caller, 0); }
  /// Begins a COMPOUND with PUTFH of the file, behind SEQUENCE if there are sessions.
  Compound begin_on(const nfs_fh4& file, const char* what, const Caller& caller = nullptr) {
    Compound compound = begin(what, caller, file.mark);
    compound.add<op::PUTFH>({file});
    return compound;
  }
  /// Makes the call. The Reply is read up to its SEQUENCE result; the operations after that may have failed.
  virtual async::Task<Result<CompoundReply>> call(Compound&& compound, async::TimePoint deadline) = 0;
  async::Task<Result<CompoundReply>> call(Compound&& compound) {
    return call(std::move(compound), default_deadline());
  }
  virtual async::Task<Result<CompoundReply>> call_in_recovery(Compound&& compound,
                                                              async::TimePoint deadline) = 0;
  /// Begins a COMPOUND of one operation that needs no SEQUENCE (RFC 8881 18.35.3, 18.36.3, 18.34.3).
  virtual Compound begin_alone(const char* what) = 0;
  /// Makes one try of a call that needs no session. Its message is back in `compound` afterwards.
  virtual async::Task<Result<CompoundReply>> call_over(rpc::Channel& channel, Compound& compound,
                                                       async::TimePoint deadline) = 0;

  /// Mark of the flavour with which the server's root is asked about. If the root is refused in recovery,
  /// cross_root() finds another flavour.
  [[nodiscard]] virtual security::Mark root_mark() const { return 0; }
  virtual async::Task<Status> cross_root(async::TimePoint deadline);

  /// Has every connection checked from now on. If nothing was heard on a connection for the time `every`, a
  /// health check is made; if nothing is heard for as long again, the connection is replaced
  /// (rpc::Channel::check_health).
  virtual void check_connections(std::chrono::milliseconds /*every*/) {}
  /// Begins a COMPOUND that renews the lease and does nothing else.
  virtual Compound renewal() { return begin("SEQUENCE"); }
  /// To be called with the answer to an OPEN in hand, once that answer is known to be good and before
  /// anything else is requested for the same owner. If the server wants the owner confirmed, confirms it, and
  /// updates the stateid in `ok`. Does nothing if there are sessions.
  virtual async::Task<Status> settle_owner(CompoundReply& reply, OPEN4resok& ok, nfs_fh4 file, Caller caller);
  /// Called when the server does not know the lock owner any more (RELEASE_LOCKOWNER).
  virtual void forget_lock_owner(std::uint64_t /*unique*/) {}

  // ---- answers ----

  /// Returns the Error of a Reply whose take() failed: the server's status, or the fault of the Reply.
  [[nodiscard]] Error error_of(const CompoundReply& reply, const char* what, const std::string& path) const;
  /// Whether the status says that the stateid (BAD_STATEID, EXPIRED, ...) or its client id is gone.
  static bool is_lost_state(nfsstat4 status);
  /// Whether the status says that the server has revoked the state. The server remembers a revocation
  /// until FREE_STATEID shows that the client knows of it, and sets a flag in every SEQUENCE meanwhile
  /// (RFC 8881 18.38, 18.46.3).
  static bool is_revoked(nfsstat4 status);
  /// Whether the status says that the session, or the client id that it belongs to, is gone.
  static bool is_lost_session(nfsstat4 status);
  /// Whether the connection has ended while there are others, so that the call is to be made over one of them
  /// (Channel::hand_calls_back).
  template <class T>
  static bool was_handed_back(const Result<T>& result) {
    return !result && is_handed_back(result.error());
  }

 private:
  static bool is_handed_back(const Error& error);
};

}  // namespace nfsrdma::nfs4
