#include "fuse/read_ahead.h"

#include <fstream>
#include <string>

#include "fuse/mountinfo.h"

namespace nfsrdma::fuse {
namespace {

/// Two requests, so that one is under way while the other is used.
constexpr int kKiB = 2048;

}  // namespace

void read_ahead(const std::string& mountpoint) {
  const auto mount = mounted_at(mountpoint);
  if (!mount) return;
  std::ofstream("/sys/class/bdi/" + mount->device + "/read_ahead_kb") << kKiB;
}

}  // namespace nfsrdma::fuse
