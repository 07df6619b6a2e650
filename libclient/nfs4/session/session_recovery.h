// Recovery of a session that was lost (RFC 8881 2.10.13, 8.4).
//
//     the session still works (its slots are used up, or its backchannel cannot be mended):
//       calls under way end, for at most 10 s → CREATE_SESSION
//     the session is gone, and the client id is not:   CREATE_SESSION
//     the client id is gone, or the server wants a reclaim:
//       EXCHANGE_ID → CREATE_SESSION → every registered open and its locks → RECLAIM_COMPLETE → limits
//
// An old session that the server may still have is destroyed in the background. If the old session still
// worked, its requests under way go on in it meanwhile, over connections that are bound to both sessions, and
// DESTROY_SESSION is sent only when they have ended: the server's reply cache is lost with the session, and
// with it the answers to requests that must not be executed twice (2.10.6). While the server executes a
// request of the old session, DESTROY_SESSION is answered with DELAY (18.37.3). Once DESTROY_SESSION has
// succeeded, no request of that session can be executed any more. Only then is a request that the server may
// still have been executing made again, or does its caller look for its effect (old_ended()). Other calls do
// not wait, because a request may hang in the old session for long.
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/session/handshake.h"
#include "nfs4/state/client_state.h"
#include "nfs4/state/recovery.h"

namespace nfsrdma::nfs4 {

class SessionRecovery final : public Recovery {
 public:
  /// The parts that the recovery uses: each must outlive it.
  struct Dependencies {
    CallLayer& calls;
    Handshake& handshake;
    ClientState& state;
    SlotQueue& slots;
    Lease& lease;
    engine::ServerCounters& counters;
    std::chrono::milliseconds timeout;  ///< of one try
  };
  /// Arranges that a session with too few slots left is replaced.
  explicit SessionRecovery(const Dependencies& parts);

  /// Waits until no recovery is under way and every session that was replaced before has been destroyed.
  /// Returns false if the deadline came first. So that a request which hangs in the server for good does not
  /// stop others for ever, requests in an old session are waited for no longer than the timeout of one try, and
  /// DESTROY_SESSION is given up after as long again.
  async::Task<bool> old_ended(async::TimePoint deadline) {
    return async::until(ended_, deadline, [this] { return !under_way() && destroying_ == 0; });
  }

 private:
  async::Task<void> prepare(bool works) override;
  async::Task<Status> try_once(async::TimePoint deadline, bool works) override;
  void finished() override;
  void start_destroying(sessionid4 old, bool works);
  async::Task<void> destroy(sessionid4 old, bool works);

  Handshake& handshake_;
  ClientState& state_;
  SlotQueue& slots_;
  Lease& lease_;
  std::size_t destroying_ =
      0;  // old sessions whose DESTROY_SESSION has not ended; ended_ is notified of each end
};

}  // namespace nfsrdma::nfs4
