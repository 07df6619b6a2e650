// Records which lock owners have locked through which open files. The kernel does not say this when a file is
// closed.
//
// A lock has an owner, which is a number that the kernel makes up. For POSIX locks it stands for the process
// (its table of files). For flock(2) and for locks of an open file description (F_OFD_SETLK) it stands for
// that description. A request for a lock does not show which of these the owner is. The end of the lock does:
//  - A process's locks on a file end at any close of that file by the process (fcntl_locking(2)). That close
// is a FLUSH that names the process's owner, and may come through another descriptor than those that the
// process locked through.
//  - Locks that were made through an open file, and have not ended in that way when its RELEASE comes (the
// last descriptor is closed, in every process), belong to the description. Each process that had a descriptor
// of it has closed it, so the locks of processes have ended by then.
//
// The process that asked for a lock, as the kernel reports it, is recorded too, for F_GETLK.
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

  /// Called when `owner` asks for a lock through `file`, and again when `owner` has got it, because a close()
  /// may come between the two.
  void locks(Inode inode, File file, Owner owner, pid_t process);
  /// Called when `owner` closes a descriptor of the inode. Returns the open files that `owner` has locked
  /// through.
  std::vector<File> closes(Inode inode, Owner owner);
  /// Called when the last descriptor of `file` is closed. Returns the owners whose locks end with it: those
  /// that have locked through no other open file.
  std::vector<Owner> releases(Inode inode, File file);
  /// Returns the process that asked for the owner's lock, or 0 if it is not known.
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
