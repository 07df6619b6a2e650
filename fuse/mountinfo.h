// Reads where file systems are mounted: /proc/self/mountinfo (proc_pid_mountinfo(5)).
#pragma once

#include <optional>
#include <string>

namespace nfsrdma::fuse {

struct MountInfo {
  std::string device;  ///< "0:52"
  std::string root;    ///< the part of the file system that is mounted here: "/" is all of it
  std::string source;  ///< for a mount of this program: host:/path
  std::string options, type, super_options;
  /// Returns true if this program has made the mount, in this process or another.
  [[nodiscard]] bool is_nfsrdma() const { return type == "fuse.nfsrdma"; }
};

/// Returns the mount at the mount point, and the topmost one if there are several. `mountinfo` is the text of
/// the file.
std::optional<MountInfo> topmost_mount(const std::string& mountinfo, const std::string& mountpoint);
/// Returns true if there is a mount at the path or below it.
bool is_mounted_below(const std::string& mountinfo, const std::string& path);
/// Returns the text of the file for this process.
std::string mountinfo_now();
/// These two look at the mounts that this process sees now.
std::optional<MountInfo> mounted_at(const std::string& mountpoint);
bool is_mounted_below(const std::string& path);

}  // namespace nfsrdma::fuse
