// The same for each of many, some of them beside each other.
//
//     async::Each each(loop, items.size(), [&](std::size_t i) { return move(items[i]); });
//     co_await each.run(8);
//
// Whatever is under way ends with it, when the task that runs it is destroyed. Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <utility>

#include "async/event.h"
#include "async/tasks.h"

namespace nfsrdma::async {

/// `Work`: async::Task<void>(std::size_t).
template <class Work>
class Each {
 public:
  Each(Loop& loop, std::size_t count, Work work)
      : count_(count), work_(std::move(work)), ended_(loop), tasks_(loop) {}

  /// Ends with the last of them.
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
  Tasks tasks_;  // the last: they use the others
};

}  // namespace nfsrdma::async
