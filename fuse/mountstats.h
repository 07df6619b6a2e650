// The statistics of a mount in the format of /proc/self/mountstats, which mountstats(8) and nfsiostat(8) read:
// the content of .nfsrdma-mountstats. Linux's client writes this format, version 1.1, for its own mounts. What
// it counts and a FUSE file system cannot see, such as the page cache, is 0.
//
// Depends neither on libfuse nor on a mount.
#pragma once

#include <string>

#include "fuse/statistics.h"

namespace nfsrdma::fuse {

std::string mountstats_text(const Picture& picture);

}  // namespace nfsrdma::fuse
