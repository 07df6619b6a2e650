// A cache of names for which the server has just answered NFS4ERR_NOENT, on a mount for several users, where
// the kernel caches no names.
//
// A name counts as missing until the time that it was added with, unless this mount may have changed its
// directory since the server was asked. KnownAttributes::altered_since() tells that, so the entries of a
// directory are valid only together with its Inode. SearchRights decides whether a user may get the answer.
//
// Bounded: when there are kMost names, all of them are forgotten. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "async/world.h"
#include "fs/inodes.h"

namespace nfsrdma::fs {

class MissingNames {
 public:
  static constexpr std::size_t kMost = 4096;

  [[nodiscard]] bool has(const Inode& directory, const std::string& name, async::TimePoint now) const {
    const auto names = by_directory_.find(directory.id);
    if (names == by_directory_.end()) return false;
    const auto found = names->second.find(name);
    if (found == names->second.end() || now >= found->second.until) return false;
    return !directory.attributes.altered_since(found->second.as_of);
  }
  /// `as_of` is Freshness::count() at the time the server was asked.
  void add(const Inode& directory, const std::string& name, std::uint64_t as_of, async::TimePoint until) {
    if (count_ >= kMost) {
      by_directory_.clear();
      count_ = 0;
    }
    count_ += by_directory_[directory.id].insert_or_assign(name, Missing{as_of, until}).second ? 1 : 0;
  }
  /// Called when the directory's Inode is removed from the table.
  void forget(std::uint64_t directory) {
    const auto names = by_directory_.extract(directory);
    if (!names.empty()) count_ -= names.mapped().size();
  }

 private:
  struct Missing {
    std::uint64_t as_of = 0;
    async::TimePoint until;
  };
  std::unordered_map<std::uint64_t, std::unordered_map<std::string, Missing>> by_directory_;
  std::size_t count_ = 0;  // names in all directories
};

}  // namespace nfsrdma::fs
