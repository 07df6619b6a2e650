// How many octets to let gather in the socket before they are read.
//
// A peer that sends a segment at a time (siw does) wakes a fast reader for each, and each read may send an
// acknowledgement that interrupts the peer in turn. While much is certain to come it pays to wait for more of
// it: SO_RCVLOWAT tells the kernel how much. What is awaited is the upper bound of what may come, since a
// READ may end early; so a short timer ends each wait, and its length is what a wrong guess costs.
//
// The amount doubles when the kernel reports it gathered, and halves when the timer came first. Pure;
// confined to its connection's thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace nfsrdma::fabric::iwarp {

class Gathering {
 public:
  static constexpr std::size_t least = 8 * 1024;
  static constexpr std::size_t most = 256 * 1024;

  /// What to wait for when the peer may still place `awaited` octets: 1 where waiting does not pay. A quarter
  /// keeps the rest of the requests at work on the peer meanwhile.
  [[nodiscard]] std::size_t wanted(std::size_t awaited) const {
    const std::size_t amount = std::bit_floor(std::min(target_, awaited / 4));
    return amount < least ? 1 : amount;
  }
  void gathered() { target_ = std::min(target_ * 2, most); }
  void timed_out() { target_ = std::max(target_ / 2, least); }

 private:
  std::size_t target_ = least;
};

}  // namespace nfsrdma::fabric::iwarp
