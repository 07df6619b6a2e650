// An open file.
//
//     auto file = client->open("/export/file", nfsrdma::OpenMode::read_write);
//     auto count = (*file)->read(data, offset);
//
// Thread-safety, deadlines, interruption, memory, and what a callback may do: as client.h says it for all calls.
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

/// An open file. Closed by close(), by start_close() or, without a report of errors, by its destructor. Must not
/// outlive its Client. The destructor cancels what start_… began: when it returns, buffers are out of the
/// server's reach and no callback of the file's runs any more. It waits until the file is closed; in a callback
/// it does not wait, and the file is closed beside.
class NFSRDMA_API File {
 public:
  using Done = std::function<void(Result<std::size_t>)>;
  using Ended = std::function<void(Status)>;
  using Told = std::function<void(Result<Attributes>)>;

  virtual ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Reads up to data.size() bytes; fewer only at the end of the file. What is larger than rsize goes in
  /// pieces, several of them in flight; if one fails, the call does.
  virtual Result<std::size_t> read(std::span<std::byte> data, std::uint64_t offset) = 0;
  /// Writes all of it. Pieces as with read(). If it fails, parts of it may have been written.
  virtual Result<std::size_t> write(std::span<const std::byte> data, std::uint64_t offset,
                                    Stability stability = Stability::unstable) = 0;
  /// Starts a READ or WRITE of at most rsize/wsize bytes (more is an Error); `done` hears how many bytes
  /// went. A READ that gives fewer bytes has reached the end of the file. `data` must stay until then.
  virtual void start_read(std::span<std::byte> data, std::uint64_t offset, Done done) = 0;
  /// Bytes that were read, and the holes that the server reported, if it does that (Options::read_plus).
  struct Stretch {
    std::size_t count = 0;
    bool has_holes = false;  ///< some of the bytes are in holes
    /// The end of the hole that the last byte is in; 0: that is data. Some servers say how far the hole reaches, others say it
    /// for the bytes that were asked for only.
    std::uint64_t hole_ends = 0;
  };
  using Heard = std::function<void(Result<Stretch>)>;
  /// start_read for a program that can skip holes.
  virtual void start_read_with_holes(std::span<std::byte> data, std::uint64_t offset, Heard done) = 0;
  /// As start_read. After `done` the bytes are the library's duty: it keeps a copy until they are stable and
  /// writes them again if the server lost them, so `data` is free. An error of a later rewrite comes from
  /// sync(). With a `keeper`, which holds `data`, no copy is made: the library holds on to it until the bytes
  /// are stable, and nobody may change them before it has let go. With a `stability` other than unstable they
  /// are stable at `done`.
  virtual void start_write(std::span<const std::byte> data, std::uint64_t offset, Done done,
                           std::shared_ptr<const void> keeper = nullptr,
                           Stability stability = Stability::unstable) = 0;
  /// Makes everything written stable (COMMIT); rewrites what a restarted server lost. If it fails, what is
  /// not stable is still to come: another sync() tries again. A write that has not ended when it begins is no
  /// part of it.
  virtual Status sync() = 0;
  virtual void start_sync(Ended done) = 0;
  virtual Result<Attributes> attributes() = 0;
  virtual void start_attributes(Told done) = 0;
  virtual Status set_attributes(const SetAttributes& changes) = 0;
  /// The next extent at or after `offset`: a hole or data; nothing past the end of the file. Errc ENOTSUP
  /// where the server has no SEEK.
  virtual Result<std::optional<Extent>> next_extent(std::uint64_t offset) = 0;
  /// The next byte of data, or of a hole, at or behind `offset`; nothing: there is none. The end of the file
  /// is a hole. EOPNOTSUPP as above, here and for what follows.
  virtual Result<std::optional<std::uint64_t>> seek(std::uint64_t offset, bool hole) = 0;
  /// Room on the server's disk; the file grows if it ends before.
  virtual Status allocate(std::uint64_t offset, std::uint64_t length) = 0;
  virtual void start_allocate(std::uint64_t offset, std::uint64_t length, Ended done) = 0;
  /// Makes a hole of it.
  virtual Status deallocate(std::uint64_t offset, std::uint64_t length) = 0;
  virtual void start_deallocate(std::uint64_t offset, std::uint64_t length, Ended done) = 0;
  /// Within the server, from another File of the same Client (EXDEV), and stable when it returns: how much of
  /// `count` was copied. Less than that is no error: go on behind it; 0: the end of `source`.
  virtual Result<std::uint64_t> copy_from(File& source, std::uint64_t source_offset, std::uint64_t offset,
                                          std::uint64_t count) = 0;

  // ---- locks, which the server takes from whoever is gone for longer than its lease. Lost ones are told of:
  // the next call on the file fails with EIO, until the owner has called unlock() for the whole file ----

  /// Who is in the way of it, if anybody.
  virtual Result<std::optional<LockHolder>> test_lock(const LockRequest& request) = 0;
  /// Waits for it, `most` at the longest; then EAGAIN: somebody else has it.
  virtual Status lock(const LockRequest& request, std::chrono::milliseconds most = {}) = 0;
  /// Makes stable what is not, so that whoever has the lock next finds it: an error may be that of sync(), and the
  /// lock is gone all the same.
  virtual Status unlock(std::uint64_t owner, const LockRange& range = {}) = 0;

  /// Makes stable what is not, and closes. Calls that begin later fail with EBADF; those under way end as ever.
  /// Once begun it goes on, also when the caller is interrupted or the File destroyed. Who closes again waits for
  /// the same end; one of them hears how it went, the others of no error.
  virtual Status close() = 0;
  /// `done` is the place to destroy the File.
  virtual void start_close(Ended done) = 0;

 protected:
  File() = default;
};

}  // namespace nfsrdma
