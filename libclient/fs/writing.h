// Writes of a mounted file: by the kernel, which sends what programs write and writes pages back, and past the kernel,
// by a ring (fuse/ring_service.h); and fsync(2), fallocate(2) and copy_file_range(2).
//
// A write is answered as WriteBehind says (write_behind.h), and the kernel's pages are then made to agree with it
// (kernel_cache.h). A page that the kernel writes back is cropped to the file's end.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "fs/kernel_cache.h"
#include "fs/open_handle.h"
#include "fs/part.h"

namespace nfsrdma::fs {

/// Returns whether the program still waits for the answer to its fsync(2) or close(2). An error that no program receives
/// does not count as reported.
using StillWaits = std::function<bool()>;

class Writing : Part {
 public:
  Writing(MountState& state, KernelCache& kernel) : Part(state), kernel_(kernel) {}

  /// The `flags` of a page that the kernel writes back. A descriptor that may write has O_WRONLY or O_RDWR
  /// instead.
  static constexpr int kWrittenBack = 0;
  using Bytes = WriteBehind::Bytes;
  /// `memory` holds what `data` points to. `flags` are those of the descriptor at the moment (F_SETFL may
  /// have changed them); none: those of the open(2). With O_APPEND `offset` is where the kernel believes the
  /// end of the file to be.
  async::Task<Status> write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                            std::uint64_t offset, std::optional<int> flags = std::nullopt);
  /// Does what write() does, past the kernel, and returns the offset that the data was written to.
  async::Task<Result<std::uint64_t>> write_direct(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                                  std::span<const std::byte> data, std::uint64_t offset,
                                                  int flags);

  async::Task<Status> sync(std::shared_ptr<OpenHandle> file, StillWaits still_waits = {});
  /// Does what fsync(2) does, including what programs have stored in mappings of the file.
  async::Task<Status> sync_past(std::shared_ptr<OpenHandle> file);

  async::Task<Status> allocate(std::shared_ptr<OpenHandle> file, int mode, std::uint64_t offset,
                               std::uint64_t length);
  async::Task<Result<std::uint64_t>> copy(std::shared_ptr<OpenHandle> from, std::uint64_t from_offset,
                                          std::shared_ptr<OpenHandle> to, std::uint64_t to_offset,
                                          std::uint64_t count);

 private:
  async::Task<Status> send(const std::shared_ptr<OpenHandle>& file, async::Memory memory, Bytes data,
                           std::uint64_t offset, const WriteRequest& how);
  async::Task<std::size_t> cropped(std::shared_ptr<OpenHandle> file, std::uint64_t offset, std::size_t size);

  KernelCache& kernel_;
};

}  // namespace nfsrdma::fs
