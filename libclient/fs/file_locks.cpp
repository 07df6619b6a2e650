#include "fs/file_locks.h"

#include <cerrno>
#include <utility>

namespace nfsrdma::fs {

async::Task<Result<std::optional<LockHolder>>> FileLocks::test_lock(std::shared_ptr<OpenHandle> file,
                                                                    LockRequest request) {
  co_return co_await file->file()->test_lock(request);
}

namespace {
/// Runs `task`, then sets `done` and wakes the waiter, which may also be woken by a cancellation.
async::Task<void> then_wake(std::shared_ptr<OpenHandle> /*file*/, async::Task<void> task,
                            std::shared_ptr<locking::LockWait> wait, std::shared_ptr<bool> done) {
  co_await std::move(task);
  *done = true;
  wait->wake();
}
}  // namespace

/// Does what KernelCache::send_out() does, but ends early if the wait is cancelled. Returns false then.
async::Task<bool> FileLocks::settle_or_cancel(std::shared_ptr<OpenHandle> file,
                                              std::shared_ptr<locking::LockWait> wait) {
  const auto done = std::make_shared<bool>(false);
  loop_.spawn(then_wake(file, kernel_.send_out(file->inode()), wait, done));
  while (!*done && !wait->cancelled()) co_await wait->until(async::TimePoint::max());
  co_return !wait->cancelled();
}

async::Task<Status> FileLocks::lock(std::shared_ptr<OpenHandle> file, LockRequest request,
                                    std::shared_ptr<locking::LockWait> wait) {
  // Data written before the lock must be visible to the next holder, and this client must see what others
  // wrote.
  Inode& inode = file->inode();
  if (wait) {
    const bool settled = co_await settle_or_cancel(file, wait);
    if (!settled) {
      co_return Error(ErrorKind::cancelled, EINTR, "LOCK", inode.label,
                      "the wait for the lock was interrupted");
    }
    auto done = co_await file->file()->wait_for_lock(request, std::move(wait));
    if (done) co_await kernel_.see_as_locked(std::move(file));
    co_return done;
  }
  co_await kernel_.send_out(inode);
  auto refused = co_await file->file()->lock(request);
  if (!refused) co_return refused.error();
  if (*refused)
    co_return refusal(EAGAIN, "LOCK", inode.label, "a conflicting lock is held by another process or client");
  co_await kernel_.see_as_locked(std::move(file));
  co_return Status();
}

async::Task<Status> FileLocks::unlock(std::shared_ptr<OpenHandle> file, std::uint64_t owner,
                                      LockRange range) {
  // Data stored in mappings under the lock is written back, too. An owner without locks has nothing to send.
  Inode& inode = file->inode();
  if (file->file()->knows_owner(owner) && kernel_.may_have_stores(inode)) co_await kernel_.fetch_pages(inode);
  auto committed = co_await writes_.make_safe(file);
  auto done = co_await file->file()->unlock(owner, range);
  if (!committed) co_return committed;
  co_return done;
}

async::Task<Status> FileLocks::release_locks(std::shared_ptr<OpenHandle> file, std::uint64_t owner) {
  if (!file->file()->knows_owner(owner)) co_return Status();
  auto committed = co_await writes_.make_safe(file);
  auto done = co_await file->file()->release_locks(owner);
  if (!committed) co_return committed;
  co_return done;
}

}  // namespace nfsrdma::fs
