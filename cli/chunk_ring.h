// The buffers of a transfer, and the thread that works on its local side.
//
// A transfer is a sequence of chunks, numbered from 0, that pass two stages: the network and the local file,
// in this order for a download and in the opposite order for an upload. Chunk n has place n % count in the
// ring, which may be used again when the last stage has finished with the chunk. The chunk's buffer is
// page-aligned, and stays taken while any code holds it. In an upload the library holds it, too, until the
// server has the bytes on its disk.
//
// The local stage takes chunks strictly in order, in a thread of its own, so that a slow disk or pipe does
// not stall the network. The main thread owns a chunk unless the local stage has been allowed to work on it
// and has not passed it yet: the chunks from passed() to the limit of allow() belong to the thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cli/event.h"
#include "nfsrdma/result.h"

namespace nfsrdma::cli {

struct Chunk {
  std::span<std::byte> memory;
  std::shared_ptr<const void> keeper;  ///< holds `memory`
  std::uint64_t offset = 0;            ///< in the file
  std::size_t wanted = 0;  ///< of a download: bytes asked for; of an upload: bytes that the server has taken
  /// Bytes that are valid; 0 after the local stage of an upload is the end of the file.
  std::size_t length = 0;
  bool ready = false;   ///< the network stage has finished with it
  bool gained = false;  ///< its last answer had bytes
  bool punch = false;   ///< blocks of zeros are to become holes
};

class Ring {
 public:
  /// `buffers` must be at least `places`. Memory is touched as it is used: a small file costs one buffer.
  static Result<Ring> create(std::size_t places, std::size_t buffers, std::size_t chunk_size);

  /// Gives the chunk a buffer in place of the one that it had. Returns false if all buffers are held.
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

/// Set by LocalStage when it stops: a blocking local call must end then.
using StopFlag = std::atomic<bool>;

/// The local end of a transfer: fills or empties chunks, in order.
class LocalEnd {
 public:
  virtual ~LocalEnd() = default;
  /// Returns 0 or an errno. A call that is interrupted (EINTR) goes on unless `stop` is set.
  virtual int run(Chunk& chunk, const StopFlag& stop) = 0;
  /// Returns true if run() never blocks (/dev/null), so that a thread is not worth its cost.
  [[nodiscard]] virtual bool immediate() const { return false; }
};

class LocalStage {
 public:
  LocalStage(Ring& ring, LocalEnd& end);
  ~LocalStage();
  LocalStage(const LocalStage&) = delete;
  LocalStage& operator=(const LocalStage&) = delete;

  /// Lets the local stage work on all chunks below `limit`.
  void allow(std::uint64_t limit);
  /// Returns the number of chunks that the local stage has finished.
  [[nodiscard]] std::uint64_t passed() const { return passed_.load(std::memory_order_acquire); }
  /// Returns the errno that ended the local stage at chunk passed(), or 0.
  [[nodiscard]] int error() const { return error_.load(std::memory_order_acquire); }
  /// Becomes readable after progress. Call clear_event() before passed().
  [[nodiscard]] int event_fd() const { return event_ ? event_->fd() : -1; }
  void clear_event();

 private:
  void thread_main();
  void run_one();

  Ring& ring_;
  LocalEnd& end_;
  std::optional<Event> event_;  // not for an end that is immediate()
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
