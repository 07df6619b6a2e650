// Trees, worked on by several threads at once: the part that commands on whole trees share.
//
// A Crowd runs tasks, which may add further ones. The tasks that were added last run first, so that a tree is
// walked depth first and little of it has to be remembered. A Tree takes the reports of the tasks of one
// command, one at a time: errors, lines of output and progress.
//
// Thread-safety: every function, unless its comment says otherwise.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/pace.h"
#include "cli/progress.h"

namespace nfsrdma::cli {

class Crowd {
 public:
  using Task = std::function<void()>;
  void add(Task task);
  /// Ends when no task is left. The calling thread works, too.
  void run();

 private:
  void work();
  /// Returns false if the process may have no more threads.
  bool add_thread(std::vector<std::jthread>& others);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  std::size_t working_ = 0;
};

struct TreeEntry {
  std::string name;
  Attributes attributes;
  std::optional<std::uint32_t> kept_mode =
      {};  ///< permissions that the copy gets instead of those of `attributes`
  [[nodiscard]] FileType type() const { return attributes.type; }
  [[nodiscard]] std::uint64_t size() const { return attributes.size; }
};

class Tree {
 public:
  /// `rate`: how many bytes may be moved per second; 0 for no limit.
  Tree(Call& call, Progress& progress, std::uint64_t rate = 0)
      : call_(call), progress_(progress), pace_(rate) {}

  [[nodiscard]] bool going() const { return call_.going() && !is_lost_; }
  [[nodiscard]] const char* operation() const { return call_.command.name; }
  [[nodiscard]] std::uint64_t rate() const { return pace_.rate(); }
  /// Ends the work when the connection to the server is lost and cannot be made again in time, because every
  /// further call would wait as long. Called before there are tasks.
  void end_when_lost() { ends_when_lost_ = true; }
  [[nodiscard]] bool is_lost() const { return is_lost_; }
  void failed(const Error& error);
  /// Returns false if writing has failed, and the command should stop.
  bool line(const std::string& text);
  /// Counts bytes, and waits if there is a limit.
  void moved(std::uint64_t bytes);
  /// Waits if there is a limit, after bytes were moved that are not counted.
  void pace(std::uint64_t bytes) { pace_.wait(bytes); }
  /// Counts bytes that the server has copied by itself.
  void moved_there(std::uint64_t bytes);
  /// Returns a function that is called with the bytes that one transfer has moved so far, for the sum of all.
  [[nodiscard]] std::function<void(std::uint64_t)> progress_of_one();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t files() const { return files_; }
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  void count_file() {
    const std::lock_guard lock(mutex_);
    ++files_;
  }
  /// Returns all entries with their attributes. Entries without a valid name or without attributes are
  /// reported and left out, and counted in `left_out`.
  Result<std::vector<TreeEntry>> list(const Remote& directory, std::size_t* left_out = nullptr);

  /// Does work on the server that must be done after an interruption as well: a directory gets its mode and
  /// times when it is complete, or a temporary file is removed. Calls fail after an interruption, so the work
  /// is left to settle() then.
  void complete(std::function<Status()> act);
  /// Does the work that complete() has left, within an interrupt::Grace. For the main thread, when no task
  /// runs any more.
  void settle();

 private:
  std::mutex mutex_;
  Call& call_;
  Progress& progress_;
  Pace pace_;
  std::uint64_t bytes_ = 0, files_ = 0, failures_ = 0;
  bool ends_when_lost_ = false;
  std::atomic<bool> is_lost_ = false;
  std::vector<std::function<Status()>> left_;  // deepest first: a directory's mode may bar the way
};

// ---- small files, which go together ----

/// Files up to this size are read and written by read_many and write_many.
inline constexpr std::uint64_t small_file = 64U << 10;
inline constexpr std::size_t most_together = 128;
inline constexpr std::uint64_t most_bytes_together = 1U << 20;

/// Calls `take(part)` for parts of `files`, each with as many as are sent together. `Entry`: TreeEntry or LocalEntry.
template <class Entry, class Take>
void in_parts(std::vector<Entry> files, Take take) {
  std::vector<Entry> part;
  std::uint64_t bytes = 0;
  const auto give = [&] {
    if (!part.empty()) take(std::move(part));
    part = {};
    bytes = 0;
  };
  for (Entry& one : files) {
    const std::uint64_t more = one.size() + 1;
    if (part.size() == most_together || (bytes != 0 && bytes + more > most_bytes_together)) give();
    bytes += more;
    part.push_back(std::move(one));
  }
  give();
}

/// Data of several files in one piece of memory.
class Rooms {
 public:
  /// Each file gets at least one byte, so that an empty file that has grown shows.
  template <class Entry>
  explicit Rooms(const std::vector<Entry>& files) {
    std::size_t total = 0;
    for (const Entry& one : files) total += static_cast<std::size_t>(one.size()) + 1;
    memory_.resize(total);
    std::span<std::byte> left(memory_);
    for (const Entry& one : files) {
      const std::size_t length = std::max<std::size_t>(static_cast<std::size_t>(one.size()), 1);
      rooms_.push_back(left.first(length));
      left = left.subspan(length);
    }
  }
  [[nodiscard]] std::span<std::byte> operator[](std::size_t index) { return rooms_[index]; }

 private:
  std::vector<std::byte> memory_;
  std::vector<std::span<std::byte>> rooms_;
};

/// Reads small files of a directory into their rooms.
std::vector<Result<FileRead>> read_together(const Remote& directory, const std::vector<TreeEntry>& files,
                                            Rooms& rooms);

}  // namespace nfsrdma::cli
