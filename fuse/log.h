// The daemon's log. Each message is one line, whatever the names in it contain, because escapes are inserted
// here and nowhere else (nfsrdma/one_line.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "fuse/mount_options.h"

namespace nfsrdma::fuse {

using Log = std::function<void(const std::string&)>;

/// Returns the log of a mount that is running: `--log`'s file, standard error in the foreground, else syslog.
Log log_of(const MountOptions& options);

/// Returns an Error if `file`, the value of --log, cannot be written. An empty one means syslog.
Status check_log(const std::string& file);

/// Writes "nfsrdma-fuse: <text>" to standard error.
void say(std::string_view text);

/// Logs each line of a text, such as the statistics, as a message of its own.
void log_lines(const Log& log, std::string_view text);

}  // namespace nfsrdma::fuse
