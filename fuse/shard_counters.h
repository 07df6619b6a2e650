// Counters of the shards of a mount since it began (mount_shards.h). A plain container, confined to the loop's thread.
#pragma once

#include <cstdint>

namespace nfsrdma::fuse {

struct ShardCounters {
  struct Calls {
    std::uint64_t made = 0, bytes = 0;
    std::uint64_t made_again =
        0;  ///< calls that a shard could not make, and the mount's loop makes, as a rule
  };
  Calls reads, writes;
  std::uint64_t answers_sent = 0;  ///< answers that the thread of a shard has given to the kernel
};

}  // namespace nfsrdma::fuse
