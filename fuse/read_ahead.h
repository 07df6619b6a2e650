// Sets how far the kernel reads ahead on a mount.
#pragma once

#include <cstddef>
#include <string>

namespace nfsrdma::fuse {

/// Two of the largest requests that the kernel makes, so that one is under way while the other is used. To keep the path
/// to a distant server full is left to the file layer (fs/read_window.h), which reads ahead for sequential readers only:
/// the kernel reads just as much around each fault in a mapping, wanted or not.
inline constexpr std::size_t kKernelReadAhead = 2U << 20;

/// FUSE file systems get a read-ahead of 128 KiB, in requests of that size, and may only ask for less. Root may set more,
/// in sysfs, once the kernel has taken the answer to FUSE_INIT. It holds for files that are opened from then on. Returns
/// what the kernel reads ahead now; 0 if this process may not set it.
std::size_t set_kernel_read_ahead(const std::string& mountpoint);

}  // namespace nfsrdma::fuse
