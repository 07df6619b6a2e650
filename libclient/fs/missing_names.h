// A cache of names for which the server has just answered NFS4ERR_NOENT, on a mount for several users, where the kernel
// caches no names.
//
// A name is missing for as long as it was added for, unless this mount may have changed its directory since the server
// was asked. Whether a user may be told is SearchRights' to say.
//
// Bounded: when there are kMost of them all are forgotten. Pure.
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
    const auto found = names_.find(key(directory, name));
    if (found == names_.end() || now >= found->second.until) return false;
    return directory.naming == 0 && directory.altered <= found->second.as_of;
  }
  /// `as_of`: Freshness::now() when the server was asked.
  void add(const Inode& directory, const std::string& name, std::uint64_t as_of, async::TimePoint until) {
    if (names_.size() >= kMost) names_.clear();
    names_[key(directory, name)] = {as_of, until};
  }

 private:
  struct Missing {
    std::uint64_t as_of = 0;
    async::TimePoint until;
  };
  static std::string key(const Inode& directory, const std::string& name) {
    return std::to_string(directory.id) + "/" + name;
  }
  std::unordered_map<std::string, Missing> names_;
};

}  // namespace nfsrdma::fs
