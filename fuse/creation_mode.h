// The mode of an object that is created in a directory: the requested mode less the process's umask, unless
// the directory has an access control list that new objects inherit. In that case the list decides and the
// umask is ignored (acl(5); RFC 8275 has the reasons).
//
// The kernel leaves the umask to this program (FUSE_CAP_DONT_MASK). If the umask would clear a bit, this
// program asks the server for the directory's list. The answer is cached for as long as other attributes of
// directories; until then a list that another client sets there has no effect. If the server cannot be asked,
// the umask applies.
//
// Confined to the loop's thread. The FileSystem must outlive the tasks.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "fs/file_system.h"

namespace nfsrdma::fuse {

class CreationMode {
 public:
  async::Soon<std::uint32_t> of(fs::FileSystem& files, async::Loop& loop, fs::Caller caller,
                                std::uint64_t directory, std::uint32_t mode, std::uint32_t umask);
  /// Called when the directory's lists may have changed.
  void forget(std::uint64_t directory) {
    known_.erase(directory);
    ++forgotten_;
  }
  void believe_for(async::Clock::duration time) { believed_ = time; }

 private:
  async::Task<std::uint32_t> ask(fs::FileSystem& files, async::Loop& loop, fs::Caller caller,
                                 std::uint64_t directory, std::uint32_t mode, std::uint32_t umask);
  static constexpr std::size_t kMost = 4096;
  struct Known {
    bool inherits = false;
    async::TimePoint until;
  };
  std::unordered_map<std::uint64_t, Known> known_;  // by inode
  std::uint64_t forgotten_ = 0;                     // number of calls to forget()
  async::Clock::duration believed_ = std::chrono::seconds(30);
};

}  // namespace nfsrdma::fuse
