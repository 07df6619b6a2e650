// Trees, worked on by several threads at once: what commands on whole trees have in common.
//
// A Crowd has tasks, which may add further ones. Those that were added last are done first, so that a tree is walked
// into its depth and what is remembered of it stays small. A Tree is what the tasks of one command tell: errors,
// lines of output and progress, one at a time.
//
// Thread-safety: all of it, unless said otherwise.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/progress.h"

namespace nfsrdma::cli {

class Crowd {
 public:
  using Task = std::function<void()>;
  void add(Task task);
  /// Ends when there is no task any more; this thread works, too.
  void run();

 private:
  void work();
  /// False: the process has as many as it may have.
  bool add_thread(std::vector<std::jthread>& others);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  std::size_t working_ = 0;
};

struct TreeEntry {
  std::string name;
  Attributes attributes;
};

class Tree {
 public:
  Tree(Call& call, Progress& progress) : call_(call), progress_(progress) {}

  [[nodiscard]] bool going() const { return call_.going(); }
  void failed(const Error& error);
  /// False: there is no use in going on.
  bool line(const std::string& text);
  void moved(std::uint64_t bytes);
  /// Returns a function that is called with the bytes that one transfer has moved so far, for the sum of all.
  [[nodiscard]] std::function<void(std::uint64_t)> progress_of_one();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t files() const { return files_; }
  void count_file() {
    const std::lock_guard lock(mutex_);
    ++files_;
  }
  /// All entries with their attributes. Those that are none, or have none, have been reported.
  Result<std::vector<TreeEntry>> list(const Remote& directory);

  /// Does on the server what has to be done after an interruption as well: a directory gets its mode and times, now that
  /// all is in it; a temporary file is removed. After an interruption calls fail, so that this is left to settle().
  void complete(std::function<Status()> act);
  /// Main thread, when no task runs any more: what complete() has left, within an interrupt::Grace.
  void settle();

 private:
  std::mutex mutex_;
  Call& call_;
  Progress& progress_;
  std::uint64_t bytes_ = 0, files_ = 0;
  std::vector<std::function<Status()>> left_;  // below first: the mode of a directory may close the way
};

// ---- small files, which go together ----

/// Files up to this size are read and written by read_many and write_many.
inline constexpr std::uint64_t small_file = 64U << 10;
inline constexpr std::size_t most_together = 128;
inline constexpr std::uint64_t most_bytes_together = 1U << 20;

/// Calls `take(part)` for parts of `files`, each as many as go together. `size(one)` is what one needs.
template <class T, class Size, class Take>
void in_parts(std::vector<T> files, Size size, Take take) {
  std::vector<T> part;
  std::uint64_t bytes = 0;
  const auto give = [&] {
    if (!part.empty()) take(std::move(part));
    part = {};
    bytes = 0;
  };
  for (T& one : files) {
    const std::uint64_t more = size(one);
    if (part.size() == most_together || (bytes != 0 && bytes + more > most_bytes_together)) give();
    bytes += more;
    part.push_back(std::move(one));
  }
  give();
}

/// Data of several files in one piece of memory.
class Rooms {
 public:
  /// `size`: of each; at least one byte each, so that a file that is not empty any more shows.
  explicit Rooms(const std::vector<std::uint64_t>& sizes);
  [[nodiscard]] std::span<std::byte> operator[](std::size_t index) { return rooms_[index]; }

 private:
  std::vector<std::byte> memory_;
  std::vector<std::span<std::byte>> rooms_;
};

}  // namespace nfsrdma::cli
