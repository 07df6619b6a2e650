// When to read: letting octets gather in the socket while more of them are certain to come.
//
// A peer that sends a segment at a time (siw does) wakes a fast reader for each, and each read may send an
// acknowledgement that interrupts the peer in turn. So after a read the connection chooses, by what the peer
// may still place in memory that it was given:
//   poll        much: the socket is left alone for a pause and then read. The kernel acknowledges less, too,
//               while nothing is taken out. The pause adapts to what is found.
//   event       little or nothing: the next octet counts.
// What is awaited is an upper bound, since a READ may end early; a pause is what a wrong guess costs at most.
//
// Pure; confined to its connection's thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace nfsrdma::fabric::iwarp {

class Gathering {
 public:
  using Pause = std::chrono::microseconds;
  /// From this much on polling pays.
  static constexpr std::size_t bulk = 48 * 1024;

  [[nodiscard]] static bool polls(std::size_t awaited) { return awaited >= bulk; }
  [[nodiscard]] Pause pause() const { return pause_; }
  /// A poll found this much.
  void polled(std::size_t octets) {
    if (octets < few) pause_ = std::min(pause_ * 2, longest);
    if (octets > many) pause_ = std::max(pause_ / 2, shortest);
  }

 private:
  static constexpr std::size_t few = 32 * 1024;
  static constexpr std::size_t many = 256 * 1024;
  static constexpr Pause shortest{50};
  static constexpr Pause longest{400};
  Pause pause_{100};
};

}  // namespace nfsrdma::fabric::iwarp
