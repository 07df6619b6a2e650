#include "fuse/cache_dropper.h"

#include <sys/epoll.h>

namespace nfsrdma::fuse {

CacheDropper::CacheDropper(async::Loop& loop, fuse_session* session)
    : loop_(loop), session_(session), ended_(loop) {
  loop_.watch(wakeup_.descriptor(), EPOLLIN, [this](std::uint32_t) { take_done(); });
}

CacheDropper::~CacheDropper() {
  loop_.unwatch(wakeup_.descriptor());
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  more_.notify_one();
  thread_.join();
}

async::Task<void> CacheDropper::drop(fuse_ino_t inode, off_t offset, off_t length) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  {
    const std::lock_guard guard(mutex_);
    ranges_.push_back({inode, offset, length});
  }
  more_.notify_one();
  const std::uint64_t mine = ++asked_;
  while (done_ < mine) co_await ended_.wait_until(async::TimePoint::max());
}

void CacheDropper::work() {
  std::unique_lock guard(mutex_);
  for (;;) {
    more_.wait(guard, [this] { return ending_ || !ranges_.empty(); });
    if (ending_) return;
    const Range range = ranges_.front();
    ranges_.pop_front();
    guard.unlock();
    // ENOENT: the kernel has nothing of it.
    fuse_lowlevel_notify_inval_inode(session_, range.inode, range.offset, range.length);
    guard.lock();
    ++dropped_;
    wakeup_.set();
  }
}

void CacheDropper::take_done() {
  wakeup_.clear();
  {
    const std::lock_guard guard(mutex_);
    done_ = dropped_;
  }
  ended_.notify_all();
}

}  // namespace nfsrdma::fuse
