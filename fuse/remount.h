// mount -o remount: changes what the kernel keeps of a mount (ro, noatime, nosuid, nodev, noexec and their
// opposites). The options that the daemon was started with cannot be changed while it runs.
//
// An option that is given again with its present value is no change, because mount(8) passes all options that
// fstab(5) has for a mount point.
#pragma once

#include <string>
#include <vector>

#include "fuse/mount_options.h"

namespace nfsrdma::fuse {

/// Carries the remount out.
Status remount(const MountOptions& options);

/// Returns the flags for mount(2): those of the topmost mount there, changed by `words`.
Result<unsigned long> remount_flags(const std::string& mountinfo, const std::string& mountpoint,
                                    const std::vector<std::string>& words);
/// Returns an Error that names the first of `words` that would change one of the options `in_force` (of
/// .nfsrdma-stats).
Status check_unchanged(const std::string& in_force, const std::vector<std::string>& words);

}  // namespace nfsrdma::fuse
