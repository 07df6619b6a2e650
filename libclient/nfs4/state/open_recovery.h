// Recovery of opens that the server does not know any more (RFC 8881 8.4.2, 9.11, 18.16).
//
// After a restart of the server reclaim_all() reclaims every registered open by CLAIM_PREVIOUS, and then its
// locks, before anything else is done under the new client id. If the server refuses a reclaim, only that
// file is affected: it is opened again by its handle when it is used, or Open::lost says why it cannot be
// recovered. The table of statuses (Retry in wire/nfs4/status.h) decides which of the two applies, and which
// reclaims are only repeated: a server in trouble is asked a bounded number of times more, when the other
// opens have been reclaimed. An Error concerns the session or the connection, or the server asks to wait, and
// reclaiming begins anew.
//
// A call whose stateid the server refuses as gone has the file opened again by reopen(), with CLAIM_FH.
// Several calls that find this out at the same time share one OPEN. Locks are claimed again only if the user
// wishes so (SessionOptions::recover_expired_locks), because another client may have held them in between.
//
// An OPEN is not sent any more once the open has got another stateid that gives the access it needs, as when
// a recovery has reclaimed it meanwhile. In NFSv4.0 the OPEN is by name, and the name may lead to another file
// by then. If this client itself has renamed the file, it is opened by the new name (Renaming).
//
// If an OPEN has found another file, or the file is closed while its OPEN is under way, the state that the
// OPEN returns is given back, unless it is that of another open: of the owner who has that other file open, or
// has opened the file again. If an OPEN is undone before its answer comes (openings.h), it is sent once more.
//
// Confined to the loop's thread.
#pragma once

#include <memory>
#include <optional>

#include "async/under_way.h"
#include "nfs4/compound/retries.h"
#include "nfs4/state/delegations.h"
#include "nfs4/state/lock_recovery.h"

namespace nfsrdma::nfs4 {

class OpenRecovery {
 public:
  /// The parts that OpenRecovery uses: each must outlive it.
  struct Dependencies {
    CallLayer& calls;
    const Opens& opens;
    Openings& openings;
    Delegations& delegations;
    LockRecovery& locks;
    Leftovers& leftovers;
    bool claims_expired_locks;  ///< SessionOptions::recover_expired_locks
  };
  explicit OpenRecovery(const Dependencies& parts) : parts_(parts), reopened_(parts.calls.loop()) {}
  OpenRecovery(const OpenRecovery&) = delete;
  OpenRecovery& operator=(const OpenRecovery&) = delete;

  /// Called when the server refused a stateid as gone (CallLayer::is_lost_state). Opens the file again, or
  /// returns why that is not possible. `used`: the stateid that was refused. If the open has another stateid
  /// by now, it was recovered already.
  async::Task<Status> reopen(std::shared_ptr<Open> held, stateid4 used, nfsstat4 why,
                             async::TimePoint deadline);
  /// Sends an OPEN by handle for the access that is needed, or for all of `open->access` if none is, because
  /// the server does not have all of it.
  async::Task<Status> renew(std::shared_ptr<Open> open);
  /// Reclaims all registered opens with their locks, under a new client id.
  async::Task<Status> reclaim_all(async::TimePoint deadline);
  class Renaming;

 private:
  async::Task<bool> was_renamed(std::shared_ptr<Open> held, engine::Place used, async::TimePoint deadline);
  async::Task<Status> reclaim_each(async::TimePoint deadline, const Retries& retries, nfsstat4& trouble);
  async::Task<Status> reclaim(std::shared_ptr<Open> open, async::TimePoint deadline, const Retries& retries,
                              nfsstat4& trouble);
  async::Task<Status> claim(std::shared_ptr<Open> open, Claim how, stateid4 replaced,
                            async::TimePoint deadline, nfsstat4& status);
  async::Task<Status> claim_once(std::shared_ptr<Open> open, Claim how, stateid4 replaced,
                                 async::TimePoint deadline, nfsstat4& status);
  void give_back(const nfs_fh4& file, const OPEN4resok& ok, std::uint32_t asked, std::uint64_t owner);
  void take(Open& open, const OPEN4resok& ok, std::uint32_t asked, Claim how);

  const Dependencies parts_;
  async::Event reopened_;
};

/// A RENAME of a file by this client, while it is under way. It changes the name by which opens of the file are opened again.
class OpenRecovery::Renaming {
 public:
  Renaming(OpenRecovery& recovery, const nfs_fh4& file) : file_(recovery.parts_.opens.file(file)) {
    if (file_) counted_.emplace(file_->renames, recovery.reopened_);
  }
  /// Called when the server has renamed the file.
  void made(const engine::Place& from, const engine::Place& to);

 private:
  const Opens::Files::Found file_;
  std::optional<async::Counted> counted_;
};

}  // namespace nfsrdma::nfs4
