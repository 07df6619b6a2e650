// Byte-range locks on NFSv3 files, from the lock service that runs next to NFS, with POSIX semantics: a lock
// owner's own locks never conflict, later ones replace earlier ones, and parts can be unlocked.
//
// A lock belongs to a file and an owner, whatever the file was opened for. Locks that are held are remembered
// in the file's record (file_record.h), so that they can be claimed after a restart and unlocked at the end.
//
// Waiting. If the lock service queues waiters and calls when the lock is granted, the waiter asks again at
// that call, and also from time to time without a call, because the call may be lost. If the service does not
// queue, the waiter asks again and again, with pauses that grow: see aux/lockd.h.
//
// Cancelling. A request that has been sent is not recalled: it continues as a task of its own. If it obtains
// a lock for a waiter that is gone, or if a lock may have been granted although its answer was lost, that is
// undone: the place in the queue is given up, and the range returns to what it was for this owner, before any
// other request in the owner's name.
//
// Releasing. If release() could not unlock in time, the unlocking is tried again from time to time until it
// succeeds, or until the owner asks for locks again; a later release() then covers the old locks, too.
// Meanwhile these locks are not claimed.
//
// Recovery. A restart of the server makes it forget all locks. Three signs show that it may have restarted:
// its state number, which is asked for while locks are held; an answer that the server is in its grace
// period; and the loss of the file protocol's connection. Then all held locks are claimed again. They are
// claimed once more when there is another connection, because after the loss the lock service may run on for
// a while before it forgets. If the server accepts no claims, it is asked whether it still has the lock. A
// lock that it refuses, or no longer has, is lost: reads and writes of the file, and new locks of its owner,
// fail with EIO until the owner has called release().
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/mutex.h"
#include "async/tasks.h"
#include "engine/lock_manager.h"
#include "locking/held_locks.h"
#include "locking/lock_wait.h"
#include "nfs3/file_record.h"

namespace nfsrdma::nfs3 {

using engine::FileHandle;
using engine::LockManager;
using security::Caller;

/// A file to lock, and the caller in whose name.
struct LockedFile {
  Caller caller;
  FileHandle handle;
  std::string label;  ///< the file's name in errors
};

class Locks {
 public:
  /// The file protocol's connections, as far as locks depend on them.
  struct Connections {
    std::function<std::uint64_t()> number;  ///< changes when a connection has been lost or made
    /// While on, a lost connection is made again even if no call needs it.
    std::function<void(bool on)> hold;
  };
  /// `files` must outlive the Locks. `manager` may be null; then locking fails with ENOLCK. `patience`: how
  /// long each request is tried.
  Locks(async::Loop& loop, FileRecords& files, LockManager* manager, async::Clock::duration patience,
        Connections connections)
      : loop_(loop),
        files_(files),
        manager_(manager),
        patience_(patience),
        connections_(std::move(connections)),
        watch_turn_(loop),
        background_(loop) {}
  ~Locks();
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

  async::Task<Result<std::optional<LockHolder>>> test(LockedFile file, LockRequest request);
  /// Locks the range. If it returns a holder, that lock conflicts, and nothing was locked.
  async::Task<Result<std::optional<LockHolder>>> set(LockedFile file, LockRequest request);
  /// Waits until the lock is granted, or until `cancelled` (which may be null) is cancelled: EINTR,
  /// ErrorKind::cancelled.
  async::Task<Status> wait(LockedFile file, LockRequest request,
                           std::shared_ptr<locking::LockWait> cancelled);
  async::Task<Status> clear(LockedFile file, std::uint64_t owner, LockRange range);
  async::Task<Status> release(LockedFile file, std::uint64_t owner);
  [[nodiscard]] bool knows(const FileHandle& file, std::uint64_t owner) const;
  /// Returns the error that lost a lock on the file, if one was lost.
  [[nodiscard]] std::optional<Error> lost(const FileHandle& file) const;
  /// Releases the owner's locks in the background. Errors are not reported.
  void release_in_background(LockedFile file, std::uint64_t owner);
  [[nodiscard]] std::size_t held() const;

 private:
  using State = LockState;
  struct Attempt;
  class Queued;
  std::shared_ptr<State> state_of(const LockedFile& file, std::uint64_t owner);
  [[nodiscard]] std::shared_ptr<State> known(const FileHandle& file, std::uint64_t owner) const;
  [[nodiscard]] std::vector<std::shared_ptr<State>> all() const;
  [[nodiscard]] async::TimePoint deadline() const { return loop_.now() + patience_; }
  static LockManager::Question question_of(const LockedFile& file, const LockRequest& request);
  async::Task<Status> attempt(LockedFile file, std::shared_ptr<Attempt> one);
  async::Task<void> run(LockedFile file, std::shared_ptr<Attempt> one);
  async::Task<bool> ask(LockedFile file, std::shared_ptr<State> state, std::shared_ptr<Attempt> one,
                        async::TimePoint until);
  static locking::HeldLocks as_it_was(const State& state, const Attempt& one);
  async::Task<void> undo(LockedFile file, std::shared_ptr<State> state, std::shared_ptr<Attempt> one);
  async::Task<void> undo_later(LockedFile file, std::shared_ptr<Attempt> one);
  async::Task<bool> give_again(LockedFile file, std::shared_ptr<State> state, locking::HeldLock piece);
  void tidy(const FileHandle& file, std::uint64_t owner);
  async::Task<void> release_quietly(LockedFile file, std::uint64_t owner);
  void back_again(const LockedFile& file, std::uint64_t owner);
  void release_left();
  async::Task<void> release_again(FileHandle file, std::uint64_t owner);
  async::Task<void> begin_watch();
  async::Task<void> watch();
  async::Task<void> reclaim();
  async::Task<bool> reclaim_of(std::shared_ptr<State> state);
  async::Task<Result<bool>> have_again(std::shared_ptr<State> state, LockManager::Question question,
                                       async::TimePoint until);
  async::Task<Result<bool>> is_there(LockManager::Question question, async::TimePoint until);

  async::Loop& loop_;
  FileRecords& files_;
  LockManager* const manager_;
  const async::Clock::duration patience_;
  const Connections connections_;
  std::optional<std::uint32_t> server_state_;  // at the watch's last question
  std::uint64_t connections_seen_ = 0;         // likewise at the watch's last question
  bool watching_ = false;
  async::Mutex watch_turn_;  // held while the watch begins
  bool reclaiming_ = false;
  async::TimePoint reclaimed_ = async::TimePoint::min();
  async::Tasks background_;  // last, so that what its tasks use outlives them
};

}  // namespace nfsrdma::nfs3
