#include "nfs4/v40/nfs40_recovery.h"

#include <cerrno>

namespace nfsrdma::nfs4 {

async::Task<Status> Nfs40Recovery::try_once(async::TimePoint deadline, bool /*works*/) {
  const Lease::Sent sent = lease_.now();
  {
    const async::Mutex::Lock turn = co_await registration_.turn().lock(deadline);
    if (!turn) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "SETCLIENTID", calls_.server(),
                      "an earlier SETCLIENTID has not completed in time");
    }
    if (auto done = co_await registration_.set_client(deadline); !done) co_return done;
  }
  lease_.renewed(sent);
  if (auto done = co_await state_.open_recovery.reclaim_all(deadline); !done) co_return done;
  // The server program may be another one now. If it does not answer this, the limits stay as they were.
  (void)co_await registration_.fetch_limits(deadline);
  lease_.arm();
  co_return Status();
}

}  // namespace nfsrdma::nfs4
