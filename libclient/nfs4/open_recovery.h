// Opens that the server does not know any more (RFC 8881 8.4.2, 9.11, 18.16), and how they are had again.
//
// After a restart of the server reclaim_all() asks for every registered open with CLAIM_PREVIOUS, and for its
// locks, before anything else is done under the new client id. What the server refuses is the file's own
// trouble: it is opened again by its handle when it is used, or Open::lost says why it cannot be had. Which of the
// two, and what is only asked for again, the table of statuses says (Retry in types/status.h): a server in trouble is
// asked for what it refused some times more, when the others have been reclaimed. An Error is about the session or the
// connection, or the server asks to wait, and reclaiming begins anew.
//
// A call that is told that its stateid is gone has the file opened again by reopen(), with CLAIM_FH; several
// calls that find out at the same time share one OPEN. What was locked is claimed again only where the user
// wishes so, since somebody else may have had the lock in between.
//
// A file may be closed while it is asked for: what has just been had is given back. And an OPEN may be undone
// before its answer comes (openings.h); then it is made once more.
//
// Confined to the loop's thread.
#pragma once

#include <memory>

#include "nfs4/delegations.h"
#include "nfs4/lock_recovery.h"
#include "nfs4/retries.h"

namespace nfsrdma::nfs4 {

class OpenRecovery {
 public:
  /// What it stands on: each must outlive it.
  struct Around {
    Calls& calls;
    const Opens& opens;
    Openings& openings;
    Delegations& delegations;
    LockRecovery& locks;
    Leftovers& leftovers;
    bool claims_expired_locks;  ///< SessionOptions::recover_expired_locks
  };
  explicit OpenRecovery(const Around& around) : around_(around), reopened_(around.calls.loop()) {}
  OpenRecovery(const OpenRecovery&) = delete;
  OpenRecovery& operator=(const OpenRecovery&) = delete;

  /// After a status that says the stateid is gone (Calls::is_lost_state): has it again, or says why not.
  /// `used`: the stateid that was refused; if it is another one by now, somebody else had it again.
  async::Task<Status> reopen(std::shared_ptr<Open> held, stateid4 used, nfsstat4 why,
                             async::TimePoint deadline);
  /// OPEN by handle with `open->access`, for whatever reason the server does not know of all of it.
  async::Task<Status> renew(std::shared_ptr<Open> open);
  /// All that are registered, with their locks, under a new client id.
  async::Task<Status> reclaim_all(async::TimePoint deadline);

 private:
  async::Task<Status> reclaim_each(async::TimePoint deadline, const Retries& retries, nfsstat4& trouble);
  async::Task<Status> reclaim(std::shared_ptr<Open> open, async::TimePoint deadline, const Retries& retries,
                              nfsstat4& trouble);
  async::Task<Status> claim(std::shared_ptr<Open> open, Claim how, async::TimePoint deadline,
                            nfsstat4& status);
  void take(Open& open, const OPEN4resok& ok, std::uint32_t asked, Claim how);

  const Around around_;
  async::Event reopened_;
};

}  // namespace nfsrdma::nfs4
