// mount -o remount: what the kernel keeps of a mount can be changed while it stands (ro, noatime, nosuid,
// nodev, noexec and their opposites), what the daemon was started with cannot.
//
// What is given again as it is, is no change: mount(8) passes all that fstab(5) has for a mount point.
#pragma once

#include <string>
#include <vector>

#include "fuse/options.h"

namespace nfsrdma::fuse {

/// Does it.
Status remount(const MountOptions& options);

/// What mount(2) is to be given: the flags of the topmost mount there, with those of `words` put upon them.
Result<unsigned long> remount_flags(const std::string& mountinfo, const std::string& mountpoint,
                                    const std::vector<std::string>& words);
/// An Error names the first of `words` that would change one of the options `in_force` (of .nfsrdma-stats).
Status check_unchanged(const std::string& in_force, const std::vector<std::string>& words);

}  // namespace nfsrdma::fuse
