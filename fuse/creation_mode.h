// The mode of what is made in a directory: less the process's umask, unless the directory has a list that what is made
// there inherits. Then the list decides, and the umask is not looked at (acl(5); RFC 8275 has the reasons).
//
// The kernel leaves the umask to this program (FUSE_CAP_DONT_MASK), which asks the server for the directory's list
// where the umask would take something away. The answer is believed for as long as other attributes of directories;
// until then a list that another client sets there does not count. Where the server cannot be asked, the umask counts.
//
// Confined to the loop's thread. The FileSystem must outlive the tasks.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "fs/file_system.h"

namespace nfsrdma::fuse {

class CreationMode {
 public:
  async::Task<std::uint32_t> of(fs::FileSystem& files, async::Loop& loop, fs::Caller caller,
                                std::uint64_t directory, std::uint32_t mode, std::uint32_t umask);
  /// Its lists may be others now.
  void forget(std::uint64_t directory) {
    known_.erase(directory);
    ++forgotten_;
  }
  void believe_for(async::Clock::duration time) { believed_ = time; }

 private:
  static constexpr std::size_t kMost = 4096;
  struct Known {
    bool inherits = false;
    async::TimePoint until;
  };
  std::unordered_map<std::uint64_t, Known> known_;  // by inode
  std::uint64_t forgotten_ = 0;                     // how often something was
  async::Clock::duration believed_ = std::chrono::seconds(30);
};

}  // namespace nfsrdma::fuse
