// Byte-range locks on open files (RFC 8881 9, 18.10 to 18.12, 18.38), with POSIX semantics: the locks of one
// lock owner never conflict with each other, later ones replace earlier ones, and parts can be unlocked.
//
//     Locks locks(session);
//     auto refused = co_await locks.set(file, {owner, true, {offset, length}});    // F_SETLK
//     if (refused && *refused) ... the lock is held by *refused
//     auto cancel = std::make_shared<LockWait>(session.loop());
//     auto done = co_await locks.wait(file, request, cancel);                      // F_SETLKW
//     ... from elsewhere: cancel->cancel();  -> EINTR
//     co_await locks.clear(file, owner, range);                                    // F_UNLCK
//     co_await locks.release(file, owner);                                         // close() by that owner
//
// Owners. A lock owner is a number that the mount makes up (FUSE: lock_owner); on the wire it is combined
// with the client id. The server has one stateid per lock owner and open file, begun by the first LOCK and
// freed by release(). The file must be open for the kind of lock (a read lock needs READ, a write lock
// WRITE), or the server says NFS4ERR_OPENMODE (EBADF).
//
// Waiting. The server is asked for a blocking lock. It answers DENIED and, if it promised to (OPEN's
// MAY_NOTIFY_LOCK), calls when the lock may be available. LOCK is sent again then, and in any case from time
// to time: soon if there are no such calls, every few seconds if there are.
//
// Cancelling. A LOCK that has been sent is not recalled: it runs on by itself. If it is granted after the
// waiter has gone, the lock is unlocked again; a lock whose kind it has changed gets its earlier kind back,
// or is lost. So destroying a task of this class leaves no lock behind, either.
//
// Recovery. After a restart of the server the locks of every owner are claimed again before any new lock is
// granted. A lock that cannot be recovered (the lease had expired, and another client took the lock) is lost:
// every use of that file returns EIO until the owner has called release(). A task that unlocks while locks
// are being claimed waits for the end of the claim (state/lock_recovery.h). READ, WRITE and SETATTR of the
// size carry the lock's stateid (state/range_stateid.h). So if the server has revoked a lock, the first of
// them finds out, and nothing is written.
//
// Confined to the loop's thread. Tasks hold on to their file.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "async/event.h"
#include "nfs4/state/file_state.h"
#include "nfsrdma/types.h"

namespace nfsrdma::nfs4 {

class Locks {
 public:
  explicit Locks(ClientLease& session) : session_(session) {}

  /// Returns the lock that conflicts with the request, if any. Changes nothing.
  async::Task<Result<std::optional<LockHolder>>> test(std::shared_ptr<FileState> file, LockRequest request);
  /// Sets the lock. Returns the lock that conflicts with the request, if any; then nothing was locked.
  async::Task<Result<std::optional<LockHolder>>> set(std::shared_ptr<FileState> file, LockRequest request);
  /// Sets the lock, and waits for it as long as it takes, or until `cancelled` (which may be null) ends the
  /// wait: EINTR, ErrorKind::cancelled.
  async::Task<Status> wait(std::shared_ptr<FileState> file, LockRequest request,
                           std::shared_ptr<LockWait> cancelled);
  async::Task<Status> clear(std::shared_ptr<FileState> file, std::uint64_t owner, LockRange range);
  /// Unlocks everything that the owner has on the file, and makes the server forget the owner. Lost
  /// locks are forgotten, too.
  async::Task<Status> release(std::shared_ptr<FileState> file, std::uint64_t owner);

 private:
  struct Attempt;
  async::Task<Status> attempt_lock(std::shared_ptr<FileState> file, std::shared_ptr<Attempt> attempt);
  async::Task<Status> try_once(std::shared_ptr<FileState> file, std::shared_ptr<Attempt> attempt);
  async::Task<Status> lock_in_turn(std::shared_ptr<FileState> file, std::shared_ptr<LockState> state,
                                   std::shared_ptr<Attempt> attempt);
  static async::Task<void> run(Locks self, std::shared_ptr<FileState> file, std::shared_ptr<Attempt> attempt);
  static async::Task<void> undo(Locks self, std::shared_ptr<FileState> file,
                                std::shared_ptr<Attempt> attempt);
  async::Task<void> give_again(std::shared_ptr<FileState> file, std::shared_ptr<LockState> state,
                               std::uint64_t owner, HeldLock piece);
  async::Task<Status> unlock(std::shared_ptr<FileState> file, std::uint64_t owner, LockRange range,
                             bool free);
  async::Task<Status> unlock_in_turn(std::shared_ptr<FileState> file, std::shared_ptr<LockState> state,
                                     std::uint64_t owner, LockRange range, bool free);
  ClientLease& session_;
};

}  // namespace nfsrdma::nfs4
