#include "nfs4/session/slot_queue.h"

namespace nfsrdma::nfs4 {

SlotQueue::SlotQueue(async::Loop& loop, engine::ServerCounters& counters)
    : loop_(loop), counters_(counters), line_(loop), idle_(loop) {
  table_.on_free = [this] {
    wake_first();
    if (idle_.awaited()) idle_.notify_all();
  };
  table_.on_retired = table_.on_left_over_ended = [this] {
    if (idle_.awaited()) idle_.notify_all();
  };
}

SlotQueue::~SlotQueue() {
  table_.on_free = table_.on_retired = table_.on_left_over_ended = table_.on_spent = nullptr;
  table_.on_unanswered = nullptr;
}

std::optional<SlotTable::Use> SlotQueue::take_now() {
  // Requests that wait go first.
  return line_.awaited() ? std::nullopt : table_.take();
}

void SlotQueue::wake_first() {
  if (line_.awaited() && table_.has_free()) line_.wake_first();
}

async::Task<std::optional<SlotTable::Use>> SlotQueue::wait(async::TimePoint deadline) {
  std::optional<SlotTable::Use> use = take_now();
  if (use) co_return use;
  const async::TimePoint begun = loop_.now();
  ++counters_.slot_waits;
  const auto take = [this, &use] {
    use = table_.take();
    return use.has_value();
  };
  (void)co_await line_.wait(deadline, take);
  // Several slots may have come free at once, so each waiter that is served wakes the next.
  wake_first();
  counters_.slot_waited_us += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(loop_.now() - begun).count());
  co_return use;
}

void SlotQueue::reset(std::uint32_t count) {
  table_.reset(count);
  wake_first();
}

void SlotQueue::set_target(std::uint32_t highest) {
  const bool raised = highest > table_.target();
  table_.set_target(highest);
  if (raised) wake_first();
}

async::Task<bool> SlotQueue::drained(async::TimePoint deadline) {
  return async::until(idle_, deadline, [this] { return table_.busy() == 0; });
}

async::Task<bool> SlotQueue::left_over_ended(async::TimePoint deadline) {
  return async::until(idle_, deadline, [this] { return table_.left_over() == 0; });
}

}  // namespace nfsrdma::nfs4
