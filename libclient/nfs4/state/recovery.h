// Recovery of the state that a server has lost, as one task at a time, which every other call waits for.
//
//   SessionRecovery  (session/session_recovery.h)  NFSv4.1 and 4.2: a session, the client id, opens and locks
//   Nfs40Recovery    (v40/nfs40_recovery.h)        NFSv4.0: the client id, opens and locks
//
// If a step fails, all steps are tried again, with pauses that grow, for as long as the object exists. Calls
// that wait have deadlines of their own. A server that restarts during a recovery costs one more try.
//
// Confined to the loop's thread.
#pragma once

#include <optional>

#include "async/event.h"
#include "async/until.h"
#include "engine/statistics.h"
#include "nfs4/compound/call_layer.h"

namespace nfsrdma::nfs4 {

class Recovery {
 public:
  virtual ~Recovery() = default;
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  /// Starts a recovery. Does nothing if one is under way, or if the session is not open. `works`: the session
  /// to be replaced still answers, so the recovery waits for the calls under way.
  void start(const char* why, bool works);
  [[nodiscard]] bool under_way() const { return under_way_; }
  /// Waits until no recovery is under way. Returns false if the deadline came first.
  async::Task<bool> ended(async::TimePoint deadline) {
    return async::until(ended_, deadline, [this] { return !under_way_; });
  }
  /// Returns why the last try failed.
  [[nodiscard]] const std::optional<Error>& last_error() const { return last_error_; }

 protected:
  /// `what`: the words for what is recovered, in the notice of its success. `timeout`: of one try.
  Recovery(CallLayer& calls, const char* what, engine::ServerCounters& counters,
           std::chrono::milliseconds timeout);

  /// Called when a recovery begins, before anything is sent.
  virtual void began() {}
  /// Ends before the first try begins.
  virtual async::Task<void> prepare(bool works);
  /// Tries all steps.
  virtual async::Task<Status> try_once(async::TimePoint deadline, bool works) = 0;
  /// Called when a try has succeeded, before the calls that wait go on.
  virtual void finished() {}

  CallLayer& calls_;
  const std::chrono::milliseconds timeout_;
  async::Event ended_;  // notified when a recovery ends

 private:
  async::Task<void> run(bool works);

  const char* const what_;
  engine::ServerCounters& counters_;
  bool under_way_ = false;
  std::optional<Error> last_error_;
};

}  // namespace nfsrdma::nfs4
