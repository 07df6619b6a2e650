#include "fuse/cache_dropper.h"

#include <linux/fuse.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <array>
#include <system_error>
#include <utility>

namespace nfsrdma::fuse {

CacheDropper::CacheDropper(async::Loop& loop, fuse_session* session, std::size_t most_threads)
    : loop_(loop), session_(session), most_threads_(most_threads), changed_(loop) {
  loop_.watch(wakeup_.descriptor(), EPOLLIN, [this](std::uint32_t) { take_done(); });
}

CacheDropper::~CacheDropper() {
  loop_.unwatch(wakeup_.descriptor());
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

async::Task<void> CacheDropper::drop(fuse_ino_t inode, off_t offset, off_t length) {
  // A negative offset stands for no pages, and the kernel does not wait then.
  fuse_lowlevel_notify_inval_inode(session_, inode, -1, 0);
  return ask({inode, offset, length, false, {}});
}

async::Task<void> CacheDropper::lengthen(fuse_ino_t inode, off_t end) {
  return ask({inode, end - 1, 1, true, {}});
}

async::Task<void> CacheDropper::drop_name(fuse_ino_t directory, std::string name) {
  return ask({directory, 0, 0, false, std::move(name)});
}

async::Task<void> CacheDropper::ask(Range range) {
  range.id = ++last_id_;
  asked_.insert(range.id);
  bool wants_thread = false;
  {
    const std::lock_guard guard(mutex_);
    ranges_.push_back(range);
    wants_thread = ranges_.size() > idle_threads_ && threads_.size() < most_threads_;
  }
  // If no other thread can be started, an existing one takes the range when it is free.
  if (!wants_thread || !start_thread()) more_.notify_one();
  while (threads_.empty() && !start_thread()) co_await loop_.sleep_for(kTryAgain);
  (void)co_await async::until(changed_, async::TimePoint::max(), [&] { return !asked_.contains(range.id); });
}

/// Returns false if the system allows this process or this user no more threads.
bool CacheDropper::start_thread() {
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

/// Ignores errors: ENOENT, for one, says that the kernel has cached nothing of the inode.
void CacheDropper::do_one(const Range& range) {
  if (!range.name.empty()) {
    fuse_lowlevel_notify_inval_entry(session_, range.inode, range.name.data(), range.name.size());
    return;
  }
  if (range.lengthens) {
    notify_end(range.inode, range.offset + range.length);
    return;
  }
  fuse_lowlevel_notify_inval_inode(session_, range.inode, range.offset, range.length);
}

namespace {
/// Returns the address of memory that cannot be read.
void* unreadable() {
  static void* const page = ::mmap(nullptr, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? nullptr : page;
}
}  // namespace

/// FUSE has no notification of a size, but FUSE_NOTIFY_STORE raises i_size to the end of the bytes that it stores.
/// Linux (fuse_notify_store()) raises i_size first, then locks the page and copies the bytes into it.
/// The one byte that is sent here cannot be read. So the copy fails with EFAULT: the kernel has the new end, and the
/// page stays as it is.
///
/// A readable byte could be older than the page. The kernel puts what a program writes into the page before the mount
/// hears of the write, and what a program stores in a mapping reaches the mount much later. An older byte in such a
/// page would hide what the program wrote, and the next store in the page would send it to the server. Linux also
/// takes a page for complete if the byte is its first one and the last one of the file, although the file may have
/// grown while the kernel waited for the page.
///
/// fuse_lowlevel_notify_store() would log the error.
void CacheDropper::notify_end(fuse_ino_t inode, off_t end) {
  fuse_notify_store_out stored{};
  stored.nodeid = inode;
  stored.offset = static_cast<std::uint64_t>(end) - 1;
  stored.size = 1;
  fuse_out_header header{};
  header.error = FUSE_NOTIFY_STORE;
  header.len = sizeof header + sizeof stored + stored.size;
  const std::array<iovec, 3> pieces{
      {{&header, sizeof header}, {&stored, sizeof stored}, {unreadable(), stored.size}}};
  [[maybe_unused]] const ssize_t written =
      ::writev(fuse_session_fd(session_), pieces.data(), static_cast<int>(pieces.size()));
}

void CacheDropper::work() {
  std::unique_lock guard(mutex_);
  for (;;) {
    ++idle_threads_;
    more_.wait(guard, [this] { return ending_ || !ranges_.empty(); });
    --idle_threads_;
    if (ending_) return;
    const Range range = ranges_.front();
    ranges_.pop_front();
    guard.unlock();
    do_one(range);
    guard.lock();
    done_.push_back(range.id);
    wakeup_.set();
  }
}

void CacheDropper::take_done() {
  wakeup_.clear();
  {
    const std::lock_guard guard(mutex_);
    for (const std::uint64_t id : done_) asked_.erase(id);
    done_.clear();
  }
  changed_.notify_all();
}

}  // namespace nfsrdma::fuse
