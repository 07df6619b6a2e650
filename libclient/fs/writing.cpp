#include "fs/writing.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nfsrdma::fs {

/// Returns how many bytes of a page that the kernel writes back are within the file. The kernel writes up to the end that it
/// believes in, but another client may have cut the file since, and FUSE has no way to tell the kernel that a file is shorter.
/// A store in a mapping enlarges no file (mmap(2)), so what lies behind the end is not written: it would put zeros there.
async::Task<std::size_t> Writing::cropped(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                          std::size_t size) {
  const Inode& inode = file->inode();
  if (inode.attributes.is_current() && offset + size <= inode.end()) co_return size;
  // The server is asked, because the file may have been enlarged since the end was learned.
  const auto end = co_await writes_.ask_end(file);
  if (!end) co_return size;  // the write meets the same error
  co_return static_cast<std::size_t>(std::min<std::uint64_t>(size, *end - std::min(*end, offset)));
}

/// Hands the data to WriteBehind.
async::Task<Status> Writing::send(const std::shared_ptr<OpenHandle>& file, async::Memory memory, Bytes data,
                                  std::uint64_t offset, const WriteRequest& how) {
  ++counters_.writes;
  counters_.bytes_written += data.size();
  WriteBehind::How sent;
  sent.append = how.appends();
  sent.stable = options_.sync || how.is_stable();
  return writes_.write(file, std::move(memory), data, offset, sent);
}

async::Task<Status> Writing::write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                   std::uint64_t offset, std::optional<int> flags) {
  Inode& inode = file->inode();
  WriteRequest how;
  how.flags = flags.value_or(file->flags);
  how.written_back = flags == kWrittenBack;
  how.kernels_offset = offset;
  how.page_reads = inode.pages.reads();
  how.paging = inode.pages.reading() != 0;
  if (how.appends()) {
    auto end = co_await writes_.place_append(file);
    if (!end) co_return end.error();
    offset = *end;
  }
  if (how.written_back && !options_.kernel_gathers) {
    data = data.first(co_await cropped(file, offset, data.size()));
    if (data.empty()) co_return Status();
  }
  auto done = co_await send(file, std::move(memory), data, offset, how);
  if (done) co_await kernel_.drop_stale_pages(file, how, offset, data.size());
  co_return done;
}

async::Task<Result<std::uint64_t>> Writing::write_direct(std::shared_ptr<OpenHandle> file,
                                                         async::Memory memory,
                                                         std::span<const std::byte> data,
                                                         std::uint64_t offset, int flags) {
  Inode& inode = file->inode();
  // Fetch dirty pages first: written back later, they would overwrite this write with older data.
  if (inode.pages.may_hold_stores()) co_await kernel_.fetch_pages(inode);
  WriteRequest how;
  how.flags = flags;
  if (how.appends()) {
    auto end = co_await writes_.place_append(file);
    if (!end) co_return end.error();
    offset = *end;
  }
  auto done = co_await send(file, std::move(memory), data, offset, how);
  if (!done) co_return done.error();
  co_await kernel_.bypassed(inode, offset + data.size());
  co_return offset;
}

async::Task<Status> Writing::sync(std::shared_ptr<OpenHandle> file, StillWaits still_waits) {
  auto saved = co_await writes_.save(file);
  if (still_waits && !still_waits()) co_return saved;
  co_return WriteBehind::told_at_fsync(*file, std::move(saved));
}

async::Task<Status> Writing::sync_past(std::shared_ptr<OpenHandle> file) {
  co_await kernel_.fetch_pages(file->inode());
  co_return co_await sync(std::move(file));
}

// ---- more of NFSv4.2 ----

async::Task<Status> Writing::allocate(std::shared_ptr<OpenHandle> file, int mode, std::uint64_t offset,
                                      std::uint64_t length) {
  co_await writes_.settle(file->inode());
  if (mode != 0 && mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) {
    co_return refusal(EOPNOTSUPP, "fallocate", file->inode().label, "NFS does not support this mode");
  }
  // Uncommitted data must not be written again into a hole.
  auto committed = co_await writes_.commit_all(file, nullptr);
  if (!committed) co_return committed;
  Status done;
  if (mode == 0) {
    done = co_await file->file()->allocate(offset, length);
  } else {
    done = co_await file->file()->deallocate(offset, length);
  }
  freshness_.resized(file->inode());
  co_return done;
}

async::Task<Result<std::uint64_t>> Writing::copy(std::shared_ptr<OpenHandle> from, std::uint64_t from_offset,
                                                 std::shared_ptr<OpenHandle> to, std::uint64_t to_offset,
                                                 std::uint64_t count) {
  const std::uint64_t written = to->inode().writes.last_number();
  co_await kernel_.send_out(from->inode());
  co_await writes_.settle(to->inode(), written);
  auto copied = co_await engine_->copy(from->file(), from_offset, to->file(), to_offset, count);
  freshness_.resized(to->inode());
  co_return copied;  // after EOPNOTSUPP the kernel copies by reading and writing
}

}  // namespace nfsrdma::fs
