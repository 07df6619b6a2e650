// How far the kernel reads ahead on a mount.
#pragma once

#include <string>

namespace nfsrdma::fuse {

/// FUSE file systems get 128 KiB, in requests of that size, and may only ask for less. Root may set more
/// (/sys/class/bdi), once the mount has begun; for others nothing happens.
void read_ahead(const std::string& mountpoint);

}  // namespace nfsrdma::fuse
