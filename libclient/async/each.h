// Runs one task for each of many items, some of them concurrently.
//
//     async::Each each(loop, items.size(), [&](std::size_t i) { return move(items[i]); });
//     co_await each.run(8);
//
// The Each owns the running tasks: destroying it, usually together with the task that awaits run(), destroys
// them. Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <utility>

#include "async/event.h"
#include "async/tasks.h"

namespace nfsrdma::async {

/// `Work` is a function: async::Task<void>(std::size_t index).
template <class Work>
class Each {
 public:
  Each(Loop& loop, std::size_t count, Work work)
      : count_(count), work_(std::move(work)), ended_(loop), tasks_(loop) {}

  /// Runs the tasks, at most `at_once` of them concurrently. Ends when the last of them ends.
  Task<void> run(std::size_t at_once) {
    while (running_ < at_once && next_ < count_) {
      ++running_;
      tasks_.spawn(go_on());
    }
    while (running_ != 0) co_await ended_.wait_until(TimePoint::max());
  }

 private:
  Task<void> go_on() {
    while (next_ < count_) {
      const std::size_t index = next_++;
      co_await work_(index);
    }
    if (--running_ == 0) ended_.notify_all();
  }

  const std::size_t count_;
  const Work work_;
  std::size_t next_ = 0, running_ = 0;
  Event ended_;
  Tasks tasks_;  // the last member, because the tasks use the others
};

}  // namespace nfsrdma::async
