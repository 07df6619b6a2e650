#include "nfs4/compound/slot_table.h"

#include <algorithm>
#include <bit>

namespace nfsrdma::nfs4 {

void SlotTable::reset(std::uint32_t count) {
  left_over_ += busy();
  slots_.assign(count, Slot{});
  free_.assign((count + kWord - 1) / kWord, 0);
  for (std::uint32_t i = 0; i < count; ++i) note_free(i, true);
  ++generation_;
  highest_busy_ = 0;
  target_ = end_ = ~0U;
  retired_ = 0;
}

/// Returns the number of slots that may be used: those with a lower number than the result.
std::uint32_t SlotTable::usable() const {
  const std::uint64_t wished = std::min<std::uint64_t>(std::uint64_t{target_} + 1, end_);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(slots_.size(), wished));
}

bool SlotTable::is_spent() const {
  if (slots_.empty() || retired_ == 0) return false;
  const std::uint32_t end = usable();
  const auto gone = std::count_if(slots_.begin(), slots_.begin() + end,
                                  [](const Slot& one) { return one.retired && !one.asked; });
  return gone * 2 > end || gone == end;
}

std::optional<std::uint32_t> SlotTable::find_free() const {
  for (std::uint32_t i = 0; i < free_.size(); ++i) {
    if (free_[i] == 0) continue;
    const auto slot = i * kWord + static_cast<std::uint32_t>(std::countr_zero(free_[i]));
    if (slot >= usable()) break;
    return slot;
  }
  return std::nullopt;
}

std::optional<SlotTable::Use> SlotTable::take() {
  const auto slot = find_free();
  if (!slot) return std::nullopt;
  slots_[*slot].busy = true;
  note_free(*slot, false);
  highest_busy_ = std::max(highest_busy_, *slot);
  return Use(*this, *slot);
}

std::uint32_t SlotTable::busy() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(slots_, &Slot::busy));
}

void SlotTable::give_back(std::uint32_t slot) {
  slots_[slot].busy = false;
  note_free(slot, !slots_[slot].retired);
  while (highest_busy_ > 0 && !slots_[highest_busy_].busy) --highest_busy_;
}

std::optional<SlotTable::Use> SlotTable::ask_again(std::uint32_t slot, std::uint64_t generation) {
  if (generation != generation_ || !slots_[slot].retired || slots_[slot].busy) return std::nullopt;
  slots_[slot].busy = true;
  highest_busy_ = std::max(highest_busy_, slot);
  return Use(*this, slot);
}

void SlotTable::Use::end(End how) {
  if (table_ == nullptr) return;
  SlotTable& table = *std::exchange(table_, nullptr);
  if (generation_ != table.generation_) {
    --table.left_over_;
    if (table.on_left_over_ended) table.on_left_over_ended();
    return;
  }
  Slot& slot = table.slots_[slot_];
  const bool was_retired = slot.retired;
  if (how == End::answered) ++slot.sequence;
  slot.retired = how != End::answered && (how != End::unsent || was_retired);
  slot.asked = false;
  if (slot.retired && !was_retired) ++table.retired_;
  if (!slot.retired && was_retired) --table.retired_;
  table.give_back(slot_);
  if (!slot.retired) {
    if (table.on_free) table.on_free();
    return;
  }
  if (how == End::unanswered && !was_retired && table.on_unanswered) slot.asked = table.on_unanswered(slot_);
  if (table.on_retired) table.on_retired();
  table.look_if_spent();
}

}  // namespace nfsrdma::nfs4
