#include "fuse/cache_dropper.h"

#include <sys/epoll.h>

#include <system_error>

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
  return ask({inode, offset, length, std::nullopt});
}

async::Task<void> CacheDropper::lengthen(fuse_ino_t inode, off_t end, std::byte last) {
  return ask({inode, end - 1, 1, last});
}

async::Task<void> CacheDropper::ask(Range range) {
  const std::uint64_t mine = ++asked_;
  {
    const std::lock_guard guard(mutex_);
    ranges_.push_back(range);
  }
  more_.notify_one();
  while (!start()) co_await loop_.sleep_for(kTryAgain);
  while (done_ < mine) co_await ended_.wait_until(async::TimePoint::max());
}

/// False: there is no thread left in this process or for this user.
bool CacheDropper::start() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

/// ENOENT: the kernel has nothing of it.
void CacheDropper::do_one(const Range& range) {
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
    more_.wait(guard, [this] { return ending_ || !ranges_.empty(); });
    if (ending_) return;
    const Range range = ranges_.front();
    ranges_.pop_front();
    guard.unlock();
    do_one(range);
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
