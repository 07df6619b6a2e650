// Recovery of what an NFSv4.0 server has forgotten (RFC 7530 9.6.2): SETCLIENTID, then every registered open and
// its locks are reclaimed, then the limits are fetched.
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/state/client_state.h"
#include "nfs4/state/recovery.h"
#include "nfs4/v40/registration.h"

namespace nfsrdma::nfs4 {

class Nfs40Recovery final : public Recovery {
 public:
  /// The parts that the recovery uses: each must outlive it.
  struct Dependencies {
    CallLayer& calls;
    Registration& registration;
    ClientState& state;
    Lease& lease;
    engine::ServerCounters& counters;
    std::chrono::milliseconds timeout;  ///< of one try
  };
  explicit Nfs40Recovery(const Dependencies& parts)
      : Recovery(parts.calls, "recovered", parts.counters, parts.timeout),
        registration_(parts.registration),
        state_(parts.state),
        lease_(parts.lease) {}

 private:
  void began() override { registration_.lost(); }
  async::Task<Status> try_once(async::TimePoint deadline, bool works) override;

  Registration& registration_;
  ClientState& state_;
  Lease& lease_;
};

}  // namespace nfsrdma::nfs4
