// The command line of nfsrdma-fuse and of mount.nfsrdma, and mount options named as in nfs(5).
//
// Plain values; nothing here touches the network or the file system.
#pragma once

#include <string>
#include <vector>

#include "fs/file_system.h"
#include "nfsrdma/options.h"

namespace nfsrdma::fuse {

struct MountOptions {
  std::string source;  ///< as given: host:/path
  std::string mountpoint;
  Target target;
  fs::Options cache;
  bool hard = true;
  unsigned retrans = 2;
  bool writeback = false;                         ///< the kernel gathers writes
  bool local_flock = false, local_posix = false;  ///< local_lock
  bool foreground = false, help = false, version = false;
  bool fake = false;                ///< -f of mount(8): everything but the mount
  std::string log;                  ///< a file for messages, instead of syslog
  std::vector<std::string> kernel;  ///< for libfuse
};

/// `name` is argv[0]: a name that begins with "mount." makes it mount(8)'s helper, whose -f, -n, -s and -v
/// mean something else.
Result<MountOptions> parse_command_line(const std::string& name, const std::vector<std::string>& words);
/// What --help prints.
std::string help_text(const std::string& name);

}  // namespace nfsrdma::fuse
