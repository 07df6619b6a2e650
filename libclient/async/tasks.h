// Background tasks of an owner: they run on the loop, and end at the latest with the owner.
//
//     class Session {
//       …
//       async::Tasks background_;      // the last member: what the tasks use is there until they are gone
//     };
//     background_.spawn(renew());
//
// Loop::spawn() alone keeps a task until it ends or the loop is destroyed, which may be after the objects
// that the task uses are gone.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>

#include "async/loop.h"
#include "async/task.h"

namespace nfsrdma::async {

class Tasks {
 public:
  explicit Tasks(Loop& loop) : loop_(loop) {}
  ~Tasks() { drop(); }
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  /// Starts a task now.
  void spawn(Task<void> task) {
    const std::uint64_t number = ++last_;
    running_.emplace(number, 0);
    const std::uint64_t id = loop_.spawn(run(*this, number, std::move(task)));
    if (const auto at = running_.find(number); at != running_.end()) at->second = id;
  }
  /// Destroys the tasks that have not ended.
  void drop() {
    while (!running_.empty()) loop_.drop(running_.extract(running_.begin()).mapped());
  }
  [[nodiscard]] bool empty() const { return running_.empty(); }

 private:
  static Task<void> run(Tasks& tasks, std::uint64_t number, Task<void> task) {
    co_await task;
    tasks.running_.erase(number);
    // The objects in the task's frame may use the owner, which may be gone before the loop destroys this frame.
    const Task<void> ended = std::move(task);
  }

  Loop& loop_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::uint64_t> running_;  // the loop's ids, by our numbers
};

}  // namespace nfsrdma::async
