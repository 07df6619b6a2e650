// Threads whose open(2) was refused because a name of the file leads elsewhere, or may lead elsewhere (name_checks.h).
//
// Linux then walks the path again, looks up each name of it, and repeats the open if the walk ends at the same file. A
// file may also have been opened without its name (/proc/self/fd, open_by_handle_at), and then the repeated open is not
// preceded by a LOOKUP. So the second try is not checked against the names that the kernel may believe.
//
// Rules:
//   Which open is a second try?       The thread's next open, if it is of the same inode and comes within kFor.
//   What ends it before?              A LOOKUP that finds something else at one of the inode's names: the walk has then
//                                     ended elsewhere, and what the thread opens later is no repetition. Also a
//                                     creation by the thread, which is its repetition and opens the file by name.
//
// Bounded: kMost threads. Pure, confined to the loop's thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "async/world.h"

namespace nfsrdma::fs {

class SecondTries {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr auto kFor = std::chrono::seconds(1);

  [[nodiscard]] bool empty() const { return tries_.empty(); }
  /// Called when the thread's open of the inode was refused. `found` is Inode::found at that time.
  void refused(std::uint32_t thread, std::uint64_t inode, std::uint64_t found, async::TimePoint now) {
    if (tries_.size() >= kMost && !tries_.contains(thread))
      tries_.erase(std::ranges::min_element(tries_, {}, [](const auto& one) { return one.second.until; }));
    tries_.insert_or_assign(thread, Try{inode, found, now + kFor});
  }
  /// Called when the thread opens the inode. Returns what refused() was given if this is its second try.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint32_t thread, std::uint64_t inode,
                                                  async::TimePoint now) {
    const auto one = tries_.extract(thread);
    const bool is_second = !one.empty() && one.mapped().inode == inode && now < one.mapped().until;
    return is_second ? std::optional(one.mapped().found) : std::nullopt;
  }
  /// Called when the thread opens a file without a second try, so that its next open is not one.
  void forget(std::uint32_t thread) { tries_.erase(thread); }
  /// Ends the second tries at the inodes for which `is_meant` is true.
  template <class Predicate>
  void end(Predicate is_meant) {
    std::erase_if(tries_, [&](const auto& one) { return is_meant(one.second.inode); });
  }

 private:
  struct Try {
    std::uint64_t inode = 0, found = 0;
    async::TimePoint until;
  };
  std::map<std::uint32_t, Try> tries_;  // by thread
};

}  // namespace nfsrdma::fs
