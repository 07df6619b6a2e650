// What the parts of a session ask the server through, and what they know of the session as a whole.
//
// Session (session.h) and, for NFSv4.0, Sessionless (v40/sessionless.h) are the Calls of the product. Their parts
// (lanes.h, lease.h, delegations.h, …) hold a Calls& and never those, so that each can be tested by itself
// (tests/support/scripted_calls.h).
//
// A call by call() waits while the session is recovered, and is made again where the server asks for that; an
// Error from it says that there is no answer that could be used. call_in_recovery() is for recovery itself,
// which the others wait for. call_over() needs no session.
//
// Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "async/tasks.h"
#include "nfs4/compound.h"
#include "nfs4/session_facts.h"
#include "rpc/channel.h"

namespace nfsrdma::nfs4 {

class Calls {
 public:
  Calls() = default;
  virtual ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // ---- the session as a whole ----

  enum class Phase : std::uint8_t {
    beginning,  ///< the session has yet to be opened
    open,
    ending,  ///< it is being closed: nothing is begun beside any more
  };
  [[nodiscard]] virtual Phase phase() const = 0;
  [[nodiscard]] bool ending() const { return phase() == Phase::ending; }
  [[nodiscard]] virtual const SessionFacts& facts() const = 0;
  [[nodiscard]] std::uint64_t epoch() const { return facts().epoch; }
  [[nodiscard]] virtual async::Loop& loop() = 0;
  /// Where tasks run that use the session and that nobody waits for.
  [[nodiscard]] virtual async::Tasks& beside() = 0;
  [[nodiscard]] virtual async::TimePoint default_deadline() = 0;
  /// What the server is called in messages.
  [[nodiscard]] virtual const std::string& server() const = 0;
  /// A line for the user.
  virtual void notice(const std::string& text) = 0;

  /// Not so in NFSv4.0, where owners keep requests in order (by their seqids, RFC 7530 9.1.7), a stateid is meant with
  /// its seqid, and files are opened by name.
  [[nodiscard]] virtual bool has_sessions() const { return true; }
  /// The stateid to remember of an answer: with sessions its seqid is left open ("as it is"), so that answers
  /// may overtake each other.
  [[nodiscard]] stateid4 to_keep(stateid4 stateid) const {
    if (has_sessions()) stateid.seqid = 0;
    return stateid;
  }

  // ---- recovery ----

  [[nodiscard]] virtual bool recovering() const = 0;
  /// Nothing where a recovery is under way, or the session is not open. `works`: the session that is to be
  /// replaced still answers, and what is under way is waited for.
  virtual void start_recovery(const char* why, bool works) = 0;
  void start_recovery(const char* why) { start_recovery(why, false); }
  /// Waits until no recovery is under way. False if the deadline came first.
  virtual async::Task<bool> ready(async::TimePoint deadline) = 0;

  // ---- calls ----

  /// A COMPOUND with SEQUENCE in it, where there are sessions, on behalf of `caller`, for whom the flavour with that
  /// mark vouches: that of the handles in it.
  virtual Compound begin(const char* what, const Caller& caller, security::Mark mark) = 0;
  Compound begin(const char* what, const Caller& caller = nullptr) { return begin(what, caller, 0); }
  /// The same with PUTFH of the file behind SEQUENCE.
  Compound begin_on(const nfs_fh4& file, const char* what, const Caller& caller = nullptr) {
    Compound compound = begin(what, caller, file.mark);
    compound.add<op::PUTFH>({file});
    return compound;
  }
  /// Makes the call. The Reply stands behind its SEQUENCE result; operations after it may have failed.
  virtual async::Task<Result<CompoundReply>> call(Compound compound, async::TimePoint deadline) = 0;
  async::Task<Result<CompoundReply>> call(Compound compound) {
    return call(std::move(compound), default_deadline());
  }
  virtual async::Task<Result<CompoundReply>> call_in_recovery(Compound compound,
                                                              async::TimePoint deadline) = 0;
  /// A COMPOUND of one operation that needs no SEQUENCE (RFC 8881 18.35.3, 18.36.3, 18.34.3).
  virtual Compound begin_alone(const char* what) = 0;
  /// One try of it. Its message is back in `compound` afterwards.
  virtual async::Task<Result<CompoundReply>> call_over(rpc::Channel& channel, Compound& compound,
                                                       async::TimePoint deadline) = 0;

  /// How the server's root is asked about. In recovery, where it was refused so: another way is found.
  [[nodiscard]] virtual security::Mark root_mark() const { return 0; }
  virtual async::Task<Status> cross_root(async::TimePoint deadline);

  /// From now on each connection on which nothing was heard for the time `every` has a health check, and is replaced if
  /// nothing is heard for as long again (rpc::Channel::check_health).
  virtual void check_connections(std::chrono::milliseconds /*every*/) {}
  /// What renews the lease and does nothing else.
  virtual Compound renewal() { return begin("SEQUENCE"); }
  /// To be called with the answer to an OPEN in hand, once that is known to be good and before anything else is asked
  /// for the same owner. Where the server wants the owner confirmed it is, and `ok` has the stateid of then.
  /// Nothing where there are sessions.
  virtual async::Task<Status> settle_owner(CompoundReply& reply, OPEN4resok& ok, nfs_fh4 file, Caller caller);
  /// The server does not know the lock owner any more (RELEASE_LOCKOWNER).
  virtual void forget_lock_owner(std::uint64_t /*unique*/) {}

  // ---- answers ----

  /// The Error of a Reply whose take() failed: the server's status, or the fault of the Reply.
  [[nodiscard]] Error error_of(const CompoundReply& reply, const char* what, const std::string& path) const;
  /// Whether the status says that the stateid is gone (BAD_STATEID, EXPIRED, …), or its client id.
  static bool is_lost_state(nfsstat4 status);
  /// Whether it says that the server has taken the state away. It remembers that until FREE_STATEID says that
  /// the client knows, and has a flag for it in every SEQUENCE meanwhile (RFC 8881 18.38, 18.46.3).
  static bool is_revoked(nfsstat4 status);
  /// Whether it says that the session is gone, or the client id that it belongs to.
  static bool is_lost_session(nfsstat4 status);
  /// Whether the connection has ended and there are others, to make the call over (Channel::hand_calls_back).
  template <class T>
  static bool was_handed_back(const Result<T>& result) {
    return !result && is_handed_back(result.error());
  }

 private:
  static bool is_handed_back(const Error& error);
};

}  // namespace nfsrdma::nfs4
