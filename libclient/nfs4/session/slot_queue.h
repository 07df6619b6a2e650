// The slots of a session (compound/slot_table.h), and the requests that wait for one: first come, first
// served.
//
//     auto use = co_await slots.wait(deadline);
//
// A request that is no coroutine derives from SlotQueue::Waiter and calls join() instead of wait().
//
// Slots that come free in a turn of the loop are given out at the end of that turn, to as many waiters as there are slots,
// so that what they send leaves together. A waiter is a member of the queue by itself: to join, to be served and to leave
// costs the same for any length of the queue, and allocates nothing.
//
// A new session brings new slots (reset()), and the requests that wait are served from those. A recovery that
// has time lets the requests under way end first (drained()).
//
// Confined to the loop's thread. A SlotQueue must outlive each wait.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "async/event.h"
#include "async/loop.h"
#include "async/task.h"
#include "engine/statistics.h"
#include "nfs4/compound/slot_table.h"
#include "nfsrdma/result.h"

namespace nfsrdma::nfs4 {

/// The error of a request that has waited for a slot until its deadline.
[[nodiscard]] Error no_slot_in_time(const char* what, const std::string& server);

class SlotQueue {
 public:
  SlotQueue(async::Loop& loop, engine::ServerCounters& counters);
  ~SlotQueue();
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;

  /// Returns none if the request would have to wait, or if other requests wait already.
  std::optional<SlotTable::Use> take_now() { return queue_.empty() ? table_.take() : std::nullopt; }

  /// A request that waits for a slot. Destroying it makes it leave the queue.
  class Waiter : private async::Loop::Wake, private async::Loop::Timer {
   public:
    Waiter() = default;
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   protected:
    ~Waiter() = default;
    [[nodiscard]] bool is_waiting() const { return all_ != nullptr; }
    /// Leaves the queue, or does nothing.
    void stop_waiting();

   private:
    friend class SlotQueue;
    /// Called from the loop, once. No `use`: the deadline came first. The Waiter is in no queue any more, and may be
    /// destroyed, or join again.
    virtual void on_slot(std::optional<SlotTable::Use> use) = 0;
    void on_wake() final {}  // it is only in the queue
    void on_time() final { end_wait(std::nullopt); }
    void end_wait(std::optional<SlotTable::Use> use);
    SlotQueue* all_ = nullptr;
    async::TimePoint since_;
  };
  void join(Waiter& waiter, async::TimePoint deadline);

  /// co_await slots.wait(deadline) gives the slot, or none if the deadline came first.
  class Wait final : private Waiter {
   public:
    Wait(SlotQueue& slots, async::TimePoint deadline) : slots_(slots), deadline_(deadline) {}
    bool await_ready() {
      use_ = slots_.take_now();
      return use_.has_value();
    }
    void await_suspend(std::coroutine_handle<> task) {
      task_ = task;
      slots_.join(*this, deadline_);
    }
    std::optional<SlotTable::Use> await_resume() { return std::move(use_); }

   private:
    void on_slot(std::optional<SlotTable::Use> use) override {
      use_ = std::move(use);
      task_.resume();
    }
    SlotQueue& slots_;
    const async::TimePoint deadline_;
    std::coroutine_handle<> task_;
    std::optional<SlotTable::Use> use_;
  };
  [[nodiscard]] Wait wait(async::TimePoint deadline) { return {*this, deadline}; }

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
  /// Gives out the free slots, from the loop.
  class Serving final : public async::Loop::Wake {
   public:
    explicit Serving(SlotQueue& all) : all_(all) {}

   private:
    void on_wake() override { all_.serve(); }
    SlotQueue& all_;
  };
  void serve_soon();
  void serve();

  async::Loop& loop_;
  engine::ServerCounters& counters_;
  SlotTable table_;
  async::Loop::Wakes queue_;
  Serving serving_{*this};
  async::Event idle_;  // notified when a request has ended
};

}  // namespace nfsrdma::nfs4
