// Byte-range locks on NFSv3 files, by the lock service beside NFS, with POSIX semantics: a lock owner's own locks
// never conflict, later ones replace earlier ones, parts can be unlocked.
//
// A lock is of a file and an owner, whatever it was opened for. What is held is remembered in the file's record
// (file_record.h): to be claimed again, and to be unlocked at the end.
//
// Waiting. Where the service queues whoever waits, and calls when the lock is theirs, it is asked again then, and now
// and then without a call, which may have got lost. Where it does not it is asked again and again, with pauses that
// grow: see aux/lockd.h.
//
// Cancelling. A question that has left is not recalled: it runs on by itself. What it brings for a waiter who is gone,
// and what may have been given though its answer was lost, is undone: the place in the queue is given up, and the range
// is again what it was for this owner, before anything else is asked for in the owner's name.
//
// Releasing. What release() could not unlock in time is asked for again, now and then, until it is unlocked, or until
// its owner asks for locks again, who will release that, too. Meanwhile it is not claimed.
//
// Recovery. A restart of the server forgets all locks. It is noticed by the server's state number, which is asked for
// while locks are held, and by an answer that says that the server is in its grace period; and it may have come to pass
// where the file protocol's connection was lost. Then everything that is held is claimed again, and once more when there is
// another connection: behind the loss the lock service may go on for a while before it forgets. Where the server takes
// no claims it is asked whether it has the lock still. What it refuses, or has no more, is lost: reads and writes of the
// file, and new locks of its owner, give EIO until the owner has called release().
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

/// The file that is locked, and in whose name.
struct LockedFile {
  Caller caller;
  FileHandle handle;
  std::string label;  ///< for errors
};

class Locks {
 public:
  /// The file protocol's connections, as far as locks depend on them.
  struct Connections {
    std::function<std::uint64_t()> number;  ///< another one when a connection has been lost, or made
    std::function<void(bool on)>
        hold;  ///< while on, one that was lost is made anew without a call that needs it
  };
  /// `files` must outlive it. `manager` may be null: ENOLCK. `patience`: how long each question is tried.
  Locks(async::Loop& loop, FileRecords& files, LockManager* manager, async::Clock::duration patience,
        Connections connections)
      : loop_(loop),
        files_(files),
        manager_(manager),
        patience_(patience),
        connections_(std::move(connections)),
        watch_turn_(loop),
        beside_(loop) {}
  ~Locks();
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

  async::Task<Result<std::optional<LockHolder>>> test(LockedFile file, LockRequest request);
  /// Gives who is in the way; then it was not locked.
  async::Task<Result<std::optional<LockHolder>>> set(LockedFile file, LockRequest request);
  /// Until it is had, or `cancelled` (which may be null) says so: EINTR, ErrorKind::cancelled.
  async::Task<Status> wait(LockedFile file, LockRequest request,
                           std::shared_ptr<locking::LockWait> cancelled);
  async::Task<Status> clear(LockedFile file, std::uint64_t owner, LockRange range);
  async::Task<Status> release(LockedFile file, std::uint64_t owner);
  [[nodiscard]] bool knows(const FileHandle& file, std::uint64_t owner) const;
  /// The error that lost a lock on the file, if one was lost.
  [[nodiscard]] std::optional<Error> lost(const FileHandle& file) const;
  /// Releases it, and nobody hears how that went.
  void release_beside(LockedFile file, std::uint64_t owner);
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
  std::optional<std::uint32_t> server_state_;  // as of the watch's last question
  std::uint64_t connections_seen_ = 0;         // then, too
  bool watching_ = false;
  async::Mutex watch_turn_;  // held while it begins
  bool reclaiming_ = false;
  async::TimePoint reclaimed_ = async::TimePoint::min();
  async::Tasks beside_;  // the last: what the tasks use is there until they are gone
};

}  // namespace nfsrdma::nfs3
