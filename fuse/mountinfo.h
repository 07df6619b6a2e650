// Where file systems are mounted: /proc/self/mountinfo (proc_pid_mountinfo(5)).
#pragma once

#include <optional>
#include <string>

namespace nfsrdma::fuse {

struct MountInfo {
  std::string device;  ///< "0:52"
  std::string options, type, super_options;
  /// It is a mount of this program, of this process or another.
  [[nodiscard]] bool is_nfsrdma() const { return type == "fuse.nfsrdma"; }
};

/// The mount at the place; of several, what lies on top. `mountinfo`: the text of the file.
std::optional<MountInfo> topmost_mount(const std::string& mountinfo, const std::string& mountpoint);
/// Whether there is a mount at the path or below it.
bool is_mounted_below(const std::string& mountinfo, const std::string& path);
/// The same as this process sees it now.
std::optional<MountInfo> mounted_at(const std::string& mountpoint);
bool is_mounted_below(const std::string& path);

}  // namespace nfsrdma::fuse
