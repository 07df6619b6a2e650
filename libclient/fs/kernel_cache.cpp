#include "fs/kernel_cache.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "async/until.h"

namespace nfsrdma::fs {

namespace {
constexpr auto kDropFor = std::chrono::milliseconds(10);
}  // namespace

bool WriteRequest::appends() const {
  return (flags & O_APPEND) != 0;
}

bool WriteRequest::is_stable() const {
  return (flags & (O_SYNC | O_DSYNC)) != 0;
}

KernelCache::KernelCache(MountState& state) : Part(state) {
  writes_.on_lost([this](Inode& inode) { forget_pages(inode); });
}

namespace {
/// Guards a notification for the inode. The kernel takes it at some time while this object lives.
struct Notifying {
  Notifying(Freshness& all, Inode& of) : freshness(all), inode(of) {
    inode.attributes.kernel_changes(freshness.count());
  }
  ~Notifying() { inode.attributes.kernel_changes(freshness.count()); }
  Notifying(const Notifying&) = delete;
  Notifying& operator=(const Notifying&) = delete;
  Freshness& freshness;
  Inode& inode;
};
}  // namespace

// ---- dropping pages ----

/// Drops the kernel's pages of the range (`length` 0: up to the end). The kernel writes dirty ones back first.
async::Task<void> KernelCache::drop_pages(Inode& inode, std::uint64_t offset, std::uint64_t length) {
  const auto dropping = inode.pages.dropping(offset, length);
  const Notifying notifying(freshness_, inode);
  co_await drop_pages_(inode.id, offset, length);
}

/// Makes the kernel drop its cached attributes and pages of a file that lost data.
void KernelCache::forget_pages(Inode& inode) {
  freshness_.doubt(inode);
  if (auto held = drop_pages_ ? inodes_.find(inode.id) : nullptr)
    background_.spawn(drop_lost_pages(std::move(held)));
}

async::Task<void> KernelCache::drop_lost_pages(std::shared_ptr<Inode> inode) {
  co_await drop_pages(*inode);
}

// ---- before operations that have to see what programs have stored ----

bool KernelCache::may_have_stores(const Inode& inode) const {
  const auto stores = [](OpenHandle* handle) { return handle->file()->access() == Access::both; };
  return drop_pages_ && inode.pages.may_hold_stores() && std::ranges::any_of(inode.open, stores);
}

async::Task<void> KernelCache::fetch_pages(Inode& inode) {
  if (!drop_pages_) co_return;
  // A task that comes during another task's drop has to see the fetched data, too.
  while (inode.pages.is_dropping()) (void)co_await inode.settled.wait_until(async::TimePoint::max());
  const auto writes = [](OpenHandle* handle) { return handle->file()->access() != Access::read; };
  if (options_.kernel_gathers || (inode.pages.any() && std::ranges::any_of(inode.open, writes)))
    co_await drop_pages(inode);
}

async::Task<void> KernelCache::send_out(Inode& inode) {
  if (may_have_stores(inode)) co_await fetch_pages(inode);
  co_await writes_.settle(inode);
}

// ---- the size that the kernel knows ----

namespace {
bool reads(const OpenHandle* handle) {
  return handle->file()->access() != Access::write;
}
}  // namespace

/// Returns whether a program may have the file mapped. The kernel does not report mappings; one needs a file
/// that is open for reading.
bool KernelCache::may_be_mapped(const Inode& inode) const {
  return lengthen_ && std::ranges::any_of(inode.open, reads);
}

async::Task<void> KernelCache::tell_length(Inode& inode, std::uint64_t end) {
  if (end <= inode.pages.known_size()) co_return;
  if (!may_be_mapped(inode)) co_return inode.pages.lag();
  const auto lengthening = inode.pages.lengthening(end);
  const Notifying notifying(freshness_, inode);
  co_await lengthen_(inode.id, end);
}

/// Called after an append that the kernel caches no pages of, and that went elsewhere than the kernel
/// believes, so that the file is longer than the kernel knows. The page at the old end is dropped first: it
/// would show zeros behind that end, and would be written back with them.
async::Task<void> KernelCache::tell_appended(Inode& inode, std::uint64_t end) {
  if (end <= inode.pages.known_size()) co_return;
  if (may_be_mapped(inode) && inode.pages.any() && drop_pages_) co_await drop_pages(inode);
  co_await tell_length(inode, end);
}

async::Task<void> KernelCache::tell_size(std::shared_ptr<OpenHandle> file, std::uint64_t size) {
  Inode& inode = file->inode();
  if (!may_be_mapped(inode)) co_return;
  while (inode.pages.is_changing()) (void)co_await inode.settled.wait_until(async::TimePoint::max());
  // The answer of a write that is still unanswered will tell the kernel its end. An answered one has done so
  // only if the file could be mapped then.
  if (size <= std::max(inode.pages.known_size(), inode.writes.furthest_unanswered())) co_return;
  co_await writes_.settle_range(inode, size - 1, size);
  const auto reader = std::ranges::find_if(inode.open, reads);
  if (reader == inode.open.end()) co_return;
  const ServerFileRef from = (*reader)->file();
  if (inode.pages.any() && drop_pages_) co_await drop_pages(inode);
  // The READ shows whether another client has cut the file since the size was learned. After an Error the size counts:
  // a program that reads there gets that Error, while copy_file_range(2) would copy too little without one if the
  // kernel knew less.
  const async::Memory memory = loop_.memory().take(1);
  ++counters_.server_reads;
  const auto got = co_await from->read({memory.data.get(), 1}, size - 1);
  if (got && *got == 0) co_return;
  if (got) ++counters_.server_bytes_read;
  co_await tell_length(inode, size);
}

void KernelCache::will_be_emptied(const std::shared_ptr<OpenHandle>& file, std::uint64_t size) {
  Inode& inode = file->inode();
  inode.attributes.tell_no_state();
  inode.pages.may_end_at(0);
  if (size == 0) return;
  inode.pages.lag();
  background_.spawn(tell_size_after_open(file, size));
}

/// The kernel must take the answer to the open before it gets the notification. Nothing tells the mount when the kernel has
/// done so. The answer is written before the next turn, and the READ in tell_size() gives the kernel some time to take it.
async::Task<void> KernelCache::tell_size_after_open(std::shared_ptr<OpenHandle> file, std::uint64_t size) {
  co_await loop_.sleep_for({});
  co_await tell_size(std::move(file), size);
}

async::Task<void> KernelCache::see_as_locked(std::shared_ptr<OpenHandle> file) {
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
  if (drop_pages_) co_await drop_pages(inode);
  if (size) co_await tell_size(std::move(file), *size);
}

// ---- after writes ----

namespace {
struct Correction {
  explicit Correction(async::Loop& loop) : changed(loop) {}
  bool drops = false;
  bool done = false;
  async::Event changed;
};

async::Task<void> run_correction(std::shared_ptr<Correction> correction, std::shared_ptr<OpenHandle> /*file*/,
                                 async::Task<void> lengthening, async::Task<void> dropping) {
  co_await std::move(lengthening);
  correction->drops = true;
  correction->changed.notify_all();
  co_await std::move(dropping);
  correction->done = true;
  correction->changed.notify_all();
}
}  // namespace

/// Corrects what the kernel has cached of an append that it put in the wrong place: it is notified of the new
/// size, and drops its pages. The kernel waits for the answer to this write. If the last page of the write
/// was not cached whole, the kernel keeps that page locked until then, and neither notification can end
/// before. So their ends are awaited here only for kDropFor each, for the sake of mappings; programs that call
/// read(2) wait in attributes(). As soon as the drop begins, the kernel ignores answers to GETATTRs that it had
/// sent before. If the file is shorter than the kernel believes, only the answer to its next GETATTR corrects
/// that.
async::Task<void> KernelCache::correct_pages(std::shared_ptr<OpenHandle> file, std::uint64_t end) {
  const auto correction = std::make_shared<Correction>(loop_);
  Inode& inode = file->inode();
  auto lengthening = tell_length(inode, end);
  auto dropping = drop_pages(inode);
  loop_.spawn(run_correction(correction, std::move(file), std::move(lengthening), std::move(dropping)));
  const auto until = [&](bool& happened) {
    return async::until(correction->changed, loop_.now() + kDropFor, [&happened] { return happened; });
  };
  const bool drops = co_await until(correction->drops);
  if (drops) (void)co_await until(correction->done);
}

async::Task<void> KernelCache::drop_stale_pages(std::shared_ptr<OpenHandle> file, WriteRequest how,
                                                std::uint64_t offset, std::size_t size) {
  Inode& inode = file->inode();
  if (!drop_pages_) co_return;
  inode.attributes.kernel_changes(freshness_.count());
  if (!how.written_back) inode.pages.reaches(how.kernels_offset + size);
  if (how.written_back) {
    // The kernel drops a page that it writes back only after the write is answered, so waiting for a drop
    // here would never end. The kernel uses any open file for such a write, also one that bypasses its pages.
    inode.pages.put(how.kernels_offset + size);
  } else if (file->uncached) {
    // For a write that bypasses the kernel's pages the kernel has neither cached nor dropped any. The pages
    // in front of the write stay cached, with what was stored in them.
    if (inode.pages.any_from(offset)) co_await drop_pages(inode, offset);
    if (offset != how.kernels_offset) co_await tell_appended(inode, offset + size);
  } else if (file->direct) {
    // Pages that were read meanwhile may be older than the write.
    const bool read = how.paging || inode.pages.reads() != how.page_reads;
    if (read) co_await drop_pages(inode, offset, size);
    if (offset != how.kernels_offset) co_await tell_appended(inode, offset + size);
  } else {
    inode.pages.put(how.kernels_offset + size);
    if (offset != how.kernels_offset) co_await correct_pages(std::move(file), offset + size);
  }
}

async::Task<void> KernelCache::bypassed(Inode& inode, std::uint64_t end) {
  while (inode.pages.is_dropping()) (void)co_await inode.settled.wait_until(async::TimePoint::max());
  if (inode.pages.any() && drop_pages_) co_await drop_pages(inode);
  co_await tell_length(inode, end);
  freshness_.doubt(inode);
}

}  // namespace nfsrdma::fs
