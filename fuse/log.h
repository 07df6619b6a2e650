// Where the daemon's messages go. Each is one line, whatever the names in it contain: escapes are put in here and nowhere
// else (nfsrdma/one_line.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "fuse/options.h"

namespace nfsrdma::fuse {

using Log = std::function<void(const std::string&)>;

/// Once the mount stands: `--log`'s file, standard error in the foreground, else syslog.
Log log_of(const MountOptions& options);

/// "nfsrdma-fuse: <text>" on standard error.
void say(std::string_view text);

/// Each line of a text, such as the statistics, as a message of its own.
void log_lines(const Log& log, std::string_view text);

}  // namespace nfsrdma::fuse
