// The ioctls of a ring (libclient/ring/layout.h), as the kernel hands them to a mount. There are none with
// `noring`.
#pragma once

#include "fuse/mount.h"

namespace nfsrdma::fuse {

/// For fuse_lowlevel_ops. Answers ENOTTY to any other ioctl, and if the descriptor is not one of a file.
void op_ring_ioctl(fuse_req_t raw, fuse_ino_t inode, unsigned command, void* argument, fuse_file_info* info,
                   unsigned flags, const void* in, std::size_t in_size, std::size_t out_size);

}  // namespace nfsrdma::fuse
