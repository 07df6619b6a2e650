// When to read: letting octets gather in the socket while more of them are certain to come.
//
// A peer that sends a segment at a time (siw does) wakes a fast reader for each, and each read may send an
// acknowledgement that interrupts the peer in turn. So after a read the connection chooses, by what the peer
// may still place in memory that it was given:
//   poll        much: the socket is left alone for a pause and then read. The kernel acknowledges less, too,
//               while nothing is taken out. The pause adapts to what is found.
//   event       little or nothing: the next octet counts. Then it is read where it lies (MSG_PEEK) and taken
//   out
//               of the socket once the answer to it has left. Taking it out may send an acknowledgement,
//               which would be in the way of the answer, and wake a peer that the answer is about to wake.
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
  /// A poll found this much of what was awaited. A peer that has sent all it had waits for our next requests,
  /// and may fall asleep over it: so a poll had better find a part.
  void polled(std::size_t octets, std::size_t awaited) {
    if (octets > std::min(many, awaited / 2)) {
      pause_ = std::max(pause_ / 2, shortest);
    } else if (octets < std::min(few, awaited / 12)) {
      pause_ = std::min(pause_ * 2, longest);
    }
  }

 private:
  static constexpr std::size_t few = 32 * 1024;
  static constexpr std::size_t many = 256 * 1024;
  static constexpr Pause shortest{50};
  static constexpr Pause longest{400};
  Pause pause_{100};
};

}  // namespace nfsrdma::fabric::iwarp
