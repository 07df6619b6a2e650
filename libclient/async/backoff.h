// Pauses between attempts: each is twice as long as the one before, up to the longest.
#pragma once

#include <algorithm>
#include <utility>

#include "async/loop.h"

namespace nfsrdma::async {

class Backoff {
 public:
  Backoff(Clock::duration first, Clock::duration longest) : next_(first), longest_(longest) {}
  /// Returns the length of the next pause.
  [[nodiscard]] Clock::duration next() const { return next_; }
  /// Returns the length of the next pause, and makes the one after it longer.
  Clock::duration take() { return std::exchange(next_, std::min(next_ * 2, longest_)); }

 private:
  Clock::duration next_;
  Clock::duration longest_;
};

}  // namespace nfsrdma::async
