#include "nfs4/session/slot_queue.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "async/until.h"

namespace nfsrdma::nfs4 {

Error no_slot_in_time(const char* what, const std::string& server) {
  return {ErrorKind::timeout, ETIMEDOUT, what, server,
          "no session slot came free in time; the server is not answering"};
}

SlotQueue::SlotQueue(async::Loop& loop, engine::ServerCounters& counters)
    : loop_(loop), counters_(counters), idle_(loop) {
  table_.on_free = [this] {
    serve_soon();
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

void SlotQueue::join(Waiter& waiter, async::TimePoint deadline) {
  waiter.all_ = this;
  waiter.since_ = loop_.now();
  ++counters_.slot_waits;
  queue_.push_back(waiter);
  if (deadline != async::TimePoint::max()) loop_.set(waiter, deadline);
  serve_soon();
}

void SlotQueue::Waiter::stop_waiting() {
  all_ = nullptr;
  leave();
  cancel();
}

void SlotQueue::Waiter::end_wait(std::optional<SlotTable::Use> use) {
  SlotQueue& all = *all_;
  stop_waiting();
  all.counters_.slot_waited_us += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(all.loop_.now() - since_).count());
  on_slot(std::move(use));
}

void SlotQueue::serve_soon() {
  if (!queue_.empty() && table_.has_free()) loop_.wake(serving_);
}

/// Each waiter may start others, free slots, or begin a new session.
void SlotQueue::serve() {
  while (!queue_.empty()) {
    std::optional<SlotTable::Use> use = table_.take();
    if (!use) return;
    static_cast<Waiter&>(queue_.front()).end_wait(std::move(use));
  }
}

void SlotQueue::reset(std::uint32_t count) {
  table_.reset(count);
  serve_soon();
}

void SlotQueue::set_target(std::uint32_t highest) {
  const bool raised = highest > table_.target();
  table_.set_target(highest);
  if (raised) serve_soon();
}

async::Task<bool> SlotQueue::drained(async::TimePoint deadline) {
  return async::until(idle_, deadline, [this] { return table_.busy() == 0; });
}

async::Task<bool> SlotQueue::left_over_ended(async::TimePoint deadline) {
  return async::until(idle_, deadline, [this] { return table_.left_over() == 0; });
}

}  // namespace nfsrdma::nfs4
