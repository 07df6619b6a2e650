// The daemon's log. Each message is one line, whatever the names in it contain, because escapes are inserted
// here and nowhere else (nfsrdma/one_line.h).
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "fuse/mount_options.h"

namespace nfsrdma::fuse {

using Log = std::function<void(const std::string&)>;

/// Returns the log of a mount that is running: `--log`'s file, standard error in the foreground, else syslog.
/// With --log-format=json the lines of a file and of standard error are JSON; syslog has fields of its own.
Log log_of(const MountOptions& options);
/// Returns a function that writes to standard error, in the format of --log-format.
Log console_of(const MountOptions& options);
/// Returns a message as an object of JSON: {"time": ..., "program": "nfsrdma-fuse", "message": ...}. The time is
/// UTC, with milliseconds (RFC 3339).
std::string json_line(std::string_view text, std::chrono::system_clock::time_point now);

/// Returns an Error if `file`, the value of --log, cannot be written. An empty one means syslog.
Status check_log(const std::string& file);

/// Writes "nfsrdma-fuse: <text>" to standard error.
void say(std::string_view text);

/// Logs each line of a text, such as the statistics, as a message of its own.
void log_lines(const Log& log, std::string_view text);

}  // namespace nfsrdma::fuse
