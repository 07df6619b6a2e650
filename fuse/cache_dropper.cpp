#include "fuse/cache_dropper.h"

#include <sys/epoll.h>

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
  return ask({inode, offset, length, std::nullopt, {}});
}

async::Task<void> CacheDropper::lengthen(fuse_ino_t inode, off_t end, std::byte last) {
  return ask({inode, end - 1, 1, last, {}});
}

async::Task<void> CacheDropper::drop_name(fuse_ino_t directory, std::string name) {
  return ask({directory, 0, 0, std::nullopt, std::move(name)});
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
  if (!range.last) {
    fuse_lowlevel_notify_inval_inode(session_, range.inode, range.offset, range.length);
    return;
  }
  std::byte last = *range.last;
  fuse_bufvec data = FUSE_BUFVEC_INIT(1);
  data.buf[0].mem = &last;
  fuse_lowlevel_notify_store(session_, range.inode, range.offset, &data, FUSE_BUF_NO_SPLICE);
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
