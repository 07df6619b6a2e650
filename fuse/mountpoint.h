// Examines the place where the file system is to be mounted, so that an error says what is wrong there.
#pragma once

#include <optional>
#include <string>

#include "async/descriptor.h"
#include "nfsrdma/result.h"

namespace nfsrdma::fuse {

/// A process with the right to mount can open /dev/fuse, mount with that descriptor, and pass it on to this program as
/// the mount point "/dev/fd/N", which then needs no rights. The mount is where that process has made it, maybe in
/// another mount namespace: this program knows no path of it, and cannot unmount it.
/// Returns N, or nothing if the text is a path.
std::optional<int> passed_descriptor(const std::string& mountpoint);
/// Returns an Error unless the descriptor is an open /dev/fuse. Programs that this one starts do not get it.
Status check_passed_descriptor(int descriptor);

/// Returns the absolute path without symbolic links. A relative path would mean something else after
/// chdir("/").
Result<std::string> find_mountpoint(const std::string& given);

/// Returns an Error unless the mount point is a directory that can be used, and on which `source` is not
/// mounted.
Status check_mountpoint(const std::string& mountpoint, const std::string& source);

/// Returns an Error (EBUSY) if `source` is mounted at the mount point, and nothing on top of that mount.
/// `mountinfo` is the text of the file. Another file system at the mount point is no error, because mounts may
/// be stacked, and an automount leaves one there.
Status check_not_mounted(const std::string& mountinfo, const std::string& mountpoint,
                         const std::string& source);

/// Lets one process of this user at a time mount. Two processes that retry the same mount would otherwise
/// both find the mount point free. A process that cannot have the lock within a second goes on without it.
class MountingLock {
 public:
  MountingLock();

 private:
  async::Descriptor directory_;
};

}  // namespace nfsrdma::fuse
