// Recovery of a session that was lost (RFC 8881 2.10.13, 8.4): one task at a time, which every other call
// waits for.
//
//     the session still works (its slots are used up, or its backchannel cannot be mended):
//       calls under way end, for at most 10 s → CREATE_SESSION
//     the session is gone, and the client id is not:   CREATE_SESSION
//     the client id is gone, or the server wants a reclaim:
//       EXCHANGE_ID → CREATE_SESSION → every registered open and its locks → RECLAIM_COMPLETE → limits
//
// An old session that the server may still have is destroyed in the background. If the old session still
// worked, its requests under way go on in it meanwhile, over connections that are bound to both sessions, and
// DESTROY_SESSION is sent only when they have ended: the server's reply cache is lost with the session, and with
// it the answers to requests that must not be executed twice (2.10.6). While the server executes a request of
// the old session, DESTROY_SESSION is answered with DELAY (18.37.3). Once DESTROY_SESSION has succeeded, no
// request of that session can be executed any more. Only then is a request that the server may still have
// been executing made again, or does its caller look for its effect (old_ended()). Other calls do not wait,
// because a request may hang in the old session for long.
//
// If a step fails, all steps are tried again, with pauses that grow, for as long as the session object
// exists. Calls that wait have deadlines of their own. A server that restarts during a recovery costs one
// more try.
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/client_state.h"
#include "nfs4/handshake.h"

namespace nfsrdma::nfs4 {

class Recovery {
 public:
  /// The parts that Recovery uses: each must outlive it.
  struct Around {
    Calls& calls;
    Handshake& handshake;
    ClientState& state;
    SlotQueue& slots;
    Lease& lease;
    engine::ServerCounters& counters;
    std::chrono::milliseconds timeout;  ///< of one try
  };
  /// Arranges that a session with too few slots left is replaced.
  explicit Recovery(const Around& around);
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
  /// Waits until no recovery is under way and every session that was replaced before has been destroyed.
  /// Returns false if the deadline came first. So that a request which hangs in the server for good does not
  /// stop others for ever, requests in an old session are waited for no longer than the timeout of one try, and
  /// DESTROY_SESSION is given up after as long again.
  async::Task<bool> old_ended(async::TimePoint deadline) {
    return async::until(ended_, deadline, [this] { return !under_way_ && destroying_ == 0; });
  }
  /// Returns why the last try failed.
  [[nodiscard]] const std::optional<Error>& last_error() const { return last_error_; }

 private:
  async::Task<void> run(bool works);
  async::Task<Status> try_once(async::TimePoint deadline, bool works);
  void start_destroying(sessionid4 old, bool works);
  async::Task<void> destroy(sessionid4 old, bool works);

  const Around around_;
  bool under_way_ = false;
  std::size_t destroying_ = 0;  // old sessions whose DESTROY_SESSION has not ended
  std::optional<Error> last_error_;
  async::Event ended_;  // notified when a recovery, or the destruction of an old session, ends
};

}  // namespace nfsrdma::nfs4
