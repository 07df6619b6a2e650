// Byte-range locks on open files (RFC 8881 9, 18.10 to 18.12, 18.38), with POSIX semantics: a lock owner's
// own locks never conflict, later ones replace earlier ones, parts can be unlocked.
//
//     Locks locks(session);
//     auto refused = co_await locks.set(file, {owner, true, {offset, length}});    // F_SETLK
//     if (refused && *refused) …somebody has it
//     auto cancel = std::make_shared<LockWait>(session.loop());
//     auto done = co_await locks.wait(file, request, cancel);                      // F_SETLKW
//     … from elsewhere: cancel->cancel();  → EINTR
//     co_await locks.clear(file, owner, range);                                    // F_UNLCK
//     co_await locks.release(file, owner);                                         // close() by that owner
//
// A lock owner is a number that the mount makes up (FUSE: lock_owner); on the wire it is joined by the client
// id. The server knows one stateid per lock owner and open file, begun by the first LOCK and freed by
// release(). The file must be open for the kind of lock (read: READ, write: WRITE), or the server says
// NFS4ERR_OPENMODE (EBADF).
//
// Waiting. The server is asked for a blocking lock; it says DENIED and, if it promised to (OPEN's
// MAY_NOTIFY_LOCK), calls when the lock may be had. It is asked again then, and in any case from time to
// time: soon where there are no such calls, every few seconds where there are.
//
// Cancelling. A LOCK that has left is not recalled: it runs on by itself, and what it then brings for a
// waiter who is gone is unlocked again; what it made another kind of becomes the kind that it was, or is lost.
// So destroying a task of these, too, leaves no lock behind.
//
// Recovery. After a restart of the server the locks of every owner are claimed again before new ones are
// given to anybody. What cannot be had again (the lease had expired and somebody took it) is lost: every use
// of that file gives EIO until the owner has called release(). Who unlocks while they are claimed waits until
// they have been (lock_recovery.h). READs, WRITEs and sizes carry the lock's stateid (range_stateid.h), so that a lock that
// the server has taken away is found by the first of them, and nothing is written.
//
// Confined to the loop's thread. Tasks hold on to their file.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "async/event.h"
#include "nfs4/file_state.h"
#include "nfsrdma/types.h"

namespace nfsrdma::nfs4 {

class Locks {
 public:
  explicit Locks(LeaseHolder& session) : session_(session) {}

  /// Who is in the way of it, if anybody. Changes nothing.
  async::Task<Result<std::optional<LockHolder>>> test(std::shared_ptr<FileState> file, LockRequest request);
  /// Gives who is in the way; then it was not locked.
  async::Task<Result<std::optional<LockHolder>>> set(std::shared_ptr<FileState> file, LockRequest request);
  /// Waits for as long as it takes, or until `cancelled` (which may be null) says so: EINTR,
  /// ErrorKind::cancelled.
  async::Task<Status> wait(std::shared_ptr<FileState> file, LockRequest request,
                           std::shared_ptr<LockWait> cancelled);
  async::Task<Status> clear(std::shared_ptr<FileState> file, std::uint64_t owner, LockRange range);
  /// Everything that the owner has on the file, and the server's memory of it. Locks that were lost are
  /// forgotten, too.
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
  LeaseHolder& session_;
};

}  // namespace nfsrdma::nfs4
