// Runs several tasks concurrently, and awaits all of them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "async/event.h"

namespace nfsrdma::async {

namespace detail {
template <class T>
struct Together {
  explicit Together(Loop& loop) : done(loop) {}
  std::vector<std::optional<T>> results;
  std::size_t left = 0;
  Event done;
};
template <class T>
Task<void> run_one(std::shared_ptr<Together<T>> together, std::size_t index, Task<T> task) {
  together->results[index].emplace(co_await std::move(task));
  if (--together->left == 0) together->done.notify_all();
}
}  // namespace detail

/// Starts all tasks, and ends when the last of them ends. The loop owns the tasks: if the awaiting task is
/// destroyed, they continue. Therefore everything that they use must outlive them.
template <class T>
Task<std::vector<T>> all(Loop& loop, std::vector<Task<T>> tasks) {
  auto together = std::make_shared<detail::Together<T>>(loop);
  together->results.resize(tasks.size());
  together->left = tasks.size();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    loop.spawn(detail::run_one<T>(together, i, std::move(tasks[i])));
  }
  while (together->left != 0) co_await together->done.wait_until(TimePoint::max());
  std::vector<T> out;
  out.reserve(together->results.size());
  for (auto& result : together->results) out.push_back(std::move(*result));
  co_return out;
}

}  // namespace nfsrdma::async
