// The ioctls of a ring (libclient/ring/layout.h), as the kernel hands them to a mount. `noring`: there are none.
#pragma once

#include "fuse/mount.h"

namespace nfsrdma::fuse {

/// For fuse_lowlevel_ops. ENOTTY: it is none of these, or the descriptor is of no file.
void op_ring_ioctl(fuse_req_t raw, fuse_ino_t inode, unsigned command, void* argument, fuse_file_info* info,
                   unsigned flags, const void* in, std::size_t in_size, std::size_t out_size);

}  // namespace nfsrdma::fuse
