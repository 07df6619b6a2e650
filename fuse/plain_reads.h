// Answers those READs of the kernel that take exactly one READ of the server, without a coroutine and from
// memory that is kept for the next one. Any other READ takes the ordinary path;
// FileSystem::begin_plain_read() or the engine decides which.
//
// If the mount has shards (mount_shards.h), and enough else is under way there, a READ is handed over to the thread
// of a shard:
//
//     this loop   begins the READ        judges what was read          ends it
//     the shard            makes the READ          answers the kernel
//
// A program that reads one piece after the other is served by this loop alone. The copy into the kernel and the wake-up of
// the program are most of the costs of an answer, therefore the shard gives it.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "async/loop.h"
#include "async/reused.h"
#include "fs/file_system.h"

namespace nfsrdma::fuse {

class MountShards;
class Request;

class PlainReads {
 public:
  /// `loop` and `files` must outlive this object, and so must the session of the requests that are not
  /// answered yet. `shards`: null if the mount has none.
  PlainReads(async::Loop& loop, fs::FileSystem& files, MountShards* shards);
  ~PlainReads();
  PlainReads(const PlainReads&) = delete;
  PlainReads& operator=(const PlainReads&) = delete;

  /// Returns false, and has done nothing, if this READ needs the ordinary path.
  bool start(const std::shared_ptr<Request>& request, const std::shared_ptr<fs::OpenHandle>& file,
             std::uint64_t offset, std::size_t size);

 private:
  class One;
  void give_back(One& one);

  async::Loop& loop_;
  fs::FileSystem& files_;
  MountShards* const shards_;
  async::Reused<One> reads_;
};

}  // namespace nfsrdma::fuse
