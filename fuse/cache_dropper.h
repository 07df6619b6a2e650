// Makes the kernel drop the pages that it has cached of a file, or a name, or learn that a file has become longer.
//
// These notifications are not sent on the loop's thread. While it handles one, the kernel waits for pages
// that are being read or written, and writes dirty pages out. The loop has to answer those very requests. So
// other threads send the notifications: as many threads as there are notifications at once, up to
// kMostThreads. A thread that waits for the pages of a write delays no other notification, least of all the
// drop that the answer to another write waits for.
//
// While it drops a name, the kernel waits for the lock of the name's directory. A program may hold that lock until a request
// of its own is answered, and that answer may wait for pages. So the mount has two CacheDroppers: names have one of their
// own, which needs one thread only, since no answer waits for it.
//
// All functions belong to the loop's thread. Once the mount is no longer served, no task may wait here any
// more.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "async/event.h"
#include "async/until.h"
#include "async/wakeup.h"

namespace nfsrdma::fuse {

class CacheDropper {
 public:
  static constexpr std::size_t kMostThreads = 16;
  CacheDropper(async::Loop& loop, fuse_session* session, std::size_t most_threads = kMostThreads);
  /// Waits for the notifications that a thread has begun, and discards the others.
  ~CacheDropper();
  CacheDropper(const CacheDropper&) = delete;
  CacheDropper& operator=(const CacheDropper&) = delete;

  /// Ends when the kernel has discarded the inode's attributes, and its pages from `offset` on (`length` 0:
  /// to the end). The attributes are gone as soon as this is called, also while the kernel waits for a page.
  async::Task<void> drop(fuse_ino_t inode, off_t offset, off_t length);
  /// Ends when the kernel knows that the file reaches at least to `end`, which is not 0. A program that has the
  /// file mapped can then access the file up to there, although no attributes were asked for. No page that the
  /// kernel has cached changes.
  async::Task<void> lengthen(fuse_ino_t inode, off_t end);
  /// Ends when the kernel has dropped its entry for the name in the directory.
  async::Task<void> drop_name(fuse_ino_t directory, std::string name);
  [[nodiscard]] bool idle() const { return asked_.empty(); }

 private:
  static constexpr auto kTryAgain = std::chrono::milliseconds(100);
  struct Range {
    fuse_ino_t inode;
    off_t offset, length;
    bool lengthens = false;  ///< the file reaches to the end of the range, and nothing is to be dropped
    std::string name;        ///< not empty: this name in the directory `inode` is to be dropped, and no range
    std::uint64_t id = 0;    ///< given by ask(), in ascending order
  };
  async::Task<void> ask(Range range);
  bool start_thread();
  void do_one(const Range& range);
  void notify_end(fuse_ino_t inode, off_t end);
  void work();
  void take_done();

  async::Loop& loop_;
  fuse_session* const session_;
  const std::size_t most_threads_;
  async::Wakeup wakeup_;
  async::Event changed_;
  std::uint64_t last_id_ = 0;
  std::set<std::uint64_t> asked_;  // ids of the ranges that are not done yet
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // guards all members below
  std::condition_variable more_;
  std::deque<Range> ranges_;         // ranges not begun, in the order of their ids
  std::vector<std::uint64_t> done_;  // ids of ranges that are done, which the loop has not seen yet
  std::size_t idle_threads_ = 0;
  bool ending_ = false;
};

}  // namespace nfsrdma::fuse
