// close(2) of a mounted file, the end of its last descriptor, and the kernel's forgetting of inodes.
//
// close(2) is the kernel's FLUSH, which comes once for each descriptor; the file ends with its last descriptor
// (RELEASE, close()). close(2) ends when the data is on the server's disk. With a write delegation close(2) does not
// wait for the data, which is then on its way: no other client sees the file before it has been written out
// (engine/write_back_owner.h). It does wait if the file is locked, because a lock must be held until the data is written.
//
// Confined to the loop's thread. No task may outlive this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "async/event.h"
#include "engine/write_back_owner.h"
#include "fs/deferred_closes.h"
#include "fs/early_reads.h"
#include "fs/open_handle.h"
#include "fs/part.h"
#include "fs/removal.h"
#include "fs/writing.h"

namespace nfsrdma::fs {

class Closing : Part, engine::WriteBackOwner {
 public:
  Closing(MountState& state, DeferredCloses& deferred_closes, EarlyReads& early_reads, Removal& removal);
  ~Closing() override;

  /// Handles close(2). Afterwards the data is on the server's disk, or on its way there if the file has a
  /// write delegation. The locks of `lock_owner` are released, as POSIX demands.
  async::Task<Status> flush(std::shared_ptr<OpenHandle> file, std::uint64_t lock_owner,
                            StillWaits still_waits = {});
  async::Task<Status> close(std::shared_ptr<OpenHandle> file);
  /// Ends when no close() is under way and no file is kept open for its delegation.
  async::Task<void> closed();
  /// Called when the kernel has forgotten this many lookups of the inode, or with 0 when the last file of an inode that
  /// the kernel has forgotten was closed.
  void forget(std::uint64_t inode, std::uint64_t lookups);

 private:
  [[nodiscard]] bool may_close_early(const OpenHandle& file) const;
  async::Task<void> settle_in_background(std::shared_ptr<Inode> inode, std::shared_ptr<void> until);
  async::Task<Status> close_now(std::shared_ptr<OpenHandle> file);
  // ---- engine::WriteBackOwner ----
  void write_out(const FileHandle& handle, std::shared_ptr<void> until) override;
  [[nodiscard]] std::optional<std::uint64_t> written_size(const FileHandle& handle) const override;

  MissingNames& missing_names_;
  DeferredCloses& deferred_closes_;
  EarlyReads& early_reads_;
  Removal& removal_;
  async::TimePoint closes_early_from_{};
  unsigned closing_ = 0;  // close()s under way
  async::Event none_closing_;
};

}  // namespace nfsrdma::fs
