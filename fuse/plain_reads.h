// The kernel's READs that are one READ of the server's and nothing else: answered without a coroutine, from memory that is
// kept for the next. What is not that simple (FileSystem::begin_plain_read() says so, or the engine) goes the ordinary way.
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

class Request;

class PlainReads {
 public:
  /// They must outlive it, and so must the session of the requests that are not answered yet.
  PlainReads(async::Loop& loop, fs::FileSystem& files);
  ~PlainReads();
  PlainReads(const PlainReads&) = delete;
  PlainReads& operator=(const PlainReads&) = delete;

  /// False: it is another, and nothing was done.
  bool start(const std::shared_ptr<Request>& request, const std::shared_ptr<fs::OpenHandle>& file,
             std::uint64_t offset, std::size_t size);

 private:
  class One;
  void give_back(One& one);

  async::Loop& loop_;
  fs::FileSystem& files_;
  async::Reused<One> reads_;
};

}  // namespace nfsrdma::fuse
