// Has the kernel drop the pages that it has cached of a file, or learn that the file is longer.
//
// Not from the loop's thread: the kernel waits then for pages that are being read or written, and writes out those that
// are dirty, which is for the loop to answer. So threads do it, as many as there is to do at once, up to a limit: one that
// waits for the pages of a write holds up nothing else, least of all the dropping that the answer to another write waits for.
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
#include <set>
#include <thread>
#include <vector>

#include "async/event.h"
#include "async/until.h"
#include "async/wakeup.h"

namespace nfsrdma::fuse {

class CacheDropper {
 public:
  CacheDropper(async::Loop& loop, fuse_session* session);
  /// Waits for what is under way, and drops what is not.
  ~CacheDropper();
  CacheDropper(const CacheDropper&) = delete;
  CacheDropper& operator=(const CacheDropper&) = delete;

  /// Ends when the attributes of the inode are gone, and its pages from `offset` on (`length` 0: to the end).
  async::Task<void> drop(fuse_ino_t inode, off_t offset, off_t length);
  /// Ends when the kernel knows that the file reaches to `end` at least, where `last` is its last byte: whoever has
  /// it mapped can go there, without anybody having asked for attributes.
  async::Task<void> lengthen(fuse_ino_t inode, off_t end, std::byte last);
  /// Ends when all that was asked for so far has begun: before it waits for a page, the kernel has marked the attributes
  /// that it has as outdated. False: not by the deadline.
  async::Task<bool> begun(async::TimePoint deadline);
  [[nodiscard]] bool idle() const { return asked_.empty(); }

 private:
  static constexpr auto kTryAgain = std::chrono::milliseconds(100);
  static constexpr std::size_t kMostThreads = 16;
  struct Range {
    fuse_ino_t inode;
    off_t offset, length;
    std::optional<std::byte> last;  ///< it ends there: not to be dropped
    std::uint64_t id = 0;           ///< counts up; ask() gives it
  };
  async::Task<void> ask(Range range);
  bool start_thread();
  void do_one(const Range& range);
  void work();
  void take_done();

  async::Loop& loop_;
  fuse_session* const session_;
  async::Wakeup wakeup_;
  async::Event changed_;
  std::uint64_t last_id_ = 0;
  std::set<std::uint64_t> asked_;  // and not done
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // of all that follows
  std::condition_variable more_;
  std::deque<Range> ranges_;         // not begun, in the order of their ids
  std::vector<std::uint64_t> done_;  // since the loop looked
  std::uint64_t last_begun_ = 0;
  bool begin_is_awaited_ = false;
  std::size_t idle_threads_ = 0;
  bool ending_ = false;
};

}  // namespace nfsrdma::fuse
