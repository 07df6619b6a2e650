// /proc/self/mountinfo (proc_pid_mountinfo(5)). Plain text in, plain values out.
#pragma once

#include <optional>
#include <string>

namespace nfsrdma::fuse {

struct MountInfo {
  std::string device;  ///< "0:52"
  std::string options, type, super_options;
};

/// The mount at the place; of several, what lies on top.
std::optional<MountInfo> topmost_mount(const std::string& mountinfo, const std::string& mountpoint);

}  // namespace nfsrdma::fuse
