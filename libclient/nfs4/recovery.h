// How a session that was lost comes back (RFC 8881 2.10.13, 8.4): one task at a time, which every other call
// waits for.
//
//     the session works still (a restart of its slots, a backchannel beyond help):
//       what is under way ends → CREATE_SESSION
//     it is gone, the client id is not:      CREATE_SESSION
//     the client id is gone, or the server wants a reclaim:
//       EXCHANGE_ID → CREATE_SESSION → every registered open and its locks → RECLAIM_COMPLETE → limits
//
// An old session that the server may still have is destroyed in the background. While the server executes a request of it,
// DESTROY_SESSION is answered DELAY (18.37.3), and once it has succeeded no request of that session can be executed any
// more. So a request that the server may still be executing is made again, or its caller looks for it, only then (old_ended()).
// Other calls do not wait, because what hangs in the old session may hang for long.
//
// A step that fails has all of it tried again, with pauses that grow, for as long as the session is there:
// those who wait have deadlines of their own. A server that restarts in the middle of it is one more try.
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/client_state.h"
#include "nfs4/handshake.h"

namespace nfsrdma::nfs4 {

class Recovery {
 public:
  /// What it stands on: each must outlive it.
  struct Around {
    Calls& calls;
    Handshake& handshake;
    ClientState& state;
    SlotQueue& slots;
    Lease& lease;
    engine::ServerCounters& counters;
    std::chrono::milliseconds timeout;  ///< of one try
  };
  /// From now on a session of which too few slots are left is replaced.
  explicit Recovery(const Around& around);
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  /// Nothing where one is under way, or the session is not open. `works`: the session that is to be replaced
  /// still answers, and what is under way is waited for.
  void start(const char* why, bool works);
  [[nodiscard]] bool under_way() const { return under_way_; }
  /// Waits until none is under way. False if the deadline came first.
  async::Task<bool> ended(async::TimePoint deadline) {
    return async::until(ended_, deadline, [this] { return !under_way_; });
  }
  /// Waits until no recovery is under way and no session that was lost before is being destroyed any more. False if the
  /// deadline came first. A DESTROY_SESSION is given up after the timeout of one try, so that a request which hangs in the
  /// server for good does not stop others for ever.
  async::Task<bool> old_ended(async::TimePoint deadline) {
    return async::until(ended_, deadline, [this] { return !under_way_ && destroying_ == 0; });
  }
  /// Why the last try failed.
  [[nodiscard]] const std::optional<Error>& last_error() const { return last_error_; }

 private:
  async::Task<void> run(bool works);
  async::Task<Status> try_once(async::TimePoint deadline);
  void start_destroying(sessionid4 old, async::TimePoint deadline);
  async::Task<void> destroy(sessionid4 old, async::TimePoint deadline);

  const Around around_;
  bool under_way_ = false;
  std::size_t destroying_ = 0;  // old sessions whose DESTROY_SESSION has not ended
  std::optional<Error> last_error_;
  async::Event ended_;  // a recovery, or the destruction of an old session
};

}  // namespace nfsrdma::nfs4
