// A lock for data that many threads read and few change: a reader-writer lock whose readers do not wait for one another
// and write to no memory that another reader uses (Linux called this a big-reader lock).
//
// Each thread has a mutex of its own. A reader takes the mutex of its thread; a writer takes all of them, in the order of
// the threads' numbers, so two writers cannot block each other. With one thread there is no mutex, and every Access may
// write.
//
//     Access access(lock, thread);     // reads
//     …
//     access.exclude_others();         // writes, until `access` is destroyed
//
// Another writer may change the data before exclude_others() returns, so a caller that found something before looks it up
// again. std::shared_mutex would not serve, because all its readers change one counter.
//
// Thread-safety: a thread uses its own number only, and has at most one Access of a lock at a time.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace nfsrdma::bench {

class BigReaderLock {
 public:
  explicit BigReaderLock(unsigned threads) : threads_(threads), mutexes_(threads > 1 ? threads : 0) {}
  [[nodiscard]] unsigned threads() const { return threads_; }

 private:
  friend class Access;
  static constexpr std::size_t kCacheLines = 128;  // two, because processors fetch them in pairs
  struct alignas(kCacheLines) Own {
    std::mutex mutex;
  };
  const unsigned threads_;
  std::vector<Own> mutexes_;  // by thread; empty with one thread
};

class Access {
 public:
  Access(BigReaderLock& lock, unsigned thread)
      : lock_(lock), thread_(thread), excludes_(lock.threads() == 1) {
    if (!excludes_) lock_.mutexes_[thread_].mutex.lock();
  }
  ~Access() {
    if (lock_.threads() > 1) release();
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  [[nodiscard]] unsigned thread() const { return thread_; }
  [[nodiscard]] bool excludes_others() const { return excludes_; }
  /// Waits until no other thread has an Access, and makes others wait from now on. Does nothing if that is so already.
  void exclude_others() {
    if (excludes_) return;
    lock_.mutexes_[thread_].mutex.unlock();
    for (BigReaderLock::Own& one : lock_.mutexes_) one.mutex.lock();
    excludes_ = true;
  }

 private:
  void release() {
    if (!excludes_) return lock_.mutexes_[thread_].mutex.unlock();
    for (BigReaderLock::Own& one : lock_.mutexes_) one.mutex.unlock();
  }

  BigReaderLock& lock_;
  const unsigned thread_;
  bool excludes_;
};

}  // namespace nfsrdma::bench
