#include "nfs4/slot_queue.h"

namespace nfsrdma::nfs4 {

SlotQueue::SlotQueue(async::Loop& loop, engine::ServerCounters& counters)
    : loop_(loop), counters_(counters), free_(loop), idle_(loop) {
  table_.on_free = [this] {
    if (free_.awaited()) free_.notify_one();
    if (idle_.awaited()) idle_.notify_all();
  };
  table_.on_retired = [this] {
    if (idle_.awaited()) idle_.notify_all();
  };
}

SlotQueue::~SlotQueue() {
  table_.on_free = table_.on_retired = table_.on_spent = nullptr;
}

std::optional<SlotTable::Use> SlotQueue::take_now() {
  // Whoever waits goes first.
  return free_.awaited() ? std::nullopt : table_.take();
}

async::Task<std::optional<SlotTable::Use>> SlotQueue::wait(async::TimePoint deadline) {
  // Free slots behind a queue that is not moving: the first in it was not told, since nobody gave a slot
  // back.
  if (table_.has_free()) free_.notify_one();
  const async::TimePoint begun = loop_.now();
  ++counters_.slot_waits;
  std::optional<SlotTable::Use> use;
  while (!use) {
    const bool in_time = co_await free_.wait_until(deadline);
    if (!in_time) break;
    use = table_.take();
  }
  // Several may have come free at once: each waiter that is served wakes the next.
  if (table_.has_free()) free_.notify_one();
  counters_.slot_waited_us += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(loop_.now() - begun).count());
  co_return use;
}

void SlotQueue::reset(std::uint32_t count) {
  table_.reset(count);
  free_.notify_all();
}

void SlotQueue::set_target(std::uint32_t highest) {
  const bool raised = highest > table_.target();
  table_.set_target(highest);
  if (raised) free_.notify_all();
}

async::Task<bool> SlotQueue::drained(async::TimePoint deadline) {
  return async::until(idle_, deadline, [this] { return table_.busy() == 0; });
}

}  // namespace nfsrdma::nfs4
