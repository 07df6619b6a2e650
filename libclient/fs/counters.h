// Counters of a mounted file system's data, for display. Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nfsrdma::fs {

struct Counters {
  /// Requests to this layer, from the kernel, which has a cache of its own above it.
  std::uint64_t reads = 0, bytes_read = 0, writes = 0, bytes_written = 0;
  /// The READs and WRITEs to the server that resulted, each of at most rsize or wsize.
  std::uint64_t server_reads = 0, server_bytes_read = 0, server_writes = 0, server_bytes_written = 0;
  std::uint64_t ahead_reads = 0;         ///< those of server_reads that were sent before a program asked
  std::uint64_t ahead_bytes_read = 0;    ///< bytes that they read
  std::uint64_t ahead_bytes_unused = 0;  ///< those of ahead_bytes_read that were dropped unused
  std::uint64_t ahead_hits = 0;          ///< reads whose bytes were all here or requested already
  std::uint64_t writes_behind = 0;       ///< writes that were answered before they were on the server
  std::uint64_t behind_waits = 0;        ///< those of writes_behind that had to wait for room
  std::uint64_t hidden = 0;              ///< files that were removed while open and got a hidden name
};

/// The number of bytes that may be in flight, the reason for it, and the measurements that it is based on
/// (pace.h).
struct Window {
  enum class Why : unsigned char {
    first,     ///< nothing has been measured yet
    requests,  ///< two requests: one is in flight while the other is processed
    product,   ///< bandwidth times delay
    queue,     ///< bandwidth times delay, and a short queue in front of the server
    memory,    ///< the limit of memory
  };
  double bandwidth = 0;  ///< bytes per second; 0: not known
  std::chrono::steady_clock::duration delay{};
  std::size_t product = 0, bytes = 0;
  Why why = Why::first;
};

/// The memory and the open files that a mounted file system holds at the moment.
struct Holdings {
  std::size_t inodes = 0;
  std::size_t files = 0;  ///< open files
  std::size_t bytes_behind = 0, uncommitted_bytes = 0, spare_bytes = 0;
  /// Memory of read-ahead data, and the number of open files that have some.
  std::size_t bytes_ahead = 0, readers = 0;
  std::size_t bytes_listed = 0;  ///< memory of the pages of open directories
  Window read, write;
};

}  // namespace nfsrdma::fs
