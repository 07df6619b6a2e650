// An open file.
//
//     auto file = client->open("/export/file", nfsrdma::OpenMode::read_write);
//     auto count = (*file)->read(data, offset);
//
// Each operation exists as a blocking call, such as read(), and as a call that is only started, such as
// start_read(), whose callback receives the result. client.h describes for all calls: thread-safety,
// callbacks, deadlines, interruption, and memory. CallOptions is in calling.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "nfsrdma/calling.h"
#include "nfsrdma/file_operations.h"
#include "nfsrdma/queue.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

/// An open file. close() or start_close() closes it. The destructor also closes it, but reports no error. A
/// File must not outlive its Client.
///
/// The destructor cancels the calls that start_... methods began: when it returns, their buffers are out of
/// the server's reach and none of the file's callbacks runs or will run. It waits for callbacks of the file
/// that run on other threads, and until the file is closed, unless a close has begun before. A callback may
/// destroy its file; to do so without waiting, it calls start_close() first. The library destroys callbacks
/// of cancelled calls later, inside Client::wait(), Client::service() or the destructor of the Client.
class File {
 public:
  using Done = std::function<void(Result<std::size_t>)>;
  using Ended = std::function<void(Status)>;
  using Told = std::function<void(Result<Attributes>)>;
  using Stretch = nfsrdma::Stretch;
  using Heard = std::function<void(Result<Stretch>)>;
  using FoundExtent = std::function<void(Result<std::optional<Extent>>)>;
  using FoundOffset = std::function<void(Result<std::optional<std::uint64_t>>)>;
  using Copied = std::function<void(Result<std::uint64_t>)>;
  using Tested = std::function<void(Result<std::optional<LockHolder>>)>;

  ~File() {
    life_->end();
    nfsrdma_file_free(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // ---- reading and writing ----

  /// Reads up to data.size() bytes; fewer only at the end of the file. A read larger than rsize is split into
  /// pieces, several of them in flight. If one piece fails, the call fails.
  Result<std::size_t> read(std::span<std::byte> data, std::uint64_t offset, const CallOptions& options = {}) {
    return api_detail::run(api_detail::read_operation(file_, data, offset), options);
  }
  /// Starts what read() does. `done` receives the number of bytes read; fewer than data.size() means that the
  /// end of the file was reached. `data` must stay valid until `done` runs or the File is destroyed.
  void start_read(std::span<std::byte> data, std::uint64_t offset, Done done,
                  const CallOptions& options = {}) {
    start(api_detail::read_operation(file_, data, offset), std::move(done), options);
  }
  /// Like read(), into the parts one after the other. Parts of 32 KiB or more receive their bytes straight
  /// from the server; small parts share READs and are copied to.
  Result<std::size_t> read_parts(std::span<const std::span<std::byte>> parts, std::uint64_t offset,
                                 const CallOptions& options = {}) {
    return api_detail::run(api_detail::read_parts_operation(file_, parts, offset), options);
  }
  /// `parts` itself may be destroyed at once; the memory that it names stays valid as for start_read().
  void start_read_parts(std::span<const std::span<std::byte>> parts, std::uint64_t offset, Done done,
                        const CallOptions& options = {}) {
    start(api_detail::read_parts_operation(file_, parts, offset), std::move(done), options);
  }
  /// Like read(), for a program that can skip holes.
  Result<Stretch> read_with_holes(std::span<std::byte> data, std::uint64_t offset,
                                  const CallOptions& options = {}) {
    return api_detail::run(api_detail::read_with_holes_operation(file_, data, offset), options);
  }
  void start_read_with_holes(std::span<std::byte> data, std::uint64_t offset, Heard done,
                             const CallOptions& options = {}) {
    start(api_detail::read_with_holes_operation(file_, data, offset), std::move(done), options);
  }
  /// Writes all of `data`. A write larger than wsize is split into pieces, as in read(). If the call fails,
  /// parts of the data may have been written.
  Result<std::size_t> write(std::span<const std::byte> data, std::uint64_t offset,
                            Stability stability = Stability::unstable, const CallOptions& options = {}) {
    return api_detail::run(api_detail::write_operation(file_, data, offset, stability), options);
  }
  /// Starts what write() does. `done` receives the number of bytes written.
  ///
  /// With Stability::unstable the library keeps a copy of the bytes until they are stable, and writes them
  /// again if the server lost them; therefore `data` is free for other use once `done` has run. If writing
  /// them again fails, sync() returns the error. With a `keeper`, a reference that keeps `data` valid, the
  /// library makes no copy: it holds the reference until the bytes are stable, and the bytes must not be
  /// changed before it is released. It is released on any thread, so the destructor of what it keeps must not
  /// call the library. With Stability::on_disk the bytes are stable when `done` runs.
  void start_write(std::span<const std::byte> data, std::uint64_t offset, Done done,
                   std::shared_ptr<const void> keeper = nullptr, Stability stability = Stability::unstable,
                   const CallOptions& options = {}) {
    start(api_detail::write_operation(file_, data, offset, stability, std::move(keeper)), std::move(done),
          options);
  }
  /// Like write(), from the parts one after the other.
  Result<std::size_t> write_parts(std::span<const std::span<const std::byte>> parts, std::uint64_t offset,
                                  Stability stability = Stability::unstable,
                                  const CallOptions& options = {}) {
    return api_detail::run(api_detail::write_parts_operation(file_, parts, offset, stability), options);
  }
  void start_write_parts(std::span<const std::span<const std::byte>> parts, std::uint64_t offset, Done done,
                         Stability stability = Stability::unstable, const CallOptions& options = {}) {
    start(api_detail::write_parts_operation(file_, parts, offset, stability), std::move(done), options);
  }
  /// Makes everything that was written stable (COMMIT), and writes again what a restarted server lost. If
  /// this fails, the data that is not stable yet is kept, and another sync() tries again. Writes that have
  /// not ended when the call begins are not covered.
  Status sync(const CallOptions& options = {}) {
    return api_detail::run(api_detail::sync_operation(file_), options);
  }
  void start_sync(Ended done, const CallOptions& options = {}) {
    start(api_detail::sync_operation(file_), std::move(done), options);
  }

  // ---- reading and writing with a completion queue (queue.h). The Status says whether the call was started;
  // `queue` receives a completion with `tag` only if it was. CallOptions::tag is not used ----

  Status queue_read(Queue& queue, std::uint64_t tag, std::span<std::byte> data, std::uint64_t offset,
                    const CallOptions& options = {}) {
    return enqueue(api_detail::read_operation(file_, data, offset), queue, tag, options);
  }
  Status queue_write(Queue& queue, std::uint64_t tag, std::span<const std::byte> data, std::uint64_t offset,
                     Stability stability = Stability::unstable, const CallOptions& options = {}) {
    return enqueue(api_detail::write_operation(file_, data, offset, stability), queue, tag, options);
  }
  Status queue_sync(Queue& queue, std::uint64_t tag, const CallOptions& options = {}) {
    return enqueue(api_detail::sync_operation(file_), queue, tag, options);
  }

  // ---- attributes ----

  Result<Attributes> attributes(const CallOptions& options = {}) {
    return api_detail::run(api_detail::attributes_operation(file_), options);
  }
  void start_attributes(Told done, const CallOptions& options = {}) {
    start(api_detail::attributes_operation(file_), std::move(done), options);
  }
  Status set_attributes(const SetAttributes& changes, const CallOptions& options = {}) {
    return api_detail::run(api_detail::set_attributes_operation(file_, changes), options);
  }
  void start_set_attributes(const SetAttributes& changes, Ended done, const CallOptions& options = {}) {
    start(api_detail::set_attributes_operation(file_, changes), std::move(done), options);
  }

  // ---- holes and space ----

  /// Returns the next extent, hole or data, at or after `offset`; nothing at or past the end of the file.
  /// EOPNOTSUPP if the server has no SEEK.
  Result<std::optional<Extent>> next_extent(std::uint64_t offset, const CallOptions& options = {}) {
    return api_detail::run(api_detail::next_extent_operation(file_, offset), options);
  }
  void start_next_extent(std::uint64_t offset, FoundExtent done, const CallOptions& options = {}) {
    start(api_detail::next_extent_operation(file_, offset), std::move(done), options);
  }
  /// Returns the offset of the next byte of a hole (`hole`) or of data at or after `offset`; nothing if there
  /// is none. The end of the file counts as a hole. EOPNOTSUPP if the server has no SEEK.
  Result<std::optional<std::uint64_t>> seek(std::uint64_t offset, bool hole,
                                            const CallOptions& options = {}) {
    return api_detail::run(api_detail::seek_operation(file_, offset, hole), options);
  }
  void start_seek(std::uint64_t offset, bool hole, FoundOffset done, const CallOptions& options = {}) {
    start(api_detail::seek_operation(file_, offset, hole), std::move(done), options);
  }
  /// Reserves space on the server's disk for the range. The file grows if it ends before the end of the
  /// range. EOPNOTSUPP if the server has no ALLOCATE.
  Status allocate(std::uint64_t offset, std::uint64_t length, const CallOptions& options = {}) {
    return api_detail::run(api_detail::allocate_operation(file_, offset, length), options);
  }
  void start_allocate(std::uint64_t offset, std::uint64_t length, Ended done,
                      const CallOptions& options = {}) {
    start(api_detail::allocate_operation(file_, offset, length), std::move(done), options);
  }
  /// Turns the range into a hole. EOPNOTSUPP if the server has no DEALLOCATE.
  Status deallocate(std::uint64_t offset, std::uint64_t length, const CallOptions& options = {}) {
    return api_detail::run(api_detail::deallocate_operation(file_, offset, length), options);
  }
  void start_deallocate(std::uint64_t offset, std::uint64_t length, Ended done,
                        const CallOptions& options = {}) {
    start(api_detail::deallocate_operation(file_, offset, length), std::move(done), options);
  }
  /// Copies within the server, from another File of the same Client; from a File of another Client: EXDEV.
  /// Returns how many of the `count` bytes were copied; they are stable. Fewer than `count` is no error:
  /// continue after them. 0 means that `source` has ended. EOPNOTSUPP if the server has no COPY.
  Result<std::uint64_t> copy_from(File& source, std::uint64_t source_offset, std::uint64_t offset,
                                  std::uint64_t count, const CallOptions& options = {}) {
    return api_detail::run(api_detail::copy_operation(source.file_, source_offset, file_, offset, count),
                           options);
  }
  /// `source` must not be destroyed before `done` runs or this File is destroyed.
  void start_copy_from(File& source, std::uint64_t source_offset, std::uint64_t offset, std::uint64_t count,
                       Copied done, const CallOptions& options = {}) {
    start(api_detail::copy_operation(source.file_, source_offset, file_, offset, count), std::move(done),
          options);
  }

  // ---- locks. The server takes the locks of a client that it has not heard of for longer than its lease. A
  // lost lock is reported: the next call on the file fails with EIO, until the owner has called unlock() for
  // the whole file ----

  /// Returns the holder of a lock that conflicts with the request, if there is one.
  Result<std::optional<LockHolder>> test_lock(const LockRequest& request, const CallOptions& options = {}) {
    return api_detail::run(api_detail::test_lock_operation(file_, request), options);
  }
  void start_test_lock(const LockRequest& request, Tested done, const CallOptions& options = {}) {
    start(api_detail::test_lock_operation(file_, request), std::move(done), options);
  }
  /// Locks the range. Waits at most `most` for a conflicting lock to go; then the error is EAGAIN.
  Status lock(const LockRequest& request, std::chrono::milliseconds most = {},
              const CallOptions& options = {}) {
    return api_detail::run(api_detail::lock_operation(file_, request, most), options);
  }
  void start_lock(const LockRequest& request, Ended done, std::chrono::milliseconds most = {},
                  const CallOptions& options = {}) {
    start(api_detail::lock_operation(file_, request, most), std::move(done), options);
  }
  /// Commits unstable data first, so that the next holder of the lock sees it, and then unlocks. The commit's
  /// error is returned like that of sync(); the lock is released even then.
  Status unlock(std::uint64_t owner, const LockRange& range = {}, const CallOptions& options = {}) {
    return api_detail::run(api_detail::unlock_operation(file_, owner, range), options);
  }
  void start_unlock(std::uint64_t owner, Ended done, const LockRange& range = {},
                    const CallOptions& options = {}) {
    start(api_detail::unlock_operation(file_, owner, range), std::move(done), options);
  }

  // ---- closing ----

  /// Commits unstable data and closes the file. Calls that begin later fail with EBADF; calls under way end
  /// as usual. Once begun, closing continues even if the caller is interrupted or the File is destroyed. A
  /// second close() waits for the same end; only one of the callers receives its error, the others receive
  /// success.
  Status close(const CallOptions& options = {}) {
    return api_detail::run(api_detail::close_operation(file_), options);
  }
  /// Like close(). The File may be destroyed inside `done`.
  void start_close(Ended done, const CallOptions& options = {}) {
    start(api_detail::close_operation(file_), std::move(done), options);
  }

  /// Returns the file of the C interface. It stays this object's.
  [[nodiscard]] nfsrdma_file* handle() const { return file_; }

 private:
  friend class Names;
  File(nfsrdma_file* file, std::shared_ptr<api_detail::ClientState> client)
      : file_(file), client_(std::move(client)) {}

  template <class Op, class Call>
  void start(Op&& operation, Call&& done, const CallOptions& options) {
    api_detail::start(*client_, life_, std::forward<Op>(operation), std::forward<Call>(done), options);
  }
  template <class Op>
  static Status enqueue(Op operation, Queue& queue, std::uint64_t tag, const CallOptions& options) {
    nfsrdma_call call = api_detail::c_call(options);
    call.queue = queue.handle();
    call.tag = tag;
    call.flags = NFSRDMA_MORE;
    if (const api_detail::Outcome outcome = operation.begin(&call); !outcome) return outcome.error();
    return {};
  }

  nfsrdma_file* const file_;
  const std::shared_ptr<api_detail::ClientState> client_;
  const std::shared_ptr<api_detail::Life> life_ = std::make_shared<api_detail::Life>();
};

}  // namespace nfsrdma
