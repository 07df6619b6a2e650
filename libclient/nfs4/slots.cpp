// The slot table of a session (RFC 8881 2.10.6): which slots are free, used, or retired.
#include <bit>

#include "nfs4/session.h"

namespace nfsrdma::nfs4 {

void Session::reset_slots(std::uint32_t count) {
  slots_.assign(count, Slot{});
  ++slots_generation_;
  highest_busy_ = 0;
  target_highest_ = ~0U;
  retired_ = 0;
  slot_free_.notify_all();
}

/// The lowest free slot: low numbers let the server shrink its table (RFC 8881 2.10.6.1).
std::optional<std::uint32_t> Session::free_slot() {
  const auto end =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(slots_.size(), std::uint64_t{target_highest_} + 1));
  for (std::uint32_t i = 0; i < end; ++i) {
    if (!slots_[i].busy && !slots_[i].retired) return i;
  }
  return std::nullopt;
}

async::Task<std::optional<std::uint32_t>> Session::wait_for_slot(async::TimePoint deadline) {
  // Free slots behind a queue that is not moving: the first in it was not told, since nobody gave a slot
  // back.
  if (free_slot()) slot_free_.notify_one();
  const async::TimePoint begun = loop().now();
  ++counters_.slot_waits;
  std::optional<std::uint32_t> slot;
  while (!slot) {
    const bool in_time = co_await slot_free_.wait_until(deadline);
    if (!in_time) break;
    slot = free_slot();
  }
  counters_.slot_waited_us += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(loop().now() - begun).count());
  co_return slot;
}

void Session::put_slot(std::uint32_t slot, std::uint64_t generation, bool used) {
  if (generation != slots_generation_) return;
  Slot& s = slots_[slot];
  s.busy = false;
  if (used) ++s.sequence;
  while (highest_busy_ > 0 && !slots_[highest_busy_].busy) --highest_busy_;
  if (slot_free_.awaited()) slot_free_.notify_one();
}

void Session::retire_slot(std::uint32_t slot, std::uint64_t generation) {
  if (generation != slots_generation_) return;
  slots_[slot].retired = true;
  ++retired_;
  put_slot(slot, generation, false);
  if (retired_ * 2 > slots_.size() || retired_ == slots_.size())
    start_recovery("too many requests went unanswered");
}

}  // namespace nfsrdma::nfs4
