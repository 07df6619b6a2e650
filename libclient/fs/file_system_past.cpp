// Reads and writes that bypass the kernel (fuse/ring_service.h), kept consistent with those that go through
// it.
//
// The kernel does not see these operations, so what it does for its own reads and writes is done here.
//
// Before a read or write: data that programs have stored in mappings, and with a write-back cache data that
// they have written, is only in the kernel's pages, and is fetched. Such data can exist only if the kernel
// has pages of the file at all (kernel_pages.h) and the file is open for writing; a mapping keeps its file
// open.
//
// After a write: the kernel's pages are dropped, and with them its idea of the file's size and times. The
// kernel requests attributes again before a read(2), but not when a page of a mapping is touched: behind the
// end that it knows, that is SIGBUS. So the kernel is notified of a new end, unless no program can have the
// file mapped.
//
// Dropping pages takes a thread's help and a write-back. It is only done when both ways are used for one
// file, and costs nothing as long as one of them is.
#include <algorithm>
#include <cstring>
#include <utility>

#include "async/all.h"
#include "fs/file_system.h"

namespace nfsrdma::fs {

/// Drops the kernel's pages from `offset` on. The kernel writes dirty ones back first.
async::Task<void> FileSystem::drop_pages_from(Inode& inode, std::uint64_t offset) {
  const auto dropping = inode.pages.dropping(offset);
  co_await drop_pages_(inode.id, offset, 0);
}

async::Task<void> FileSystem::fetch_pages(Inode& inode) {
  if (!drop_pages_) co_return;
  // A task that comes during another task's drop has to see the fetched data, too.
  while (inode.pages.is_dropping()) (void)co_await inode.settled.wait_until(async::TimePoint::max());
  const auto writes = [](OpenHandle* handle) { return handle->file()->access() != Access::read; };
  if (options_.kernel_gathers || (inode.pages.any() && std::ranges::any_of(inode.open, writes)))
    co_await drop_pages_from(inode, 0);
}

/// Returns whether a mapping may have stores that are not written back. That takes a file open for reading
/// and writing, and pages in the kernel's cache.
bool FileSystem::may_have_stores(const Inode& inode) const {
  const auto stores = [](OpenHandle* handle) { return handle->file()->access() == Access::both; };
  return drop_pages_ && inode.pages.may_hold_stores() && std::ranges::any_of(inode.open, stores);
}

/// Sends all that programs have written to the file, or stored in mappings of it, to the server. The kernel
/// writes mappings back at close(2) and fsync(2), but neither for a lock nor for lseek(2), nor at the source
/// of copy_file_range(2).
async::Task<void> FileSystem::send_out(Inode& inode) {
  if (may_have_stores(inode)) co_await fetch_pages(inode);
  co_await writes_.settle(inode);
}

namespace {
/// Returns an open file of the inode that may be read through, or null.
const OpenHandle* reader_of(const Inode& inode) {
  const auto reads = [](const OpenHandle* handle) { return handle->file()->access() != Access::write; };
  const auto found = std::ranges::find_if(inode.open, reads);
  return found == inode.open.end() ? nullptr : *found;
}
}  // namespace

/// Returns whether a program may have the file mapped. The kernel does not report mappings; one needs a file
/// that is open for reading.
bool FileSystem::may_be_mapped(const Inode& inode) const {
  return lengthen_ && reader_of(inode) != nullptr;
}

async::Task<void> FileSystem::tell_length(Inode& inode, std::uint64_t end, std::byte last) {
  if (end <= inode.pages.known_size()) co_return;
  if (!may_be_mapped(inode)) co_return inode.pages.lag();
  const auto lengthening = inode.pages.lengthening(end);
  co_await lengthen_(inode.id, end, last);
}

/// Called after an append that the kernel caches no pages of, and that went elsewhere than the kernel
/// believes, so that the file is longer than the kernel knows. The page at the old end is dropped first: it
/// would show zeros behind that end, and would be written back with them.
async::Task<void> FileSystem::tell_appended(Inode& inode, std::uint64_t end, std::byte last) {
  if (end <= inode.pages.known_size()) co_return;
  if (may_be_mapped(inode) && inode.pages.any() && drop_pages_) co_await drop_pages_from(inode, 0);
  co_await tell_length(inode, end, last);
}

/// Notifies the kernel that the file has `size` bytes, as the server has reported or a write of this mount
/// has reached. If the kernel knows fewer, a mapping ends in SIGBUS there, and copy_file_range(2) copies
/// nothing from behind. The kernel takes a new end together with the byte in front of it (FUSE_NOTIFY_STORE).
/// Its pages are dropped first, because a page at the old end would show zeros behind that end, and would be
/// written back with them.
async::Task<void> FileSystem::tell_size(std::shared_ptr<OpenHandle> file, std::uint64_t size) {
  Inode& inode = file->inode();
  if (!may_be_mapped(inode)) co_return;
  while (inode.pages.is_changing()) (void)co_await inode.settled.wait_until(async::TimePoint::max());
  // The answer of a write that is still unanswered will tell the kernel its end. An answered one has done so
  // only if the file could be mapped then.
  if (size <= std::max(inode.pages.known_size(), inode.writes.furthest_unanswered())) co_return;
  co_await writes_.settle_range(inode, size - 1, size);
  const OpenHandle* const reader = reader_of(inode);
  if (reader == nullptr) co_return;
  const ServerFileRef from = reader->file();
  if (inode.pages.any() && drop_pages_) co_await drop_pages_from(inode, 0);
  const async::Memory memory = loop().memory().take(1);
  ++counters_.server_reads;
  const auto got = co_await from->read({memory.data.get(), 1}, size - 1);
  if (!got || *got == 0) co_return;  // the file has been cut since
  ++counters_.server_bytes_read;
  co_await tell_length(inode, size, *memory.data);
}

/// Called when an open(2) with O_TRUNC is about to be answered; the file has `size` bytes now. The kernel sets its i_size to 0
/// when it takes the answer (fuse_truncate_update_attr()), and drops all pages. It takes no attributes for that, and holds
/// no lock that a ring's write takes (without a write-back cache not even i_rwsem). So a write that the server has executed
/// after the cut may have been answered already, and its end, of which the kernel was notified, is lost. The kernel is
/// notified again, because a mapping would end in SIGBUS at 0.
void FileSystem::will_be_emptied(const std::shared_ptr<OpenHandle>& file, std::uint64_t size) {
  Inode& inode = file->inode();
  inode.attributes.tell_no_state();
  inode.pages.may_end_at(0);
  if (size == 0) return;
  inode.pages.lag();
  background_.spawn(tell_size_after_open(file, size));
}

/// The kernel must take the answer to the open before it gets the notification. Nothing tells the mount when the kernel has
/// done so. The answer is written before the next turn, and the READ in tell_size() gives the kernel some time to take it.
async::Task<void> FileSystem::tell_size_after_open(std::shared_ptr<OpenHandle> file, std::uint64_t size) {
  co_await loop().sleep_for({});
  co_await tell_size(std::move(file), size);
}

/// Called after a lock was granted, because other clients may have written the file while they held theirs.
/// The attributes that this asks for answer the kernel's next question.
async::Task<void> FileSystem::see_as_locked(std::shared_ptr<OpenHandle> file) {
  Inode& inode = file->inode();
  freshness_.others_may_have_changed(inode);
  std::optional<std::uint64_t> size;
  if (may_be_mapped(inode)) {
    const Freshness::Asked asked = freshness_.asking(inode);
    auto now = co_await file->file()->attributes();
    if (now) {
      freshness_.keep(inode, *now, asked);
      if (!inode.attributes.is_sent_to_kernel(now->change)) size = now->size;
    }
  }
  if (drop_pages_) co_await drop_pages_from(inode, 0);
  if (size) co_await tell_size(std::move(file), *size);
}

namespace {

/// Reads, and keeps the memory and the file alive for a task that may outlive its caller.
async::Task<Result<std::size_t>> read_one(ServerFileRef file, async::Memory /*memory*/,
                                          std::span<std::byte> data, std::uint64_t offset) {
  co_return co_await file->read(data, offset);
}

std::size_t copied(const ReadData& from, std::span<std::byte> to) {
  std::size_t at = 0;
  for (const iovec& piece : from.pieces) {
    std::memcpy(to.data() + at, piece.iov_base, piece.iov_len);
    at += piece.iov_len;
  }
  return at;
}

}  // namespace

async::Task<Result<std::size_t>> FileSystem::read_pieces(std::shared_ptr<OpenHandle> file,
                                                         async::Memory memory, std::span<std::byte> data,
                                                         std::uint64_t offset) {
  std::vector<async::Task<Result<std::size_t>>> pieces;
  const std::size_t most = options_.rsize;
  for (std::size_t at = 0; at < data.size(); at += most) {
    const auto part = data.subspan(at, std::min(most, data.size() - at));
    pieces.push_back(read_one(file->file(), memory, part, offset + at));
  }
  counters_.server_reads += pieces.size();
  const auto results = co_await async::all(loop(), std::move(pieces));
  std::size_t got = 0;
  for (const Result<std::size_t>& result : results) {
    if (!result && got == 0) co_return result.error();
    if (!result) break;
    got += *result;
    if (*result < most) break;
  }
  co_return got;
}

async::Task<Result<std::size_t>> FileSystem::read_direct(std::shared_ptr<OpenHandle> file,
                                                         async::Memory memory, std::span<std::byte> data,
                                                         std::uint64_t offset, DirectRead how) {
  Inode& inode = file->inode();
  if (options_.kernel_gathers || inode.pages.may_hold_stores()) co_await fetch_pages(inode);
  // Writes behind the range matter, too, because they show that the file does not end there.
  const std::uint64_t end = offset + data.size();
  if (!WriteBehind::may_read_at_once(inode, offset, end))
    co_await writes_.settle_for_read(inode, offset, end);
  ++counters_.reads;
  Result<std::size_t> got = std::size_t{0};
  if (how.ahead && !file->direct) {
    const auto age = std::max(options_.file_max, Seconds(1));
    auto found = co_await file->read(offset, data.size(),
                                     loop().now() - std::chrono::duration_cast<async::Clock::duration>(age));
    if (!found) co_return found.error();
    got = copied(*found, data);
  } else if (data.size() <= options_.rsize) {
    ++counters_.server_reads;
    auto fast = co_await FastReadWait(*file->file(), data, offset);
    if (fast.rest) {
      got = co_await std::move(*fast.rest);
    } else {
      got = fast.count;
    }
    if (got) counters_.server_bytes_read += *got;
  } else {
    got = co_await read_pieces(file, std::move(memory), data, offset);
    if (got) counters_.server_bytes_read += *got;
  }
  if (got) counters_.bytes_read += *got;
  co_return got;
}

async::Task<Result<std::uint64_t>> FileSystem::write_direct(std::shared_ptr<OpenHandle> file,
                                                            async::Memory memory,
                                                            std::span<const std::byte> data,
                                                            std::uint64_t offset, int flags) {
  Inode& inode = file->inode();
  // Fetch dirty pages first: written back later, they would overwrite this write with older data.
  if (inode.pages.may_hold_stores()) co_await fetch_pages(inode);
  Writing how;
  how.flags = flags;
  if (how.appends()) {
    auto end = co_await writes_.place_append(file);
    if (!end) co_return end.error();
    offset = *end;
  }
  ++counters_.writes;
  counters_.bytes_written += data.size();
  WriteBehind::How sent;
  sent.append = how.appends();
  sent.stable = options_.sync || how.is_stable();
  const std::byte last = data.back();
  auto done = co_await writes_.write(file, std::move(memory), data, offset, sent);
  if (!done) co_return done.error();
  while (inode.pages.is_dropping()) (void)co_await inode.settled.wait_until(async::TimePoint::max());
  if (inode.pages.any() && drop_pages_) co_await drop_pages_from(inode, 0);
  co_await tell_length(inode, offset + data.size(), last);
  freshness_.doubt(inode);
  co_return offset;
}

async::Task<Status> FileSystem::sync_past(std::shared_ptr<OpenHandle> file) {
  co_await fetch_pages(file->inode());
  co_return co_await sync(std::move(file));
}

}  // namespace nfsrdma::fs
