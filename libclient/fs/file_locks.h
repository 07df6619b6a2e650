// Locks of a mounted file.
//
// What programs have written, or stored in mappings, is on the server before a lock is taken or changed, and safe before
// one is released: the next holder must see it. After a lock was granted the kernel drops its pages of the file, and is
// notified of the file's size, because other clients may have written while they held theirs
// (KernelCache::see_as_locked).
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "fs/kernel_cache.h"
#include "fs/open_handle.h"
#include "fs/part.h"

namespace nfsrdma::fs {

class FileLocks : Part {
 public:
  FileLocks(MountState& state, KernelCache& kernel) : Part(state), kernel_(kernel) {}

  static async::Task<Result<std::optional<LockHolder>>> test_lock(std::shared_ptr<OpenHandle> file,
                                                                  LockRequest request);
  /// Without `wait`, fails with EAGAIN if another owner has a conflicting lock. With `wait`, waits for the
  /// lock; `wait` can be cancelled at any time, and the call then fails with EINTR.
  async::Task<Status> lock(std::shared_ptr<OpenHandle> file, LockRequest request,
                           std::shared_ptr<locking::LockWait> wait);
  async::Task<Status> unlock(std::shared_ptr<OpenHandle> file, std::uint64_t owner, LockRange range);
  /// Releases all locks that the owner has taken through the file. The server then has no state of the owner
  /// any more.
  async::Task<Status> release_locks(std::shared_ptr<OpenHandle> file, std::uint64_t owner);

 private:
  async::Task<bool> settle_or_cancel(std::shared_ptr<OpenHandle> file,
                                     std::shared_ptr<locking::LockWait> wait);

  KernelCache& kernel_;
};

}  // namespace nfsrdma::fs
