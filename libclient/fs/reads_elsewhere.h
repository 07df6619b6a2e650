// READs of a mounted file by other threads, so that the mount's loop is not busy with their bytes (fuse/mount_shards.h).
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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

  /// Called when a READ of so many bytes begins and ends, here or elsewhere: start() refuses if few are under way.
  virtual void begins(std::size_t bytes) = 0;
  virtual void ends(std::size_t bytes) = 0;

 protected:
  /// Gives a READ that was started back to its owner. No `count`: it is made again by `file`.
  static void give_back(engine::FastRead& read, engine::ServerFile& file, std::optional<std::size_t> count) {
    read.end();
    if (count)
      read.ended(*count);
    else
      read.goes_on(file.read(read.data, read.offset));
  }
};

/// A READ, for FastReadWait, which is made elsewhere if possible. It is under way while the object lives.
class FileElsewhere {
 public:
  /// `elsewhere` may be null. `memory` holds the `bytes` that are read. `ahead`: as ReadsElsewhere::start() has it.
  FileElsewhere(ReadsElsewhere* elsewhere, const engine::ServerFileRef& file, const async::Memory& memory,
                std::size_t bytes, bool ahead = false)
      : elsewhere_(elsewhere), file_(file), memory_(memory), bytes_(bytes), ahead_(ahead) {
    if (elsewhere_ != nullptr) elsewhere_->begins(bytes_);
  }
  ~FileElsewhere() {
    if (elsewhere_ != nullptr) elsewhere_->ends(bytes_);
  }
  FileElsewhere(const FileElsewhere&) = delete;
  FileElsewhere& operator=(const FileElsewhere&) = delete;

  bool start(engine::FastRead& read) const {
    return (elsewhere_ != nullptr && elsewhere_->start(file_, memory_, read, ahead_)) || file_->start(read);
  }
  [[nodiscard]] async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset) const {
    return file_->read(data, offset);
  }

 private:
  ReadsElsewhere* const elsewhere_;
  const engine::ServerFileRef& file_;
  const async::Memory& memory_;
  const std::size_t bytes_;
  const bool ahead_;
};

}  // namespace nfsrdma::fs
