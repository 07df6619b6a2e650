// The buffers of a transfer, and the thread that works on its local side.
//
// A transfer is a sequence of chunks, numbered from 0, that pass two stages: the network and the local file,
// in this order for a download and in the other for an upload. Chunk n has place n % count in the ring, which
// may be used again once the last stage is through with it. Its buffer is page-aligned, and taken for as long
// as anybody holds on to it: of an upload that is the library, too, until the server has the bytes on its disk.
//
// The local stage takes chunks strictly in order, in a thread of its own, so that a slow disk or pipe does
// not stall the network. The main thread owns a chunk unless the local stage has been allowed to work on it
// and has not passed it yet: allowed() - passed() chunks belong to the thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "nfsrdma/result.h"

namespace nfsrdma::cli {

struct Chunk {
  std::span<std::byte> memory;
  std::shared_ptr<const void> keeper;  ///< holds `memory`
  std::uint64_t offset = 0;            ///< in the file
  std::size_t wanted = 0;  ///< of a download: bytes asked for; of an upload: bytes that the server has taken
  std::size_t length =
      0;                ///< bytes that are valid; 0 after the local stage of an upload is the end of the file
  bool ready = false;   ///< the network stage is through with it
  bool gained = false;  ///< its last answer brought bytes
  bool punch = false;   ///< blocks of zeros are to become holes
};

class Ring {
 public:
  /// `buffers` are at least as many as places. Memory is touched as it is used: a small file costs one buffer.
  static Result<Ring> create(std::size_t places, std::size_t buffers, std::size_t chunk_size);

  /// Gives the chunk a buffer in place of the one that it had. False if all are held.
  [[nodiscard]] bool provide(std::uint64_t number);

  [[nodiscard]] std::size_t count() const { return chunks_.size(); }
  [[nodiscard]] std::size_t chunk_size() const { return chunk_size_; }
  Chunk& operator[](std::uint64_t number) { return chunks_[number % chunks_.size()]; }

 private:
  class Buffers;
  Ring() = default;
  std::shared_ptr<Buffers> buffers_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_size_ = 0;
};

/// Whether a blocking local call shall end: set by LocalStage when it stops.
using StopFlag = std::atomic<bool>;

/// The local end of a transfer: fills or empties chunks, in order.
class LocalEnd {
 public:
  virtual ~LocalEnd() = default;
  /// Gives 0 or an errno. A call that is interrupted (EINTR) goes on unless `stop` is set.
  virtual int run(Chunk& chunk, const StopFlag& stop) = 0;
  /// Never blocks (/dev/null): not worth a thread.
  [[nodiscard]] virtual bool immediate() const { return false; }
};

class LocalStage {
 public:
  LocalStage(Ring& ring, LocalEnd& end);
  ~LocalStage();
  LocalStage(const LocalStage&) = delete;
  LocalStage& operator=(const LocalStage&) = delete;

  /// Lets it work on all chunks below `limit`.
  void allow(std::uint64_t limit);
  /// How many chunks it is through with.
  [[nodiscard]] std::uint64_t passed() const { return passed_.load(std::memory_order_acquire); }
  /// The errno that ended it, 0 for none; meaningful up to passed().
  [[nodiscard]] int error() const { return error_.load(std::memory_order_acquire); }
  /// Readable after progress; clear_event() before looking at passed().
  [[nodiscard]] int event_fd() const { return event_; }
  void clear_event();

 private:
  void thread_main();
  void run_one();

  Ring& ring_;
  LocalEnd& end_;
  int event_ = -1;
  std::atomic<std::uint64_t> passed_ = 0;
  std::atomic<int> error_ = 0;
  StopFlag stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t allowed_ = 0;  // guarded by mutex_, unless there is no thread
  bool ended_ = true;          // guarded by mutex_
  std::thread thread_;
};

}  // namespace nfsrdma::cli
