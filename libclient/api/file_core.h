// An open file of the C interface: struct nfsrdma_file.
//
// Thread-safety: that of the client (crew.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/client_core.h"
#include "engine/engine.h"

namespace nfsrdma::api {

/// The parts of memory that a vectored transfer reads into, or writes from.
using Parts = std::vector<std::span<std::byte>>;

class FileCore {
 public:
  FileCore(ClientCore& client, engine::Opened opened, std::string path);
  /// Cancels the calls on the file. Closes the file if close was not called, and waits for that unless the
  /// caller is inside. In a child of fork(2) the object may not be destroyed.
  ~FileCore();
  FileCore(const FileCore&) = delete;
  FileCore& operator=(const FileCore&) = delete;

  [[nodiscard]] ClientCore& client() const { return client_; }
  [[nodiscard]] const SharedPath& path() const { return path_; }
  Calls& calls() { return calls_; }
  [[nodiscard]] bool is_closing() const { return closing_ != nullptr; }

  /// Makes a call on the file (ClientCore::call): `make(file)` returns its task. The call is refused if the
  /// file was not opened for `access`, or is closing.
  template <class R, class Make, class Finish>
  std::int64_t call(engine::Access access, const How& how, nfsrdma_error** error, Make make, Finish finish);
  /// Reads, in a shard or on the fast path if the READ qualifies for it.
  std::int64_t read(std::span<std::byte> data, std::uint64_t offset, const How& how, nfsrdma_error** error);

  /// Returns the server's file, or null if it cannot be read. The caller is inside.
  [[nodiscard]] engine::ServerFileRef usable_for_reading() const {
    return is_usable(engine::Access::read) ? file_ : nullptr;
  }

  // ---- tasks ----

  async::Task<Result<std::size_t>> read_all(engine::ServerFile& file, std::span<std::byte> data,
                                            std::uint64_t offset);
  /// The bytes that were read, and the holes that the server reported in them.
  struct Stretch {
    std::size_t count = 0;
    bool has_holes = false;
    std::uint64_t hole_ends = 0;
  };
  async::Task<Result<Stretch>> read_stretches(engine::ServerFile& file, std::span<std::byte> data,
                                              std::uint64_t offset);
  async::Task<Result<std::size_t>> write_all(engine::ServerFile& file, std::span<const std::byte> data,
                                             std::uint64_t offset, Stability stability,
                                             std::shared_ptr<const void> keeper);
  async::Task<Result<std::size_t>> read_parts(engine::ServerFile& file, Parts parts, std::uint64_t offset);
  async::Task<Result<std::size_t>> write_parts(engine::ServerFile& file, Parts parts, std::uint64_t offset,
                                               Stability stability);
  async::Task<Result<Attributes>> read_attributes(engine::ServerFile& file);
  async::Task<Result<Attributes>> set_attributes(engine::ServerFile& file, const SetAttributes& changes);
  async::Task<Result<std::optional<Extent>>> find_extent(engine::ServerFile& file, std::uint64_t offset);
  async::Task<Result<std::uint64_t>> copy_from(FileCore& source, std::uint64_t source_offset,
                                               std::uint64_t offset, std::uint64_t count);
  async::Task<Status> lock(engine::ServerFile& file, LockRequest request, std::chrono::milliseconds most);
  async::Task<Status> unlock(engine::ServerFile& file, std::uint64_t owner, LockRange range);
  /// Commits unstable data and closes the file. Closing continues if the task or the FileCore is destroyed.
  async::Task<Status> end();
  /// Begins what end() does. The caller is inside.
  void begin_closing();

 private:
  class Pieces;
  struct Closing;
  /// Returns whether the file can be used with this access.
  [[nodiscard]] bool is_usable(engine::Access access) const;
  /// Returns the reason why the file cannot be used with this access.
  [[nodiscard]] Error unusable(engine::Access access) const;
  static async::Task<void> close_file(engine::Engine& engine, engine::ServerFileRef file,
                                      std::shared_ptr<Closing> closing, async::Use counted);
  static async::Task<Status> closed(std::shared_ptr<Closing> closing);
  /// Returns an error if the range would end beyond the largest possible offset.
  [[nodiscard]] std::optional<Error> too_far(std::size_t size, std::uint64_t offset) const;

  ClientCore& client_;
  engine::ServerFileRef file_;
  std::shared_ptr<Closing> closing_;  // set once closing has begun
  const engine::FileHandle handle_;
  const SharedPath path_;
  Calls calls_;
};

template <class R, class Make, class Finish>
std::int64_t FileCore::call(engine::Access access, const How& how, nfsrdma_error** error, Make make,
                            Finish finish) {
  // A blocking call keeps the server's file until it ends; a started one is cancelled before the file goes.
  engine::ServerFileRef kept;
  const auto begin = [&]() -> async::Task<R> {
    if (!is_usable(access)) return refused<R>(unusable(access));
    kept = file_;
    return make(*file_);
  };
  return client_.call<R>(calls_, how, error, begin, std::move(finish));
}

}  // namespace nfsrdma::api

struct nfsrdma_file final : nfsrdma::api::FileCore {
  using FileCore::FileCore;
};
