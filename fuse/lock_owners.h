// Who has locked through which open file: what the kernel does not say when a file is closed.
//
// A lock has an owner, a number that the kernel makes up: for POSIX locks the process (its table of files),
// for flock(2) and for locks of an open file description (F_OFD_SETLK) that description. When a lock is asked
// for there is no telling which it is. When it goes, there is:
//  - a process's locks on a file go at any close of that file by it (fcntl_locking(2)), which is a FLUSH that
//    names it, maybe through another descriptor than those that it locked through;
//  - what has been locked through an open file and was not let go so when its RELEASE comes (the last
//    descriptor is closed, in every process) belongs to the description. Each process that had a descriptor
//    of it has closed it, so its own locks are gone by then.
//
// Who the kernel says asked for the lock is remembered, too, for F_GETLK.
//
// Plain values; confined to the loop's thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace nfsrdma::fuse {

class LockOwners {
 public:
  using Inode = std::uint64_t;
  using Owner = std::uint64_t;
  using File = std::uint64_t;  ///< an open file's number (fuse_file_info::fh)

  /// `owner` asks for a lock, or has got one, through `file`. To be told both times: a close() may come
  /// between.
  void locks(Inode inode, File file, Owner owner, pid_t process);
  /// `owner` closes a descriptor of the inode: the open files that it has locked through.
  std::vector<File> closes(Inode inode, Owner owner);
  /// The last descriptor of `file` is closed: the owners whose locks go with it.
  std::vector<Owner> releases(Inode inode, File file);
  /// Whose lock it is; 0: not known.
  [[nodiscard]] pid_t process(Inode inode, Owner owner) const;
  [[nodiscard]] bool empty() const { return inodes_.empty(); }

 private:
  struct Locker {
    pid_t process = 0;
    std::set<File> files;
  };
  std::map<Inode, std::map<Owner, Locker>> inodes_;
};

}  // namespace nfsrdma::fuse
