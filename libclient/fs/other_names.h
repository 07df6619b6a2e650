// The names of one file that the kernel may use without a LOOKUP, apart from the name by which the file was found last
// (Inode::label).
//
// The kernel opens a file by its inode number and does not say by which name a program has opened it. A file that was
// found by several names in the last minute may have been opened by any of them, and some of them may lead elsewhere by
// now. So an open checks all of them (name_checks.h).
//
// Rules:
//   Which names are in the list?      Each earlier place of the inode (Inodes::place) until the kernel's entry for it
//                                     expires. Not directories: no open of theirs is checked by name.
//   How many?                         kMost. While the list is full, the kernel gets further names with a validity of
//                                     zero, so that it looks them up at each use.
//   Does a name lead elsewhere?       Yes once it is_wrong: an open has checked it, or the server has said that the file
//                                     has one link and the file was found by another name. The kernel is then notified
//                                     to drop its entry. The name stays in the list until kInUse after that is done,
//                                     because a program may have walked through the entry just before.
//   May a thread open the file        Not while a name is wrong. Its open fails with ESTALE, upon which Linux walks the
//   meanwhile?                        path again and looks up each name of it. If that leads to this file, the thread
//                                     opens it without a check of the names in the list (second_tries.h).
//
// Inodes changes the list, because it also keeps the index of places. A plain container, confined to the loop's thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/world.h"

namespace nfsrdma::fs {

class OtherNames {
 public:
  static constexpr std::size_t kMost = 4;
  /// A bound on the time from the kernel's use of an entry, for a program that opens the file, until the mount sees the open.
  static constexpr auto kInUse = std::chrono::seconds(1);

  struct Name {
    std::uint64_t directory = 0;
    std::string name;
    async::TimePoint until{};  ///< when the kernel's entry expires
    std::uint64_t found = 0;   ///< Inode::found at the time when this was the inode's place
    bool is_wrong = false;     ///< the name is known to lead elsewhere
    [[nodiscard]] bool is_at(std::uint64_t in, const std::string& called) const {
      return directory == in && name == called;
    }
  };

  [[nodiscard]] const std::vector<Name>& all() const { return names_; }
  [[nodiscard]] bool is_full() const { return names_.size() >= kMost; }
  [[nodiscard]] bool any_wrong(async::TimePoint now) const {
    return std::ranges::any_of(names_, [now](const Name& one) { return one.is_wrong && now < one.until; });
  }
  [[nodiscard]] const Name* find(std::uint64_t directory, const std::string& name) const {
    const auto at = std::ranges::find_if(names_, [&](const Name& one) { return one.is_at(directory, name); });
    return at == names_.end() ? nullptr : &*at;
  }
  void add(Name name) { names_.push_back(std::move(name)); }
  /// Marks the name that was found at this time. Returns null if it is not in the list, or is marked already.
  const Name* mark_wrong(std::uint64_t found) {
    const auto at = std::ranges::find(names_, found, &Name::found);
    if (at == names_.end() || std::exchange(at->is_wrong, true)) return nullptr;
    return &*at;
  }
  /// Called when the kernel does not use the entry that was found at this time after `until`.
  void end(std::uint64_t found, async::TimePoint until) {
    const auto at = std::ranges::find(names_, found, &Name::found);
    if (at != names_.end()) at->until = std::min(at->until, until);
  }
  /// Takes the names for which `is_meant` is true out of the list.
  template <class Predicate>
  std::vector<Name> take(Predicate is_meant) {
    std::vector<Name> out;
    for (auto at = names_.begin(); at != names_.end();) {
      if (is_meant(*at)) {
        out.push_back(std::move(*at));
        at = names_.erase(at);
      } else {
        ++at;
      }
    }
    return out;
  }

 private:
  std::vector<Name> names_;
};

}  // namespace nfsrdma::fs
