// Answers to reads that the shards of a mount (mount_shards.h) give the kernel: the copy into the kernel and the
// wake-up of the program are most of the costs of such a read.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>

#include "async/reused.h"
#include "fs/open_handle.h"
#include "fuse/mount_shards.h"
#include "fuse/requests.h"

namespace nfsrdma::fuse {

class ShardAnswers {
 public:
  /// `shards`, which may be null, must stop before this object ends.
  explicit ShardAnswers(MountShards* shards);
  ~ShardAnswers();
  ShardAnswers(const ShardAnswers&) = delete;
  ShardAnswers& operator=(const ShardAnswers&) = delete;

  /// Has a shard give the answer to a read of `size` bytes, and takes the data. Returns false, and has done nothing, if the
  /// mount's loop has to give it.
  bool send(Request& request, std::size_t size, fs::ReadData& data);

 private:
  class One;
  MountShards* const shards_;
  async::Reused<One> answers_;
};

}  // namespace nfsrdma::fuse
