// Has the kernel drop the pages that it has cached of a file, or learn that the file is longer.
//
// Not from the loop's thread: the kernel waits then for pages that are being read, and writes out those that
// are dirty, which is for the loop to answer. So a thread of its own does it.
//
// All functions belong to the loop's thread. Once the mount is not served any more, nobody may be waiting.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "async/event.h"
#include "async/wakeup.h"

namespace nfsrdma::fuse {

class CacheDropper {
 public:
  CacheDropper(async::Loop& loop, fuse_session* session);
  /// Waits for what is under way.
  ~CacheDropper();
  CacheDropper(const CacheDropper&) = delete;
  CacheDropper& operator=(const CacheDropper&) = delete;

  /// Ends when the attributes of the inode are gone, and its pages from `offset` on (`length` 0: to the end).
  async::Task<void> drop(fuse_ino_t inode, off_t offset, off_t length);
  /// Ends when the kernel knows that the file reaches to `end` at least, where `last` is its last byte: whoever has
  /// it mapped can go there, without anybody having asked for attributes.
  async::Task<void> lengthen(fuse_ino_t inode, off_t end, std::byte last);
  [[nodiscard]] bool idle() const { return asked_ == done_; }

 private:
  static constexpr auto kTryAgain = std::chrono::milliseconds(100);
  struct Range {
    fuse_ino_t inode;
    off_t offset, length;
    std::optional<std::byte> last;  ///< it ends there: not to be dropped
  };
  async::Task<void> ask(Range range);
  bool start();
  void do_one(const Range& range);
  void work();
  void take_done();

  async::Loop& loop_;
  fuse_session* const session_;
  async::Wakeup wakeup_;
  async::Event ended_;
  std::uint64_t asked_ = 0, done_ = 0;  // the loop's: they are done in turn
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Range> ranges_;   // guarded by mutex_
  std::uint64_t dropped_ = 0;  // guarded by mutex_
  bool ending_ = false;        // guarded by mutex_
  std::thread thread_;         // from the first drop() on
};

}  // namespace nfsrdma::fuse
