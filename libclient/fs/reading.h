// Reads of a mounted file: by the kernel, which caches pages of what it reads, and past the kernel, by a ring
// (fuse/ring_service.h), which does not; and lseek(2) for data and holes.
//
// A read waits for earlier writes of this mount that touch its range or end behind it (WriteBehind::settle_for_read). It
// takes bytes that were read ahead for its open file (open_handle.h). A read that bypasses the kernel first fetches what
// programs have stored in the kernel's pages (kernel_cache.h).
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "fs/kernel_cache.h"
#include "fs/open_handle.h"
#include "fs/part.h"

namespace nfsrdma::fs {

class Reading : Part {
 public:
  Reading(MountState& state, KernelCache& kernel)
      : Part(state), kernel_(kernel), elsewhere_(state.reads_elsewhere) {}

  async::Task<Result<ReadData>> read(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                     std::size_t size);
  /// Returns true if read() would be exactly one READ to the server: no write is under way, none of the bytes
  /// are here, and nothing is to be read ahead. The caller may then make the READ itself
  /// (ServerFile::start()). After true end_plain_read() must follow before the OpenHandle is destroyed. `got` is the
  /// number of bytes that were read, 0 if the READ failed, and none if it was not started.
  [[nodiscard]] static bool begin_plain_read(OpenHandle& file, std::uint64_t offset, std::size_t size);
  void end_plain_read(OpenHandle& file, std::optional<std::size_t> got);
  /// Called when a read by the kernel met the end of the file at `end`: the kernel may cut its i_size to
  /// that.
  static void has_ended(OpenHandle& file, std::uint64_t end) { file.inode().pages.may_end_at(end); }

  struct DirectRead {
    bool ahead = false;  ///< the read may use read-ahead data, and may read ahead itself
  };
  /// Reads past the kernel into `data`, which `memory` holds. Fewer bytes than asked for mean the end of the file.
  async::Task<Result<std::size_t>> read_direct(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                               std::span<std::byte> data, std::uint64_t offset,
                                               DirectRead how);

  async::Task<Result<std::uint64_t>> seek(std::shared_ptr<OpenHandle> file, std::uint64_t offset, int whence);

 private:
  async::Task<Result<std::size_t>> read_pieces(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                               std::span<std::byte> data, std::uint64_t offset);

  KernelCache& kernel_;
  ReadsElsewhere* const elsewhere_;
};

}  // namespace nfsrdma::fs
