// What a mounted file system counts of its data, for people to look at. Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nfsrdma::fs {

struct Counters {
  /// What was asked of this layer: by the kernel, which has a cache of its own above it.
  std::uint64_t reads = 0, bytes_read = 0, writes = 0, bytes_written = 0;
  /// What the server was asked for because of that, a READ or WRITE of rsize or wsize each.
  std::uint64_t server_reads = 0, server_bytes_read = 0, server_writes = 0, server_bytes_written = 0;
  std::uint64_t ahead_reads = 0;         ///< of server_reads: before anybody asked
  std::uint64_t ahead_bytes_read = 0;    ///< what they brought
  std::uint64_t ahead_bytes_unused = 0;  ///< of it: thrown away without having been asked for
  std::uint64_t ahead_hits = 0;          ///< of reads: all of it was there or on its way
  std::uint64_t writes_behind = 0;       ///< of writes: answered when they were on their way
  std::uint64_t behind_waits = 0;        ///< of them: had to wait, since too much was under way
  std::uint64_t hidden = 0;              ///< files that were removed while open, and got a name of their own
};

/// How many bytes may be under way, why so many, and what was measured for that (pace.h).
struct Window {
  enum class Why : unsigned char {
    first,     ///< nothing is known yet
    requests,  ///< two of them: one is under way while the other is used
    product,   ///< bandwidth times delay
    queue,     ///< that, and a short queue in front of the server
    memory,    ///< as much as there may be
  };
  double bandwidth = 0;  ///< bytes in a second; 0: not known
  std::chrono::steady_clock::duration delay{};
  std::size_t product = 0, bytes = 0;
  Why why = Why::first;
};

/// What it has at the moment.
struct Holdings {
  std::size_t inodes = 0;
  std::size_t files = 0;  ///< open ones
  std::size_t bytes_behind = 0, uncommitted_bytes = 0, spare_bytes = 0;
  std::size_t bytes_ahead = 0, readers = 0;  ///< memory of what was read ahead, and of how many open files
  std::size_t bytes_listed = 0;              ///< pages of open directories
  Window read, write;
};

}  // namespace nfsrdma::fs
