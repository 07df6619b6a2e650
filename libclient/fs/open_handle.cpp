#include "fs/open_handle.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "async/buggify.h"

namespace nfsrdma::fs {
namespace {
/// How far behind the reader unused chunks are kept, because the kernel reads ahead, too, and its requests
/// arrive out of order.
constexpr std::size_t kBehind = 1U << 20;
/// How many requests of its own size a read may be away from the last one and still count as sequential:
/// small reads here and there do not.
constexpr std::size_t kNear = 4;

/// Counts bytes that a read waits for, while the object lives.
class Asked {
 public:
  Asked(std::size_t& all, std::size_t size) : all_(all), size_(size) { all_ += size_; }
  ~Asked() { all_ -= size_; }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

 private:
  std::size_t& all_;
  const std::size_t size_;
};
}  // namespace

Access access_of(int flags) {
  switch (flags & O_ACCMODE) {
    case O_WRONLY:
      return Access::write;
    case O_RDWR:
      return Access::both;
    default:
      return Access::read;
  }
}

OpenHandle::OpenHandle(async::Loop& loop, Counters& counters, ReadWindow& window,
                       std::shared_ptr<Inode> inode, ServerFileRef file, Caller caller,
                       ReadsElsewhere* elsewhere)
    : Reader(window),
      errors(inode->writes.errors()),
      loop_(loop),
      counters_(counters),
      inode_(std::move(inode)),
      file_(std::move(file)),
      caller_(std::move(caller)),
      window_(window),
      elsewhere_(elsewhere) {
  inode_->open.push_back(this);
}

OpenHandle::~OpenHandle() {
  if (std::erase(inode_->open, this) != 0) inode_->settled.notify_all();
}

void OpenHandle::drop_ahead() {
  ahead_.clear();
  streak_ = 0;
}

bool OpenHandle::has(const ChunkRef& chunk) const {
  const auto found = ahead_.find(chunk->offset);
  return found != ahead_.end() && found->second == chunk;
}

/// Drops the chunk, because all of its bytes have been used.
void OpenHandle::is_used_up(const ChunkRef& chunk) {
  if (has(chunk)) ahead_.erase(chunk->offset);
}

void OpenHandle::drop_stale(async::TimePoint oldest) {
  if (std::exchange(contents_, inode_->attributes.contents()) != inode_->attributes.contents())
    ahead_.clear();
  if (inode_->attributes.is_confirmed(oldest)) return;
  std::erase_if(ahead_, [&](const auto& one) { return one.second->begun < oldest; });
}

async::Task<void> OpenHandle::fill(ServerFileRef file, ChunkRef chunk, ReadsElsewhere* elsewhere,
                                   bool direct) {
  // Programs hardly ever wait for what goes into the kernel's cache.
  const FileElsewhere from(elsewhere, file, chunk->memory, chunk->wanted, !direct);
  const bool measured = chunk->window.measures(chunk->wanted);
  if (measured) chunk->window.began(chunk->wanted);
  Result<std::size_t> got = 0;
  auto fast = co_await engine::FastReadWait(from, {chunk->memory.data.get(), chunk->wanted}, chunk->offset);
  if (fast.rest)
    got = co_await std::move(*fast.rest);
  else
    got = fast.count;
  if (measured) chunk->window.ended(chunk->wanted, got ? *got : 0, chunk->begun);
  if (got) {
    chunk->got = *got;
    chunk->counters.server_bytes_read += *got;
    if (chunk->ahead) chunk->counters.ahead_bytes_read += *got;
  } else {
    chunk->error = got.error();
  }
  chunk->done = true;
  chunk->ended.notify_all();
}

/// Counts the bytes as read ahead of this reader, so that the limit for all readers also bounds the memory of
/// a program that opens many files and reads none.
void OpenHandle::has_read(async::Memory memory, std::size_t wanted, std::size_t got, async::TimePoint begun) {
  if (!window_.make_room(wanted, *this)) return;
  join();
  auto chunk = std::make_shared<Chunk>(loop_, counters_, window_, true, std::move(memory), wanted);
  ++counters_.server_reads;
  ++counters_.ahead_reads;
  counters_.server_bytes_read += got;
  counters_.ahead_bytes_read += got;
  chunk->begun = begun;
  chunk->got = got;
  chunk->done = chunk->as_opened = true;
  contents_ = inode_->attributes.contents();
  ahead_.emplace(0, std::move(chunk));
}

OpenHandle::ChunkRef OpenHandle::begin(std::uint64_t offset, std::size_t size, bool ahead) {
  ++counters_.server_reads;
  counters_.ahead_reads += ahead ? 1 : 0;
  auto chunk = std::make_shared<Chunk>(loop_, counters_, window_, ahead, loop_.memory().take(size), size);
  chunk->begun = loop_.now();
  chunk->offset = offset;
  loop_.spawn(fill(file_, chunk, elsewhere_, direct));
  return chunk;
}

bool OpenHandle::begin_plain_read(std::uint64_t offset, std::size_t size) {
  if (!ahead_.empty() || size == 0 || size > window_.rsize() || async::buggify(loop_)) return false;
  // Sequential reads take the ordinary way, which reads ahead.
  if (!direct && (streak_ != 0 || offset == next_)) return false;
  streak_ = 0;
  leave();
  next_ = offset + size;
  return true;
}

void OpenHandle::look_ahead(std::uint64_t offset, std::size_t size) {
  const std::uint64_t end = offset + size;
  const std::size_t near = std::min(kBehind, kNear * size);
  const bool follows = offset == next_ || (offset < next_ + near && offset + near >= next_ && streak_ != 0);
  streak_ = follows ? streak_ + 1 : 0;
  next_ = follows ? std::max(next_, end) : end;
  if (!follows) {
    ahead_.clear();
    leave();
  }
  while (!ahead_.empty()) {
    const Chunk& first = *ahead_.begin()->second;
    if (first.offset + first.wanted + kBehind > next_) break;
    ahead_.erase(ahead_.begin());
  }
  if ((streak_ < 2 && !async::buggify(loop_)) || direct) return;
  const bool is_being_written = inode_->writes.furthest() != 0;
  if (is_being_written) return;
  join();
  read_ahead(end);
}

/// Reads ahead behind a read that ends at `end`. Bytes that reads under way have asked for, including the
/// kernel's own read-ahead, count towards the window. Nothing is read behind the end of the file, as far as
/// it is known.
void OpenHandle::read_ahead(std::uint64_t end) {
  const std::size_t share = window_.share();
  if (share <= asked_) return;
  const std::size_t rsize = window_.rsize();
  const std::uint64_t file_end = inode_->end();
  const std::uint64_t until =
      std::min(next_ + (share - asked_), file_end == 0 ? ~std::uint64_t{0} : file_end);
  std::uint64_t from = end;
  if (!ahead_.empty()) {
    const Chunk& last = *ahead_.rbegin()->second;
    // Nothing follows a chunk that reached the end of the file.
    if (last.done && last.got < last.wanted) return;
    from = std::max(end, last.offset + last.wanted);
  }
  for (; from < until && window_.make_room(rsize, *this); from += rsize)
    ahead_.emplace(from, begin(from, rsize, true));
}

async::Task<Result<ReadData>> OpenHandle::read(std::uint64_t offset, std::size_t size,
                                               async::TimePoint oldest) {
  const auto self = shared_from_this();
  const Asked asked(asked_, size);
  drop_stale(oldest);
  if (async::buggify(loop_)) drop_ahead();
  // Find the bytes that are here or requested already, so that only the rest is requested.
  std::vector<ChunkRef> parts;
  const std::uint64_t end = offset + size;
  std::uint64_t at = offset;
  bool all_ahead = true;
  while (at < end) {
    auto found = ahead_.upper_bound(at);
    const std::uint64_t next = found == ahead_.end() ? end : std::min(end, found->first);
    ChunkRef chunk;
    if (found != ahead_.begin()) {
      const ChunkRef& before = std::prev(found)->second;
      if (before->offset + before->wanted > at) chunk = before;
    }
    all_ahead = all_ahead && chunk;
    if (!chunk)
      chunk = begin(at, static_cast<std::size_t>(std::min<std::uint64_t>(next - at, window_.rsize())), false);
    at = chunk->offset + chunk->wanted;
    parts.push_back(std::move(chunk));
  }
  counters_.ahead_hits += all_ahead ? 1 : 0;
  look_ahead(offset, size);
  ReadData out;
  at = offset;
  for (const ChunkRef& chunk : parts) {
    while (!chunk->done) co_await chunk->ended.wait_until(async::TimePoint::max());
    if (chunk->error) {
      // The bytes in front of this chunk are not returned: the caller would believe that the file ends here.
      drop_ahead();
      const Error failed = *chunk->error;
      co_return failed;
    }
    const std::uint64_t there = chunk->offset + chunk->got;
    const std::uint64_t until = std::min(end, there);
    if (until > at) {
      const auto skip = static_cast<std::size_t>(at - chunk->offset);
      out.add(chunk->memory.data, chunk->memory.data.get() + skip, static_cast<std::size_t>(until - at));
      chunk->used += static_cast<std::size_t>(until - at);
      at = until;
      if (chunk->used >= chunk->wanted) is_used_up(chunk);
    }
    used_early_ = used_early_ || chunk->as_opened;
    if (chunk->got == chunk->wanted || at >= end) continue;
    if (chunk->as_opened) {
      // The next read asks the server again.
      drop_ahead();
      break;
    }
    // The chunk reached the end of the file. If it was read ahead, the file may have grown since.
    if (!chunk->ahead) break;
    drop_ahead();
    auto rest = co_await read(at, static_cast<std::size_t>(end - at), oldest);
    if (!rest) co_return rest.error();
    for (std::size_t i = 0; i < rest->pieces.size(); ++i) {
      out.add(rest->holds[i], static_cast<std::byte*>(rest->pieces[i].iov_base), rest->pieces[i].iov_len);
    }
    break;
  }
  co_return out;
}

}  // namespace nfsrdma::fs
