// Files that are open: data, locks, close-to-open.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "async/all.h"
#include "fs/file_system.h"

namespace nfsrdma::fs {
namespace {

constexpr std::size_t kMostBehind = 32U << 20;
/// Writes below this are worth a copy.
constexpr std::size_t kGatherBelow = 64U << 10;
constexpr auto kGatherFor = std::chrono::milliseconds(10);

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

void heed_flags(OpenHandle& handle, int flags, bool sync) {
  handle.direct = (flags & O_DIRECT) != 0;
  handle.write_through = sync || (flags & (O_DIRECT | O_SYNC | O_DSYNC)) != 0;
}

}  // namespace

// ---- open, close ----

async::Task<Result<OpenedFile>> FileSystem::open(Caller caller, std::uint64_t id, int flags) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  const std::uint64_t as_of = freshness(**inode);
  auto opened = co_await engine_->open(caller, (*inode)->handle, (*inode)->label, access_of(flags));
  if (!opened) co_return opened.error();
  const std::optional<Attributes>& told = opened->object.attributes;
  // Close-to-open: nothing from before counts any more.
  (*inode)->fresh.reset();
  if ((*inode)->writes.empty() && told) keep_fresh(**inode, *told, as_of);
  OpenedFile out;
  out.handle = std::make_shared<OpenHandle>(loop(), counters_, *inode, std::move(opened->file), caller,
                                            options_.rsize);
  heed_flags(*out.handle, flags, options_.sync);
  if ((flags & O_TRUNC) != 0) {
    SetAttributes changes;
    changes.size = 0;
    auto cut = co_await set_attributes(std::move(caller), id, changes, out.handle);
    if (!cut) co_return cut.error();
    co_return out;
  }
  const auto change = told ? std::optional(told->change) : std::nullopt;
  // Also where the file is open here already: what somebody else wrote may be what has changed it.
  out.keep_cache = !options_.close_to_open || (change && (*inode)->cached_change == change);
  (*inode)->cached_change = change;
  co_return out;
}

async::Task<Result<OpenedFile>> FileSystem::create(Caller caller, std::uint64_t directory, std::string name,
                                                   std::uint32_t mode, int flags) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Engine::Creation how;
  how.mode = mode;
  how.exclusive = (flags & O_EXCL) != 0;
  how.truncate = (flags & O_TRUNC) != 0;
  Naming naming(*this, *parent);
  auto opened = co_await engine_->create(caller, (*parent)->handle, name, access_of(flags), how);
  if (!opened) co_return opened.error();
  naming.brought(opened->directory);
  auto entered = co_await made(std::move(opened->object), std::move(name));
  if (!entered) co_return entered.error();
  OpenedFile out;
  out.entry = std::move(*entered);
  auto inode = inodes_.find(out.entry.inode);
  inode->cached_change = out.entry.attributes.change;
  out.handle = std::make_shared<OpenHandle>(loop(), counters_, std::move(inode), std::move(opened->file),
                                            caller, options_.rsize);
  heed_flags(*out.handle, flags, options_.sync);
  co_return out;
}

Status FileSystem::late_error(Inode& inode) {
  if (!inode.late_error) return {};
  const Error error = *std::exchange(inode.late_error, std::nullopt);
  return error;
}

async::Task<Status> FileSystem::sync(std::shared_ptr<OpenHandle> file) {
  Inode& inode = file->inode();
  // All of a small file in one go, without a COMMIT behind it.
  const bool all = inode.writes.size() == 1 && !file->file()->has_unstable_data();
  send_gathered(inode, all ? Stability::on_disk : Stability::unstable);
  co_await settle(inode);
  const std::uint64_t as_of = inode.changed, fresh = freshness(inode);
  std::optional<Attributes> after;
  auto committed = co_await file->file()->commit(&after);
  if (auto late = late_error(inode); !late) co_return late;
  if (!committed) co_return committed;
  // What this mount wrote is what its kernel has: the next open need not drop it.
  if (inode.synced == as_of || inode.changed != as_of) co_return Status();
  if (!after) {
    auto now = co_await file->file()->attributes();
    if (now) after = std::move(*now);
  }
  if (inode.changed == as_of) is_as_written(inode, after, fresh);
  co_return Status();
}

void FileSystem::is_as_written(Inode& inode, const std::optional<Attributes>& after, std::uint64_t as_of) {
  if (!after) return;
  inode.cached_change = after->change;
  inode.synced = inode.changed;
  keep_fresh(inode, *after, as_of);
}

async::Task<Status> FileSystem::flush(std::shared_ptr<OpenHandle> file, std::uint64_t lock_owner) {
  Status done;
  if (file->file()->access() != Access::read) done = co_await sync(file);
  if (file->file()->knows_owner(lock_owner)) {
    auto released = co_await file->file()->release_locks(lock_owner);
    if (!released && done) done = released;
  }
  co_return done;
}

async::Task<Status> FileSystem::close(std::shared_ptr<OpenHandle> file) {
  file->closing = true;
  ++closing_;
  auto done = co_await close_now(std::move(file));
  --closing_;
  less_closing_.notify_all();
  co_return done;
}

async::Task<void> FileSystem::closed() {
  while (closing_ != 0) (void)co_await less_closing_.wait_until(async::TimePoint::max());
  co_await engine_->forget_all();
}

async::Task<Status> FileSystem::close_now(std::shared_ptr<OpenHandle> file) {
  co_await settle(file->inode());
  const auto inode = file->shared_inode();
  const Caller caller = file->caller();
  file->drop_ahead();
  auto closed = co_await engine_->close(file->file());
  std::erase(inode->open, file.get());
  inode->settled.notify_all();
  if (inode->open.empty() && inode->hidden) {
    const Inode::Hidden hidden = *std::exchange(inode->hidden, std::nullopt);
    std::optional<Naming> naming;
    if (auto directory = inodes_.find(hidden.directory)) naming.emplace(*this, std::move(directory));
    (void)co_await engine_->remove(caller, hidden.directory, hidden.name);
  }
  co_return closed;
}

// ---- reading, writing ----

void FileSystem::changed_here(Inode& inode) {
  inode.fresh.reset();  // also where a lock may let us see what others have changed
  for (OpenHandle* handle : inode.open) handle->drop_ahead();
  inode.changed = ++changes_;
}

/// Waits for writes behind that touch the range.
async::Task<void> FileSystem::settle(Inode& inode, std::uint64_t begin, std::uint64_t end) {
  const auto touches = [&](const PendingWrite& write) { return write.offset < end && begin < write.end; };
  const auto gathered = gathered_.find(&inode);
  if (gathered != gathered_.end() && touches(*gathered->second.pending)) send_gathered(inode);
  while (std::ranges::any_of(inode.writes, touches)) {
    co_await inode.settled.wait_until(async::TimePoint::max());
  }
}

async::Task<Result<ReadData>> FileSystem::read(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                               std::size_t size) {
  // Not only the range: a write behind it says that the file does not end there.
  co_await settle(file->inode());
  auto got = co_await file->read(offset, size);
  ++counters_.reads;
  if (got) counters_.bytes_read += got->size;
  co_return got;
}

namespace {
/// Holds on to the file, for a task that outlives whoever began it.
async::Task<Status> write_piece(ServerFileRef file, async::Memory memory, std::span<const std::byte> data,
                                std::uint64_t offset, Stability stability, std::optional<Attributes>* after,
                                Counters& counters) {
  ++counters.server_writes;
  auto count = co_await file->write(data, std::move(memory), offset, stability, after);
  if (!count) co_return count.error();
  counters.server_bytes_written += *count;
  co_return Status();
}
}  // namespace

async::Task<Status> FileSystem::write_out(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                          std::uint64_t offset, Stability stability,
                                          std::optional<Attributes>* after) {
  if (data.size() <= options_.wsize) {
    co_return co_await write_piece(file->file(), std::move(memory), data, offset, stability, after,
                                   counters_);
  }
  std::vector<async::Task<Status>> pieces;
  for (std::size_t at = 0; at < data.size(); at += options_.wsize) {
    const auto length = std::min<std::size_t>(data.size() - at, options_.wsize);
    pieces.push_back(write_piece(file->file(), memory, data.subspan(at, length), offset + at, stability,
                                 nullptr, counters_));
  }
  const auto results = co_await async::all(loop(), std::move(pieces));
  for (const Status& result : results) {
    if (!result) co_return result;
  }
  co_return Status();
}

async::Task<void> FileSystem::write_behind(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                           Pending pending, Stability stability) {
  Inode& inode = file->inode();
  // The WRITE itself counts twice, as it begins and as it ends.
  const std::uint64_t as_of = freshness(inode) + 2;
  std::optional<Attributes> after;
  const bool tell = stability == Stability::on_disk;
  auto done =
      co_await write_out(file, std::move(memory), data, pending->offset, stability, tell ? &after : nullptr);
  if (!done && !inode.late_error) inode.late_error = done.error();
  inode.writes.erase(pending);
  inode.changed = ++changes_;
  if (inode.writes.empty()) is_as_written(inode, after, as_of);
  inode.settled.notify_all();
  behind_ -= data.size();
  less_behind_.notify_all();
}

// ---- gathering ----

/// Whether the write could be added to what the file has gathered.
bool FileSystem::add_to_gathered(const std::shared_ptr<OpenHandle>& file, Bytes data, std::uint64_t offset) {
  const auto found = gathered_.find(&file->inode());
  if (found == gathered_.end()) return false;
  Gathered& gathered = found->second;
  const std::size_t most = options_.wsize;
  if (gathered.file != file || offset != gathered.pending->end || gathered.data.size() + data.size() > most ||
      behind_ + data.size() > kMostBehind) {
    return false;
  }
  gathered.data.insert(gathered.data.end(), data.begin(), data.end());
  gathered.pending->end += data.size();
  behind_ += data.size();
  if (gathered.data.size() == most) send_gathered(file->inode());
  return true;
}

void FileSystem::gather(const std::shared_ptr<OpenHandle>& file, Bytes data, std::uint64_t offset) {
  send_gathered(file->inode());  // another place, or another's
  Gathered& gathered = gathered_[&file->inode()];
  gathered.file = file;
  gathered.data.assign(data.begin(), data.end());
  gathered.pending = begin_behind(file->inode(), offset, data.size());
  gathered.begun = loop().now();
  if (!sending_old_) loop().spawn(send_old_gathered());
}

void FileSystem::send_gathered(Inode& inode, Stability stability) {
  auto found = gathered_.extract(&inode);
  if (!found) return;
  Gathered& gathered = found.mapped();
  const auto whole = std::make_shared<std::vector<std::byte>>(std::move(gathered.data));
  const Bytes data(*whole);
  async::Memory memory{{whole, whole->data()}, whole->capacity()};
  loop().spawn(write_behind(std::move(gathered.file), std::move(memory), data, gathered.pending, stability));
}

async::Task<void> FileSystem::send_old_gathered() {
  sending_old_ = true;
  while (!gathered_.empty()) {
    co_await loop().sleep_for(kGatherFor);
    const auto old = loop().now() - kGatherFor;
    std::vector<Inode*> due;
    for (const auto& [inode, gathered] : gathered_) {
      if (gathered.begun <= old) due.push_back(inode);
    }
    for (Inode* inode : due) send_gathered(*inode);
  }
  sending_old_ = false;
}

namespace {
/// Holds `data` in about as much memory as it takes: it may have to be held for long.
void fit(async::MemoryPool& pool, async::Memory& memory, std::span<const std::byte>& data) {
  if (memory.data && data.size() >= memory.size / 4 * 3) return;
  async::Memory copy = pool.take(data.size());
  std::ranges::copy(data, copy.data.get());
  data = {copy.data.get(), data.size()};
  memory = std::move(copy);
}
}  // namespace

FileSystem::Pending FileSystem::begin_behind(Inode& inode, std::uint64_t offset, std::size_t size) {
  behind_ += size;
  return inode.writes.insert(inode.writes.end(), PendingWrite{offset, offset + size});
}

async::Task<Status> FileSystem::write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                      std::uint64_t offset) {
  Inode& inode = file->inode();
  ++counters_.writes;
  counters_.bytes_written += data.size();
  changed_here(inode);
  // In both cases overlapping writes would overtake each other, but for settle().
  if (file->write_through) {
    co_await settle(inode, offset, offset + data.size());
    const Stability stability = file->direct ? Stability::unstable : Stability::on_disk;
    if (file->direct) fit(loop_.memory(), memory, data);
    auto done = co_await write_out(file, std::move(memory), data, offset, stability);
    changed_here(inode);
    co_return done;
  }
  // A write that failed tells those behind it, too.
  if (inode.late_error) co_return late_error(inode);
  ++counters_.writes_behind;
  if (add_to_gathered(file, data, offset)) co_return Status();
  co_await settle(inode, offset, offset + data.size());
  const auto too_much = [&] { return behind_ != 0 && behind_ + data.size() > kMostBehind; };
  counters_.behind_waits += too_much() ? 1 : 0;
  while (too_much()) {
    while (!gathered_.empty()) send_gathered(*gathered_.begin()->first);
    co_await less_behind_.wait_until(async::TimePoint::max());
  }
  // What was read ahead while this one waited is from before it.
  changed_here(inode);
  if (data.size() < kGatherBelow) {
    gather(file, data, offset);
    co_return Status();
  }
  fit(loop_.memory(), memory, data);
  const Pending pending = begin_behind(inode, offset, data.size());
  loop().spawn(write_behind(std::move(file), std::move(memory), data, pending, Stability::unstable));
  co_return Status();
}

// ---- more of NFSv4.2 ----

async::Task<Result<std::uint64_t>> FileSystem::seek(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                                    int whence) {
  co_await settle(file->inode());
  auto attributes = co_await file->file()->attributes();
  if (!attributes) co_return attributes.error();
  const std::uint64_t size = attributes->size;
  if (offset >= size)
    co_return refusal(ENXIO, "SEEK", file->inode().label, "the offset is behind the end of the file");
  auto found = co_await file->file()->seek(offset, whence == SEEK_HOLE);
  if (!found) {
    if (found.error().errno_value() != EOPNOTSUPP) co_return found.error();
    co_return whence == SEEK_HOLE ? size : offset;  // as if there were no holes: lseek(2) allows it
  }
  if (*found) co_return **found;
  if (whence == SEEK_HOLE) co_return size;
  co_return refusal(ENXIO, "SEEK", file->inode().label, "there is no data behind the offset");
}

async::Task<Status> FileSystem::allocate(std::shared_ptr<OpenHandle> file, int mode, std::uint64_t offset,
                                         std::uint64_t length) {
  co_await settle(file->inode());
  if (mode != 0 && mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) {
    co_return refusal(EOPNOTSUPP, "fallocate", file->inode().label, "NFS has nothing for this mode");
  }
  // What is not committed must not come back into a hole.
  auto committed = co_await file->file()->commit(nullptr);
  if (!committed) co_return committed;
  Status done;
  if (mode == 0) {
    done = co_await file->file()->allocate(offset, length);
  } else {
    done = co_await file->file()->deallocate(offset, length);
  }
  changed_here(file->inode());
  co_return done;
}

async::Task<Result<std::uint64_t>> FileSystem::copy(std::shared_ptr<OpenHandle> from,
                                                    std::uint64_t from_offset, std::shared_ptr<OpenHandle> to,
                                                    std::uint64_t to_offset, std::uint64_t count) {
  co_await settle(from->inode());
  co_await settle(to->inode());
  auto copied = co_await engine_->copy(from->file(), from_offset, to->file(), to_offset, count);
  changed_here(to->inode());
  co_return copied;  // EOPNOTSUPP: the kernel then copies by reading and writing
}

// ---- locks ----

async::Task<Result<std::optional<locking::LockHolder>>> FileSystem::test_lock(
    std::shared_ptr<OpenHandle> file, locking::LockRequest request) {
  co_return co_await file->file()->test_lock(request);
}

/// Goes on when nobody waits for it any more.
async::Task<void> FileSystem::settle_beside(FileSystem& files, std::shared_ptr<OpenHandle> file,
                                            std::shared_ptr<locking::LockWait> wait,
                                            std::shared_ptr<bool> done) {
  co_await files.settle(file->inode());
  *done = true;
  wait->wake();
}

async::Task<Status> FileSystem::lock(std::shared_ptr<OpenHandle> file, locking::LockRequest request,
                                     std::shared_ptr<locking::LockWait> wait) {
  // What was written before the lock is to be seen by whoever has it next, and what others wrote by us.
  if (wait && !file->inode().writes.empty()) {
    const auto settled = std::make_shared<bool>(false);
    loop().spawn(settle_beside(*this, file, wait, settled));
    while (!*settled && !wait->cancelled()) (void)co_await wait->until(async::TimePoint::max());
    if (!*settled) {
      co_return Error(ErrorKind::cancelled, EINTR, "LOCK", file->inode().label,
                      "the wait for what was written before was given up");
    }
  } else {
    co_await settle(file->inode());
  }
  if (wait) {
    auto done = co_await file->file()->wait_for_lock(request, std::move(wait));
    changed_here(file->inode());
    co_return done;
  }
  auto refused = co_await file->file()->lock(request);
  if (!refused) co_return refused.error();
  if (*refused) co_return refusal(EAGAIN, "LOCK", file->inode().label, "somebody else has a lock there");
  changed_here(file->inode());
  co_return Status();
}

async::Task<Status> FileSystem::unlock(std::shared_ptr<OpenHandle> file, std::uint64_t owner,
                                       locking::LockRange range) {
  co_await settle(file->inode());
  auto committed = co_await file->file()->commit(nullptr);
  auto done = co_await file->file()->unlock(owner, range);
  if (!committed) co_return committed;
  co_return done;
}

async::Task<Status> FileSystem::release_locks(std::shared_ptr<OpenHandle> file, std::uint64_t owner) {
  if (!file->file()->knows_owner(owner)) co_return Status();
  co_await settle(file->inode());
  auto committed = co_await file->file()->commit(nullptr);
  auto done = co_await file->file()->release_locks(owner);
  if (!committed) co_return committed;
  co_return done;
}

}  // namespace nfsrdma::fs
