// The interface to an open file.
//
//     auto file = client->open("/export/file", nfsrdma::OpenMode::read_write);
//     auto count = (*file)->read(data, offset);
//
// Thread-safety, deadlines, interruption, memory, and the limits of callbacks: see client.h, which describes
// them for all calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "nfsrdma/export.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

/// An open file. close() or start_close() closes it. The destructor also closes it, but reports no error. A
/// File must not outlive its Client.
///
/// The destructor cancels the calls that start_... methods began: when it returns, their buffers are out of
/// the server's reach and none of the file's callbacks will run. The destructor waits until the file is
/// closed. Inside a callback it does not wait, and the file is closed in the background.
class NFSRDMA_API File {
 public:
  using Done = std::function<void(Result<std::size_t>)>;
  using Ended = std::function<void(Status)>;
  using Told = std::function<void(Result<Attributes>)>;

  virtual ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Reads up to data.size() bytes; fewer only at the end of the file. A read larger than rsize is split into
  /// pieces, several of them in flight. If one piece fails, the call fails.
  virtual Result<std::size_t> read(std::span<std::byte> data, std::uint64_t offset) = 0;
  /// Writes all of `data`. A write larger than wsize is split into pieces, as in read(). If the call fails,
  /// parts of the data may have been written.
  virtual Result<std::size_t> write(std::span<const std::byte> data, std::uint64_t offset,
                                    Stability stability = Stability::unstable) = 0;
  /// Starts what read() does. `done` receives the number of bytes read; fewer than data.size() means that the end of
  /// the file was reached. `data` must stay valid until `done` runs or the File is destroyed.
  virtual void start_read(std::span<std::byte> data, std::uint64_t offset, Done done) = 0;
  /// The bytes that were read, and the holes that the server reported in them, if it reports holes
  /// (Options::read_plus).
  struct Stretch {
    std::size_t count = 0;
    bool has_holes = false;  ///< some of the bytes are in holes
    /// The end of the hole that contains the last byte; 0 if the last byte is data. Some servers report how
    /// far the hole reaches; others report only the part within the bytes that were asked for.
    std::uint64_t hole_ends = 0;
  };
  using Heard = std::function<void(Result<Stretch>)>;
  /// Like start_read(), for a program that can skip holes.
  virtual void start_read_with_holes(std::span<std::byte> data, std::uint64_t offset, Heard done) = 0;
  /// Starts what write() does. `done` receives the number of bytes written.
  ///
  /// With Stability::unstable the library keeps a copy of the bytes until they are stable, and writes them
  /// again if the server lost them; therefore `data` is free for other use once `done` has run. If writing
  /// them again fails, sync() returns the error. With a `keeper`, a reference that keeps `data` valid, the
  /// library makes no copy: it holds the reference until the bytes are stable, and the bytes must not be
  /// changed before it is released. With Stability::on_disk the bytes are stable when `done` runs.
  virtual void start_write(std::span<const std::byte> data, std::uint64_t offset, Done done,
                           std::shared_ptr<const void> keeper = nullptr,
                           Stability stability = Stability::unstable) = 0;
  /// Makes everything that was written stable (COMMIT), and writes again what a restarted server lost. If
  /// this fails, the data that is not stable yet is kept, and another sync() tries again. Writes that have
  /// not ended when the call begins are not covered.
  virtual Status sync() = 0;
  virtual void start_sync(Ended done) = 0;
  virtual Result<Attributes> attributes() = 0;
  virtual void start_attributes(Told done) = 0;
  virtual Status set_attributes(const SetAttributes& changes) = 0;
  /// Returns the next extent, hole or data, at or after `offset`; nothing at or past the end of the file.
  /// ENOTSUP if the server has no SEEK.
  virtual Result<std::optional<Extent>> next_extent(std::uint64_t offset) = 0;
  /// Returns the offset of the next byte of a hole (`hole`) or of data at or after `offset`; nothing if there
  /// is none. The end of the file counts as a hole. EOPNOTSUPP if the server has no SEEK.
  virtual Result<std::optional<std::uint64_t>> seek(std::uint64_t offset, bool hole) = 0;
  /// Reserves space on the server's disk for the range. The file grows if it ends before the end of the
  /// range. EOPNOTSUPP if the server has no ALLOCATE.
  virtual Status allocate(std::uint64_t offset, std::uint64_t length) = 0;
  virtual void start_allocate(std::uint64_t offset, std::uint64_t length, Ended done) = 0;
  /// Turns the range into a hole. EOPNOTSUPP if the server has no DEALLOCATE.
  virtual Status deallocate(std::uint64_t offset, std::uint64_t length) = 0;
  virtual void start_deallocate(std::uint64_t offset, std::uint64_t length, Ended done) = 0;
  /// Copies within the server, from another File of the same Client; from a File of another Client: EXDEV.
  /// Returns how many of the `count` bytes were copied; they are stable. Fewer than `count` is no error:
  /// continue after them. 0 means that `source` has ended. EOPNOTSUPP if the server has no COPY.
  virtual Result<std::uint64_t> copy_from(File& source, std::uint64_t source_offset, std::uint64_t offset,
                                          std::uint64_t count) = 0;

  // ---- locks. The server takes the locks of a client that it has not heard of for longer than its lease. A
  // lost lock is reported: the next call on the file fails with EIO, until the owner has called unlock() for
  // the whole file ----

  /// Returns the holder of a lock that conflicts with the request, if there is one.
  virtual Result<std::optional<LockHolder>> test_lock(const LockRequest& request) = 0;
  /// Locks the range. Waits at most `most` for a conflicting lock to go; then the error is EAGAIN.
  virtual Status lock(const LockRequest& request, std::chrono::milliseconds most = {}) = 0;
  /// Commits unstable data first, so that the next holder of the lock sees it, and then unlocks. The commit's
  /// error is returned like that of sync(); the lock is released even then.
  virtual Status unlock(std::uint64_t owner, const LockRange& range = {}) = 0;

  /// Commits unstable data and closes the file. Calls that begin later fail with EBADF; calls under way end
  /// as usual. Once begun, closing continues even if the caller is interrupted or the File is destroyed. A
  /// second close() waits for the same end; only one of the callers receives its error, the others receive
  /// success.
  virtual Status close() = 0;
  /// Like close(). The File may be destroyed inside `done`.
  virtual void start_close(Ended done) = 0;

 protected:
  File() = default;
};

}  // namespace nfsrdma
