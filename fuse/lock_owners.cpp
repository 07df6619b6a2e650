#include "fuse/lock_owners.h"

namespace nfsrdma::fuse {

void LockOwners::locks(Inode inode, File file, Owner owner, pid_t process) {
  Locker& locker = inodes_[inode][owner];
  locker.process = process;
  locker.files.insert(file);
}

std::vector<LockOwners::File> LockOwners::closes(Inode inode, Owner owner) {
  const auto of = inodes_.find(inode);
  if (of == inodes_.end()) return {};
  const auto locker = of->second.find(owner);
  if (locker == of->second.end()) return {};
  std::vector<File> out(locker->second.files.begin(), locker->second.files.end());
  of->second.erase(locker);
  if (of->second.empty()) inodes_.erase(of);
  return out;
}

std::vector<LockOwners::Owner> LockOwners::releases(Inode inode, File file) {
  std::vector<Owner> out;
  const auto of = inodes_.find(inode);
  if (of == inodes_.end()) return out;
  for (auto locker = of->second.begin(); locker != of->second.end();) {
    const bool through_it = locker->second.files.erase(file) != 0;
    const bool last = locker->second.files.empty();
    if (through_it && last) out.push_back(locker->first);
    locker = last ? of->second.erase(locker) : std::next(locker);
  }
  if (of->second.empty()) inodes_.erase(of);
  return out;
}

pid_t LockOwners::process(Inode inode, Owner owner) const {
  const auto of = inodes_.find(inode);
  if (of == inodes_.end()) return 0;
  const auto locker = of->second.find(owner);
  return locker == of->second.end() ? 0 : locker->second.process;
}

}  // namespace nfsrdma::fuse
