// The slots of a session (compound/slot_table.h), and the requests that wait for one: first come, first
// served.
//
//     auto use = slots.take_now();
//     if (!use) use = co_await slots.wait(deadline);
//
// A new session brings new slots (reset()), and the requests that wait are served from those. A recovery that
// has time lets the requests under way end first (drained()).
//
// Confined to the loop's thread. A SlotQueue must outlive each wait.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "async/places.h"
#include "async/until.h"
#include "engine/statistics.h"
#include "nfs4/compound/slot_table.h"

namespace nfsrdma::nfs4 {

class SlotQueue {
 public:
  SlotQueue(async::Loop& loop, engine::ServerCounters& counters);
  ~SlotQueue();
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;

  /// Returns none if the request would have to wait, or if other requests wait already. A request that has
  /// been woken and has yet to run counts as waiting.
  std::optional<SlotTable::Use> take_now();
  /// Returns none if the deadline came first.
  async::Task<std::optional<SlotTable::Use>> wait(async::TimePoint deadline);
  /// Begins a new session with `count` slots.
  void reset(std::uint32_t count);
  /// Sets the highest slot that the server wishes to be used, as a SEQUENCE result says.
  void set_target(std::uint32_t highest);
  /// Waits until no request of the present session is under way. Returns false if the deadline came first.
  async::Task<bool> drained(async::TimePoint deadline);
  /// Waits until no request of an earlier session is under way. Returns false if the deadline came first.
  async::Task<bool> left_over_ended(async::TimePoint deadline);
  [[nodiscard]] SlotTable& table() { return table_; }
  [[nodiscard]] const SlotTable& table() const { return table_; }

 private:
  void wake_first();

  async::Loop& loop_;
  engine::ServerCounters& counters_;
  SlotTable table_;
  async::Line line_;
  async::Event idle_;  // notified when a request has ended
};

}  // namespace nfsrdma::nfs4
