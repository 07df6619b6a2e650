#include "fs/reading.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "async/all.h"

namespace nfsrdma::fs {

namespace {
bool goes_past_pages(const OpenHandle& file) {
  return file.direct || file.uncached;
}

/// Returns the time since when bytes that were read ahead must have been requested to be used without being confirmed.
async::TimePoint oldest_used(const CacheOptions& options, const async::Loop& loop) {
  const auto age = std::max(options.file_max, Seconds(1));
  return loop.now() - std::chrono::duration_cast<async::Clock::duration>(age);
}

/// Guards a read by the kernel up to `end`, which puts pages into its cache.
struct Paging {
  Paging(std::shared_ptr<OpenHandle> of, std::uint64_t end) : file(std::move(of)) {
    file->inode().pages.begin_read(end);
  }
  ~Paging() { file->inode().pages.end_read(); }
  Paging(const Paging&) = delete;
  Paging& operator=(const Paging&) = delete;
  const std::shared_ptr<OpenHandle> file;
};
}  // namespace

async::Task<Result<ReadData>> Reading::read(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                            std::size_t size) {
  Inode& inode = file->inode();
  std::shared_ptr<Paging> paging;
  if (!goes_past_pages(*file)) paging = std::make_shared<Paging>(file, offset + size);
  // Writes behind the range matter, too, because they show that the file does not end there.
  co_await writes_.settle_for_read(inode, offset, offset + size);
  auto got = co_await file->read(offset, size, oldest_used(options_, loop_));
  ++counters_.reads;
  if (!got) co_return got;
  counters_.bytes_read += got->size;
  if (got->size < size) has_ended(*file, offset + got->size);
  got->reading = std::move(paging);
  co_return got;
}

bool Reading::begin_plain_read(OpenHandle& file, std::uint64_t offset, std::size_t size) {
  Inode& inode = file.inode();
  if (!WriteBehind::may_read_at_once(inode, offset, offset + size)) return false;
  if (!file.begin_plain_read(offset, size)) return false;
  if (!goes_past_pages(file)) inode.pages.begin_read(offset + size);
  return true;
}

void Reading::end_plain_read(OpenHandle& file, std::optional<std::size_t> got) {
  if (!goes_past_pages(file)) file.inode().pages.end_read();
  if (!got) return;
  ++counters_.reads;
  ++counters_.server_reads;
  counters_.bytes_read += *got;
  counters_.server_bytes_read += *got;
}

// ---- past the kernel ----

namespace {
/// Reads, and keeps the memory and the file alive for a task that may outlive its caller.
async::Task<Result<std::size_t>> read_one(ReadsElsewhere* elsewhere, ServerFileRef file, async::Memory memory,
                                          std::span<std::byte> data, std::uint64_t offset) {
  const FileElsewhere from(elsewhere, file, memory, data.size());
  auto fast = co_await FastReadWait(from, data, offset);
  if (fast.rest) co_return co_await std::move(*fast.rest);
  co_return fast.count;
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

async::Task<Result<std::size_t>> Reading::read_pieces(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                                      std::span<std::byte> data, std::uint64_t offset) {
  std::vector<async::Task<Result<std::size_t>>> pieces;
  const std::size_t most = options_.rsize;
  for (std::size_t at = 0; at < data.size(); at += most) {
    const auto part = data.subspan(at, std::min(most, data.size() - at));
    pieces.push_back(read_one(elsewhere_, file->file(), memory, part, offset + at));
  }
  counters_.server_reads += pieces.size();
  const auto results = co_await async::all(loop_, std::move(pieces));
  std::size_t got = 0;
  for (const Result<std::size_t>& result : results) {
    // The bytes in front of this piece are not returned: the program would believe that the file ends here.
    if (!result) co_return result.error();
    got += *result;
    if (*result < most) break;
  }
  co_return got;
}

async::Task<Result<std::size_t>> Reading::read_direct(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                                      std::span<std::byte> data, std::uint64_t offset,
                                                      DirectRead how) {
  Inode& inode = file->inode();
  if (options_.kernel_gathers || inode.pages.may_hold_stores()) co_await kernel_.fetch_pages(inode);
  // Writes behind the range matter, too, because they show that the file does not end there.
  const std::uint64_t end = offset + data.size();
  if (!WriteBehind::may_read_at_once(inode, offset, end))
    co_await writes_.settle_for_read(inode, offset, end);
  ++counters_.reads;
  Result<std::size_t> got = std::size_t{0};
  if (how.ahead && !file->direct) {
    auto found = co_await file->read(offset, data.size(), oldest_used(options_, loop_));
    if (!found) co_return found.error();
    got = copied(*found, data);
  } else if (data.size() <= options_.rsize) {
    ++counters_.server_reads;
    const FileElsewhere from(elsewhere_, file->file(), memory, data.size());
    auto fast = co_await FastReadWait(from, data, offset);
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

// ---- lseek(2) ----

async::Task<Result<std::uint64_t>> Reading::seek(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                                 int whence) {
  co_await kernel_.send_out(file->inode());
  auto attributes = co_await file->file()->attributes();
  if (!attributes) co_return attributes.error();
  const std::uint64_t size = attributes->size;
  if (offset >= size)
    co_return refusal(ENXIO, "SEEK", file->inode().label, "the offset is beyond the end of the file");
  auto found = co_await file->file()->seek(offset, whence == SEEK_HOLE);
  if (!found) {
    if (found.error().errno_value() != EOPNOTSUPP) co_return found.error();
    co_return whence == SEEK_HOLE ? size : offset;  // lseek(2) allows treating the whole file as data
  }
  if (*found) co_return **found;
  if (whence == SEEK_HOLE) co_return size;
  co_return refusal(ENXIO, "SEEK", file->inode().label, "there is no data after the offset");
}

}  // namespace nfsrdma::fs
