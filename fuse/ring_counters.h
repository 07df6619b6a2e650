// Counters of the rings of a mount since it began (statistics.h).
#pragma once

#include <cstdint>

namespace nfsrdma::fuse {

struct RingCounters {
  std::uint64_t made = 0, now = 0;  ///< rings: made in all, and those that exist now
  std::uint64_t attached = 0;       ///< open files attached in all
  std::uint64_t reads = 0, writes = 0, syncs = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;
  std::uint64_t refused = 0;  ///< requests that made no sense, or had no right
  std::uint64_t failed = 0;   ///< requests that were tried and failed
  std::uint64_t broken = 0;   ///< rings that were ended because their program did not keep to the rules
  std::uint64_t denied = 0;   ///< rings that were asked for and not given: too many, too large, no memory
  std::uint64_t wakes = 0;    ///< programs woken through their socket
};

}  // namespace nfsrdma::fuse
