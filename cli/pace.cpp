// See pace.h.
#include "cli/pace.h"

#include <poll.h>

#include <algorithm>

#include "cli/interrupt.h"

namespace nfsrdma::cli {
namespace {

constexpr std::chrono::seconds most_credit{1};

}  // namespace

Pace::Clock::duration Pace::take(std::uint64_t bytes, Clock::time_point now) {
  if (rate_ == 0) return {};
  const std::chrono::duration<double> cost(static_cast<double>(bytes) / static_cast<double>(rate_));
  const std::lock_guard lock(mutex_);
  due_ = std::max(due_, now - most_credit) + std::chrono::duration_cast<Clock::duration>(cost);
  return std::max(due_ - now, Clock::duration::zero());
}

void Pace::wait(std::uint64_t bytes) {
  if (rate_ == 0) return;
  const auto end = Clock::now() + take(bytes, Clock::now());
  while (!interrupt::raised()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return;
    constexpr std::chrono::milliseconds most{1000};
    pollfd signal{interrupt::fd(), POLLIN, 0};
    (void)::poll(&signal, 1, static_cast<int>(std::min(left, most).count()));
  }
}

}  // namespace nfsrdma::cli
