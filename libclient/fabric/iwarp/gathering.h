// How many octets the kernel lets gather in the socket before it tells of them (SO_RCVLOWAT).
//
// A peer that sends a segment at a time (siw does) wakes a fast reader for each, and each read may send an
// acknowledgement that interrupts the peer in turn. So where much is awaited the connection asks to be told
// of a part of it only: half, so that the other half keeps the peer busy while the first is dealt with.
//
// Where little is awaited the next octet counts. Then it is read where it lies (MSG_PEEK) and taken out of the
// socket once the answer to it has left. Taking it out may send an acknowledgement, which would be in the way
// of the answer, and wake a peer that the answer is about to wake.
//
// What is awaited is an upper bound: a READ may end early, and a server may answer a part of what it was
// asked and then be busy for long. So no octet waits longer than `patience`: then the connection reads what
// is there, and asks for smaller parts from now on, until these have come in time for a while.
//
// Changing the mark is a system call, and half of what is awaited is only a rule of thumb: the mark stays
// where it is while it is about right.
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
  /// An octet that has arrived waits this long at most.
  static constexpr std::chrono::microseconds patience{400};
  /// Parts that are smaller than this are not worth waiting for.
  static constexpr std::size_t least = 8 * 1024;
  static constexpr std::size_t most = 1024 * 1024;

  /// The mark in force: how many octets must be there. 1: each is told of.
  [[nodiscard]] std::size_t mark() const { return mark_; }
  [[nodiscard]] bool waits() const { return mark_ > 1; }

  /// Chooses the mark for what is awaited now; says whether it is another than before.
  bool choose(std::size_t awaited) {
    const std::size_t part = std::min(awaited / 2, most) >> halvings_;
    const std::size_t wanted = part < least ? 1 : part;
    if (wanted == mark_) return false;
    if (wanted > 1 && mark_ >= wanted / 2 && mark_ <= wanted) return false;
    mark_ = wanted;
    return true;
  }
  /// The next octet counts; says whether that is new.
  bool stop() { return std::exchange(mark_, 1) != 1; }

  /// As much as was asked for came within the patience.
  void in_time() {
    if (halvings_ == 0 || ++in_time_ < kTrial) return;
    in_time_ = 0;
    --halvings_;
  }
  /// A part came and the rest did not.
  void too_late() {
    in_time_ = 0;
    halvings_ = std::min(halvings_ + 1, kMostHalvings);
  }

 private:
  static constexpr unsigned kMostHalvings = 7, kTrial = 64;
  std::size_t mark_ = 1;
  unsigned halvings_ = 0;  // of the part
  unsigned in_time_ = 0;   // times in a row
};

}  // namespace nfsrdma::fabric::iwarp
