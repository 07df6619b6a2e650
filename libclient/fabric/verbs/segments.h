// Divides memory into the segments that a device can register or bind. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/fabric.h"

namespace nfsrdma::fabric::verbs {

/// A segment's length has 32 bits on the wire (RFC 8166 3.4.2), and one Send's work requests should not pin
/// more memory. Devices report "2^64 - 1" when they have no limit of their own.
inline constexpr std::uint64_t largest_segment = 1U << 30;

/// Returns the largest length of one segment: a multiple of the page size, so that the cuts of large memory
/// are aligned.
[[nodiscard]] constexpr std::size_t segment_limit(std::uint64_t device_limit) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t most = std::min(device_limit, largest_segment);
  return static_cast<std::size_t>(most >= page ? most - most % page : std::max<std::uint64_t>(most, 1));
}

[[nodiscard]] constexpr std::size_t segments_for(std::size_t length, std::size_t limit) {
  return length == 0 ? 1 : (length + limit - 1) / limit;
}

/// Returns the pieces in order. Empty memory is one empty piece.
[[nodiscard]] inline std::vector<Bytes> split(Bytes memory, std::size_t limit) {
  std::vector<Bytes> out;
  out.reserve(segments_for(memory.size(), limit));
  do {
    const std::size_t size = std::min(limit, memory.size());
    out.push_back(memory.first(size));
    memory = memory.subspan(size);
  } while (!memory.empty());
  return out;
}

}  // namespace nfsrdma::fabric::verbs
