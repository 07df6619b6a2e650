// READs of a mounted file by other threads, so that the mount's loop is not busy with their bytes (fuse/read_shards.h).
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>

#include "async/memory.h"
#include "engine/engine.h"
#include "engine/fast_read.h"

namespace nfsrdma::fs {

class ReadsElsewhere {
 public:
  ReadsElsewhere() = default;
  virtual ~ReadsElsewhere() = default;
  ReadsElsewhere(const ReadsElsewhere&) = delete;
  ReadsElsewhere& operator=(const ReadsElsewhere&) = delete;

  /// Starts the READ. Returns false if it is to be made here, by ServerFile::start() or read(). `memory` holds
  /// FastRead::data. After FastRead::drop(), in difference to ServerFile::start(), bytes may still come into it.
  /// `ahead`: as a rule no program waits for the READ, because the kernel, or this client, reads ahead.
  virtual bool start(const engine::ServerFileRef& file, const async::Memory& memory, engine::FastRead& read,
                     bool ahead) = 0;

  /// Counts a READ that is under way, here or elsewhere: start() refuses if there are few.
  class Counted {
   public:
    /// `all` may be null.
    Counted(ReadsElsewhere* all, std::size_t bytes) : all_(all), bytes_(bytes) {
      if (all_ != nullptr) all_->begins(bytes_);
    }
    ~Counted() {
      if (all_ != nullptr) all_->ends(bytes_);
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    ReadsElsewhere* const all_;
    const std::size_t bytes_;
  };

 protected:
  virtual void begins(std::size_t bytes) = 0;
  virtual void ends(std::size_t bytes) = 0;
};

/// A file whose READs are made elsewhere if possible, for FastReadWait.
struct FileElsewhere {
  ReadsElsewhere* elsewhere;  ///< may be null
  const engine::ServerFileRef& file;
  const async::Memory& memory;  ///< holds the data of all READs
  const bool ahead = false;     ///< see ReadsElsewhere::start()
  bool start(engine::FastRead& read) const {
    return (elsewhere != nullptr && elsewhere->start(file, memory, read, ahead)) || file->start(read);
  }
  [[nodiscard]] async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset) const {
    return file->read(data, offset);
  }
};

}  // namespace nfsrdma::fs
