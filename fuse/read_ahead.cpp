#include "fuse/read_ahead.h"

#include <fstream>

#include "fuse/mountinfo.h"

namespace nfsrdma::fuse {

std::size_t set_kernel_read_ahead(const std::string& mountpoint) {
  constexpr std::size_t unit = 1024;
  const auto mount = mounted_at(mountpoint);
  if (!mount) return 0;
  std::fstream setting("/sys/class/bdi/" + mount->device + "/read_ahead_kb");
  if (!(setting << kKernelReadAhead / unit << std::flush)) return 0;
  std::size_t is_set = 0;
  setting.seekg(0) >> is_set;  // the kernel rounds to pages
  return is_set * unit;
}

}  // namespace nfsrdma::fuse
