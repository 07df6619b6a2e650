// Chooses how many octets the kernel lets gather in the socket before it reports the socket readable
// (SO_RCVLOWAT).
//
// Why. A peer that sends one segment at a time (siw does) wakes a fast reader for each segment, and each read
// may send an acknowledgement that interrupts the peer in turn. So when many octets are awaited, the
// connection asks to be woken only for a part of them: for half, so that the other half keeps the peer busy
// while the first is processed.
//
// When few octets are awaited, the connection is woken for the next octet. It then peeks at the octets
// (MSG_PEEK) and takes them out of the socket only after the answer to them has been sent. Taking them out
// may send an acknowledgement, which would delay the answer and wake a peer that the answer is about to wake
// anyway.
//
// The number of awaited octets is an upper bound: a READ may end early, and a server may send a part of an
// answer and then be busy for long. So no octet waits longer than `patience`. After that time the connection
// reads what has arrived, and asks for smaller parts from then on, until such parts have come in time for a
// while.
//
// Changing the mark is a system call, and half of what is awaited is only a rule of thumb. Therefore the mark
// stays as it is while it is about right.
//
// Pure; confined to its connection's thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

namespace nfsrdma::fabric::iwarp {

class Gathering {
 public:
  /// The longest time that an octet that has arrived stays unread.
  static constexpr std::chrono::microseconds patience{400};
  /// Parts that are smaller than this are not worth waiting for.
  static constexpr std::size_t least = 8 * 1024;
  static constexpr std::size_t most = 1024 * 1024;

  /// The mark in force: the number of octets that must be in the socket before it is reported readable. With
  /// 1 each octet is reported.
  [[nodiscard]] std::size_t mark() const { return mark_; }
  [[nodiscard]] bool waits() const { return mark_ > 1; }

  /// Chooses the mark for the number of octets awaited now. Returns whether the mark has changed.
  bool choose(std::size_t awaited) {
    const std::size_t part = std::min(awaited / 2, most) >> halvings_;
    const std::size_t wanted = part < least ? 1 : part;
    if (wanted == mark_) return false;
    if (wanted > 1 && mark_ >= wanted / 2 && mark_ <= wanted) return false;
    mark_ = wanted;
    return true;
  }
  /// Sets the mark to 1, so that the next octet is reported. Returns whether the mark has changed.
  bool stop() { return std::exchange(mark_, 1) != 1; }

  /// Called when as many octets as the mark asks for came within the patience.
  void in_time() {
    if (halvings_ == 0 || ++in_time_ < kTrial) return;
    in_time_ = 0;
    --halvings_;
  }
  /// Called when a part came within the patience and the rest did not.
  void too_late() {
    in_time_ = 0;
    halvings_ = std::min(halvings_ + 1, kMostHalvings);
  }

 private:
  static constexpr unsigned kMostHalvings = 7, kTrial = 64;
  std::size_t mark_ = 1;
  unsigned halvings_ = 0;  // how often the part is halved
  unsigned in_time_ = 0;   // parts that came in time since the last change
};

}  // namespace nfsrdma::fabric::iwarp
