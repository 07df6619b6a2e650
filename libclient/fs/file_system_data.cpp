// Files that are open: data, locks, close-to-open.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "async/all.h"
#include "async/buggify.h"
#include "async/under_way.h"
#include "fs/file_system.h"

namespace nfsrdma::fs {
namespace {

/// Writes below this are worth a copy.
constexpr std::size_t kGatherBelow = 64U << 10;
constexpr std::uint32_t kLeastPiece = 512;
constexpr auto kGatherFor = std::chrono::milliseconds(10);
constexpr auto kDropFor = std::chrono::milliseconds(10);
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

/// Nobody can map a file that is open for writing only, and nobody misses its pages; so the kernel keeps none
/// of what is appended, which it would put where it believes the end to be.
void heed_flags(OpenHandle& handle, int flags) {
  handle.flags = flags;
  handle.direct = (flags & O_DIRECT) != 0;
  handle.uncached = (flags & O_ACCMODE) == O_WRONLY && (flags & O_APPEND) != 0;
}

}  // namespace

// ---- open, close ----

async::Task<Result<OpenedFile>> FileSystem::open(Caller caller, std::uint64_t id, int flags,
                                                 std::uint32_t thread) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  const std::uint64_t version = freshness_.version(**inode);
  std::optional<Place> found_at;
  if (!is_second_try(**inode, thread)) found_at = place_of(**inode);
  const bool by_name = found_at.has_value();
  auto opened = co_await engine_->open(caller, (*inode)->handle, (*inode)->label, access_of(flags),
                                       std::move(found_at));
  if (!opened) {
    if (by_name && opened.error().errno_value() == ESTALE) refused_by_name(**inode, thread);
    co_return opened.error();
  }
  const std::optional<Attributes>& told = opened->object.attributes;
  // Close-to-open: nothing from before counts any more.
  (*inode)->fresh.reset();
  if (told) freshness_.keep(**inode, *told, version);
  OpenedFile out;
  out.handle = std::make_shared<OpenHandle>(loop(), counters_, *inode, std::move(opened->file), caller,
                                            options_.rsize, options_.most_ahead);
  heed_flags(*out.handle, flags);
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
  Naming naming(freshness_, *parent, name);
  auto opened = co_await engine_->open_at(caller, (*parent)->handle, name, access_of(flags), how);
  if (!opened) co_return opened.error();
  naming.brought(opened->directory);
  auto entered = co_await made(std::move(opened->object), *parent, std::move(name), naming.as_of());
  if (!entered) co_return entered.error();
  OpenedFile out;
  out.entry = std::move(*entered);
  auto inode = inodes_.find(out.entry.inode);
  if (how.truncate) freshness_.resized(*inode);  // it may have been there before
  inode->cached_change = out.entry.attributes.change;
  out.handle = std::make_shared<OpenHandle>(loop(), counters_, std::move(inode), std::move(opened->file),
                                            caller, options_.rsize, options_.most_ahead);
  heed_flags(*out.handle, flags);
  co_return out;
}

/// Of all who have the file open: what others wrote of it is to be safe, too. The file's own comes first.
async::Task<Status> FileSystem::commit_all(std::shared_ptr<OpenHandle> file,
                                           std::optional<Attributes>* after) {
  std::vector<ServerFileRef> others;
  for (const OpenHandle* handle : file->inode().open) {
    if (handle != file.get() && handle->file()->has_unstable_data()) others.push_back(handle->file());
  }
  Status done = co_await file->file()->commit(after);
  for (const ServerFileRef& other : others) {
    if (!other->has_unstable_data()) continue;
    auto committed = co_await other->commit(nullptr);
    if (done) done = std::move(committed);
  }
  co_return done;
}

/// What was written of it before is on the server's disk; late errors are not heeded.
async::Task<Status> FileSystem::save(std::shared_ptr<OpenHandle> file) {
  Inode& inode = file->inode();
  // All of a small file in one go, without a COMMIT behind it.
  const bool all = inode.writes.answered() == 1 && !file->file()->has_unstable_data();
  send_gathered(inode, all ? Stability::on_disk : Stability::unstable);
  co_await settle(inode);
  const std::uint64_t as_of = inode.changed, version = freshness_.version(inode);
  std::optional<Attributes> after;
  auto committed = co_await commit_all(file, &after);
  if (!committed) co_return committed;
  // What this mount wrote is what its kernel has: the next open need not drop it. Not where some was lost.
  if (inode.failing || inode.synced == as_of || inode.changed != as_of) co_return Status();
  if (!after) {
    auto now = co_await file->file()->attributes();
    if (now) after = std::move(*now);
  }
  if (inode.changed == as_of && after) freshness_.is_as_written(inode, *after, version);
  co_return Status();
}

async::Task<Status> FileSystem::sync(std::shared_ptr<OpenHandle> file, Heard heard) {
  auto saved = co_await save(file);
  if (heard && !heard()) co_return saved;
  auto done = file->errors.at_fsync();
  if (done) done = std::move(saved);
  if (done) file->inode().failing = false;
  co_return done;
}

async::Task<Status> FileSystem::flush(std::shared_ptr<OpenHandle> file, std::uint64_t lock_owner,
                                      Heard heard) {
  const bool writes = file->file()->access() != Access::read;
  Status done;
  if (writes) {
    done = co_await save(file);
  } else if (file->file()->knows_owner(lock_owner)) {
    (void)co_await make_safe(file);  // those who may write hear how that went
  }
  if (file->file()->knows_owner(lock_owner)) {
    auto released = co_await file->file()->release_locks(lock_owner);
    if (!released && done) done = released;
  }
  if (!writes || (heard && !heard())) co_return done;
  auto late = file->errors.at_close(lock_owner);
  if (!late) co_return late;
  if (done) file->inode().failing = false;
  co_return done;
}

async::Task<Status> FileSystem::close(std::shared_ptr<OpenHandle> file) {
  file->closing = true;
  const async::Counted under_way(closing_, none_closing_);
  co_return co_await close_now(std::move(file));
}

async::Task<void> FileSystem::closed() {
  while (closing_ != 0) (void)co_await none_closing_.wait_until(async::TimePoint::max());
  co_await engine_->forget_all();
}

async::Task<Status> FileSystem::close_now(std::shared_ptr<OpenHandle> file) {
  co_await settle(file->inode());
  const auto inode = file->shared_inode();
  file->drop_ahead();
  auto closed = co_await engine_->close(file->file());
  std::erase(inode->open, file.get());
  inode->settled.notify_all();
  if (inode->open.empty()) {
    const auto hidden = std::exchange(inode->hidden, {});
    for (const Inode::Hidden& where : hidden) co_await remove_hidden(where);
  }
  co_return closed;
}

// ---- reading, writing ----

/// Data that somebody was told is written is not, and will not be. Nobody shall find it in a cache.
void FileSystem::lost(Inode& inode, const Error& error) {
  inode.errors.add(error);
  inode.failing = true;
  inode.cached_change.reset();
  freshness_.resized(inode);
  freshness_.doubt(inode);
  inode.paged = false;
  if (drop_pages_) loop().spawn(drop_pages_(inode.id, 0, 0));
}

async::Task<void> FileSystem::settle(Inode& inode) {
  return settle(inode, inode.writes.last_number());
}

async::Task<void> FileSystem::settle(Inode& inode, std::uint64_t last) {
  for (;;) {
    const auto gathered = gathered_.find(&inode);
    if (gathered != gathered_.end() && gathered->second.pending->number <= last) send_gathered(inode);
    if (!inode.writes.any_answered(last, 0, ~std::uint64_t{0})) co_return;
    co_await inode.settled.wait_until(async::TimePoint::max());
  }
}

/// One of the writes that are under way has ended.
async::Task<void> FileSystem::one_settled(Inode& inode) {
  send_gathered(inode);
  const std::uint64_t before = inode.ended;
  while (inode.ended == before && !inode.writes.empty()) {
    co_await inode.settled.wait_until(async::TimePoint::max());
  }
}

/// Earlier writes that touch the range of this one would be overtaken.
async::Task<void> FileSystem::wait_for_turn(Inode& inode, Pending pending) {
  while (inode.writes.any_before(pending)) {
    const auto gathered = gathered_.find(&inode);
    const bool ours = gathered != gathered_.end() && gathered->second.pending->number < pending->number &&
                      gathered->second.pending->touches(pending->offset, pending->end);
    if (ours) send_gathered(inode);
    co_await inode.settled.wait_until(async::TimePoint::max());
  }
}

bool FileSystem::too_much_behind(std::size_t size) const {
  return behind_ != 0 && (behind_ + size > window_.bytes() || async::buggify(loop_));
}

async::Task<void> FileSystem::wait_for_room(std::size_t size) {
  ++counters_.behind_waits;
  while (too_much_behind(size)) {
    while (!gathered_.empty()) send_gathered(*gathered_.begin()->first);
    co_await less_behind_.wait_until(async::TimePoint::max());
  }
}

namespace {
/// The kernel puts what is read into pages, while one lives.
struct Paging {
  explicit Paging(Inode& i) : inode(i) {
    inode.paged = true;
    ++inode.paging;
    ++inode.page_reads;
  }
  ~Paging() { --inode.paging; }
  Paging(const Paging&) = delete;
  Paging& operator=(const Paging&) = delete;
  Inode& inode;
};
}  // namespace

async::Task<Result<ReadData>> FileSystem::read(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                               std::size_t size) {
  Inode& inode = file->inode();
  std::optional<Paging> paging;
  if (!file->direct && !file->uncached) paging.emplace(inode);
  // Not only the range: a write behind it says that the file does not end there.
  co_await settle(inode);
  const auto age = std::max(options_.file_max, Seconds(1));
  auto got = co_await file->read(offset, size,
                                 loop().now() - std::chrono::duration_cast<async::Clock::duration>(age));
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
  const std::size_t most = async::buggify(loop()) ? kLeastPiece : options_.wsize;
  if (data.size() <= most) {
    co_return co_await write_piece(file->file(), std::move(memory), data, offset, stability, after,
                                   counters_);
  }
  std::vector<async::Task<Status>> pieces;
  for (std::size_t at = 0; at < data.size(); at += most) {
    const auto length = std::min<std::size_t>(data.size() - at, most);
    pieces.push_back(write_piece(file->file(), memory, data.subspan(at, length), offset + at, stability,
                                 nullptr, counters_));
  }
  const auto results = co_await async::all(loop(), std::move(pieces));
  for (const Status& result : results) {
    if (!result) co_return result;
  }
  co_return Status();
}

void FileSystem::accept(Inode& inode, Pending pending, std::size_t size) {
  pending->answered = true;
  behind_ += size;
  // What was read ahead while it waited is from before it.
  freshness_.changed(inode);
}

void FileSystem::ended(Inode& inode, Pending pending, bool written) {
  freshness_.changed(inode);
  inode.writes.end(pending, written, inode.changed);
  ++inode.ended;
  inode.settled.notify_all();
}

async::Task<void> FileSystem::write_behind(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                           Pending pending, Stability stability) {
  Inode& inode = file->inode();
  const bool on_disk = stability == Stability::on_disk;
  std::optional<Attributes> after;
  const Freshness::Sent sent = freshness_.sending(inode, on_disk);
  const async::TimePoint begun = loop().now();
  const bool full = behind_ > window_.bytes() / 2;
  auto done = co_await write_out(file, std::move(memory), data, pending->offset, stability,
                                 sent.asks ? &after : nullptr);
  if (done) window_.ended(data.size(), full, loop().now() - begun, loop().now());
  ended(inode, pending, static_cast<bool>(done));
  if (!done) {
    lost(inode, done.error());
  } else if (after) {
    freshness_.written(inode, sent, *after, on_disk && inode.writes.empty());
  }
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
      too_much_behind(data.size()) ||
      file->inode().writes.any_other(gathered.pending, offset, offset + data.size())) {
    return false;
  }
  gathered.data.insert(gathered.data.end(), data.begin(), data.end());
  file->inode().writes.extend(gathered.pending, data.size());
  accept(file->inode(), gathered.pending, data.size());
  if (gathered.data.size() == most) send_gathered(file->inode());
  return true;
}

void FileSystem::gather(const std::shared_ptr<OpenHandle>& file, Bytes data, Pending pending) {
  send_gathered(file->inode());  // another place, or another's
  Gathered& gathered = gathered_[&file->inode()];
  gathered.file = file;
  gathered.data.assign(data.begin(), data.end());
  gathered.pending = pending;
  gathered.begun = loop().now();
  if (!sending_old_) sending_task_ = loop().spawn(send_old_gathered());
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

// ---- appending ----

bool FileSystem::Writing::appends() const {
  return (flags & O_APPEND) != 0;
}
bool FileSystem::Writing::is_stable() const {
  return (flags & (O_SYNC | O_DSYNC)) != 0;
}

/// The end of the file as far as it is known without asking: while appends of ours are under way nobody else
/// can say better where the next one goes.
std::optional<std::uint64_t> FileSystem::known_end(const Inode& inode) {
  if (!inode.append_at || !inode.writes.any_append()) return std::nullopt;
  return std::max(*inode.append_at, inode.writes.furthest());
}

/// Those who want the same wait for it, first come first served.
async::Task<Result<std::uint64_t>> FileSystem::find_end(std::shared_ptr<OpenHandle> file) {
  Inode& inode = file->inode();
  while (inode.finding_end) co_await inode.settled.wait_until(async::TimePoint::max());
  if (const auto known = known_end(inode)) co_return *known;
  const async::Flagged finding(inode.finding_end, inode.settled);
  for (;;) {
    const std::uint64_t as_of = freshness_.now();
    auto now = co_await file->file()->attributes();
    if (!now) co_return now.error();
    freshness_.learn(inode, *now);
    if (inode.resized > as_of) continue;
    co_return std::max({now->size, inode.writes.written_since(as_of).value_or(0), inode.writes.furthest()});
  }
}

// ---- writing ----

async::Task<Status> FileSystem::write_through(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                              Bytes data, Pending pending, Stability stability) {
  Inode& inode = file->inode();
  if (stability == Stability::unstable) fit(loop_.memory(), memory, data);
  auto done = co_await write_out(file, std::move(memory), data, pending->offset, stability);
  ended(inode, pending, static_cast<bool>(done));
  co_return done;
}

void FileSystem::send_behind(const std::shared_ptr<OpenHandle>& file, async::Memory memory, Bytes data,
                             Pending pending) {
  accept(file->inode(), pending, data.size());
  if (data.size() < kGatherBelow && !async::buggify(loop())) return gather(file, data, pending);
  fit(loop_.memory(), memory, data);
  loop().spawn(write_behind(file, std::move(memory), data, pending, Stability::unstable));
}

async::Task<Status> FileSystem::write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                      std::uint64_t offset, std::optional<int> flags) {
  Inode& inode = file->inode();
  Writing how;
  how.flags = flags.value_or(file->flags);
  how.kernels_offset = offset;
  how.page_reads = inode.page_reads;
  how.paging = inode.paging != 0;
  if (how.appends()) {
    auto end = co_await find_end(file);
    if (!end) co_return end.error();
    offset = *end;
    inode.append_at = offset + data.size();
  }
  ++counters_.writes;
  counters_.bytes_written += data.size();
  const bool stable = options_.sync || inode.failing || how.is_stable();
  const bool through = stable || file->direct || async::buggify(loop());
  counters_.writes_behind += through ? 0 : 1;
  Status done;
  if (through || !add_to_gathered(file, data, offset)) {
    const Pending pending = inode.writes.begin(offset, data.size());
    pending->append = how.appends();
    freshness_.changed(inode);
    if (inode.writes.any_before(pending)) co_await wait_for_turn(inode, pending);
    if (through) {
      done = co_await write_through(file, std::move(memory), data, pending,
                                    stable ? Stability::on_disk : Stability::unstable);
    } else {
      if (too_much_behind(data.size())) co_await wait_for_room(data.size());
      send_behind(file, std::move(memory), data, pending);
    }
  }
  if (done) co_await drop_stale_pages(file, how, offset, data.size());
  co_return done;
}

namespace {
struct Dropping {
  explicit Dropping(async::Loop& loop) : ended(loop) {}
  bool done = false;
  async::Event ended;
};
async::Task<void> run_dropping(std::shared_ptr<Dropping> dropping, async::Task<void> task) {
  co_await std::move(task);
  dropping->done = true;
  dropping->ended.notify_all();
}
}  // namespace

/// From inside of a write that the kernel waits for. It keeps one page locked until the answer, if it did not
/// have all of it; nobody can read that one, nor will it count as whole then. So what takes long is not
/// waited for.
async::Task<void> FileSystem::drop_free_pages(Inode& inode) {
  const auto dropping = std::make_shared<Dropping>(loop());
  loop().spawn(run_dropping(dropping, drop_pages_(inode.id, 0, 0)));
  const auto most = loop().now() + kDropFor;
  while (!dropping->done) {
    const bool in_time = co_await dropping->ended.wait_until(most);
    if (!in_time) co_return;
  }
}

/// The kernel keeps pages of what it writes, and drops those in the way of O_DIRECT before it writes.
async::Task<void> FileSystem::drop_stale_pages(std::shared_ptr<OpenHandle> file, Writing how,
                                               std::uint64_t offset, std::size_t size) {
  Inode& inode = file->inode();
  if (!drop_pages_) co_return;
  if (file->uncached) {
    // It has done neither.
    if (std::exchange(inode.paged, false)) co_await drop_pages_(inode.id, how.appends() ? offset : 0, 0);
  } else if (file->direct) {
    // Those that were being read meanwhile may be from before it.
    const bool read = how.paging || inode.page_reads != how.page_reads;
    if (read) co_await drop_pages_(inode.id, offset, size);
  } else {
    inode.paged = true;
    // What it has is in the wrong place.
    if (offset != how.kernels_offset) co_await drop_free_pages(inode);
  }
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
  auto committed = co_await commit_all(file, nullptr);
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

async::Task<Result<std::uint64_t>> FileSystem::copy(std::shared_ptr<OpenHandle> from,
                                                    std::uint64_t from_offset, std::shared_ptr<OpenHandle> to,
                                                    std::uint64_t to_offset, std::uint64_t count) {
  const std::uint64_t written = to->inode().writes.last_number();
  co_await settle(from->inode());
  co_await settle(to->inode(), written);
  auto copied = co_await engine_->copy(from->file(), from_offset, to->file(), to_offset, count);
  freshness_.resized(to->inode());
  co_return copied;  // EOPNOTSUPP: the kernel then copies by reading and writing
}

// ---- locks ----

async::Task<Result<std::optional<LockHolder>>> FileSystem::test_lock(std::shared_ptr<OpenHandle> file,
                                                                     LockRequest request) {
  co_return co_await file->file()->test_lock(request);
}

namespace {
/// Says when it is done to whoever waits for that or for something else.
async::Task<void> then_wake(std::shared_ptr<OpenHandle> /*file*/, async::Task<void> task,
                            std::shared_ptr<locking::LockWait> wait, std::shared_ptr<bool> done) {
  co_await std::move(task);
  *done = true;
  wait->wake();
}
}  // namespace

/// settle(), unless the wait is cancelled before: then false.
async::Task<bool> FileSystem::settle_or_cancel(std::shared_ptr<OpenHandle> file,
                                               std::shared_ptr<locking::LockWait> wait) {
  const auto done = std::make_shared<bool>(false);
  loop().spawn(then_wake(file, settle(file->inode()), wait, done));
  while (!*done && !wait->cancelled()) co_await wait->until(async::TimePoint::max());
  co_return !wait->cancelled();
}

async::Task<Status> FileSystem::lock(std::shared_ptr<OpenHandle> file, LockRequest request,
                                     std::shared_ptr<locking::LockWait> wait) {
  // What was written before the lock is to be seen by whoever has it next, and what others wrote by us.
  Inode& inode = file->inode();
  if (wait) {
    const bool settled = co_await settle_or_cancel(file, wait);
    if (!settled) {
      co_return Error(ErrorKind::cancelled, EINTR, "LOCK", inode.label, "nobody waits for the lock any more");
    }
    auto done = co_await file->file()->wait_for_lock(request, std::move(wait));
    freshness_.others_may_have_changed(inode);
    co_return done;
  }
  co_await settle(inode);
  auto refused = co_await file->file()->lock(request);
  if (!refused) co_return refused.error();
  if (*refused) co_return refusal(EAGAIN, "LOCK", inode.label, "somebody else has a lock there");
  freshness_.others_may_have_changed(inode);
  co_return Status();
}

/// RFC 8881 10.3.2: what was written under a lock is on stable storage before the lock goes. It may have been
/// written through any of the inode's open files, whoever opened it.
async::Task<Status> FileSystem::make_safe(std::shared_ptr<OpenHandle> file) {
  co_await settle(file->inode());
  co_return co_await commit_all(file, nullptr);
}

async::Task<Status> FileSystem::unlock(std::shared_ptr<OpenHandle> file, std::uint64_t owner,
                                       LockRange range) {
  auto committed = co_await make_safe(file);
  auto done = co_await file->file()->unlock(owner, range);
  if (!committed) co_return committed;
  co_return done;
}

async::Task<Status> FileSystem::release_locks(std::shared_ptr<OpenHandle> file, std::uint64_t owner) {
  if (!file->file()->knows_owner(owner)) co_return Status();
  auto committed = co_await make_safe(file);
  auto done = co_await file->file()->release_locks(owner);
  if (!committed) co_return committed;
  co_return done;
}

}  // namespace nfsrdma::fs
