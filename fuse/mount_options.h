// The command line of nfsrdma-fuse and of mount.nfsrdma, and mount options named as in nfs(5).
//
// Plain values; nothing here touches the network or the file system.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "connect/configuration.h"
#include "connect/options.h"
#include "fs/file_system.h"

namespace nfsrdma::fuse {

struct MountOptions {
  std::string source;  ///< as given: host:/path
  std::string mountpoint;
  connect::Target target;
  fs::CacheOptions cache;
  bool hard = true;
  unsigned retrans = 2;
  bool ring = true;                               ///< programs may have rings (nfsrdma/ring.h)
  bool local_flock = false, local_posix = false;  ///< local_lock
  bool foreground = false, help = false, version = false;
  bool verbose = false;           ///< -v: print each attempt, and the notes
  bool fake = false;              ///< -f of mount(8): do everything but the mount
  bool sloppy = false;            ///< -s of mount(8): ignore options that are not known
  bool remount = false;           ///< change the mount that is there
  bool background = false;        ///< bg: after a first failure go on trying in the background
  std::optional<unsigned> retry;  ///< minutes for which mounting is tried again
  bool helper = false;            ///< called by the name that mount(8) looks for
  std::string client_id;          ///< clientid
  std::string metrics;            ///< a file or a directory for metrics; empty: none
  std::chrono::seconds metrics_interval{15};
  std::string log;                  ///< a file for messages, instead of syslog
  bool json_log = false;            ///< messages are JSON
  std::vector<std::string> kernel;  ///< options for libfuse and the kernel
  std::vector<std::string> words;   ///< all options of -o, as they were given
  std::vector<std::string> notes;   ///< sentences about those of them that have no effect

  /// Returns how long mounting is tried again after the first failure. A program that was called as
  /// nfsrdma-fuse does not try again by default, so that the user in front of it sees at once what is wrong.
  [[nodiscard]] std::chrono::minutes patience() const {
    constexpr unsigned kBackground = 10000, kForeground = 2;  // as in nfs(5)
    const unsigned usual = background ? kBackground : helper ? kForeground : 0;
    return std::chrono::minutes(retry.value_or(usual));
  }
};

/// Sets what a list such as "ro,rsize=64K" says.
Status set_options(MountOptions& options, std::string_view list);

/// Escapes a value for an option list of libfuse, which splits the list at commas and removes a backslash in
/// front of any character.
std::string escaped(std::string_view text);

/// Returns the settings that the configuration has for a mount; `config` is the value of the option. What counts
/// more comes later.
using Defaults = std::function<Result<std::vector<connect::Setting>>(const std::string& config,
                                                                     const connect::Subject& subject)>;
inline Result<std::vector<connect::Setting>> no_defaults(const std::string& /*config*/,
                                                         const connect::Subject& /*subject*/) {
  return std::vector<connect::Setting>();
}

/// `name` is argv[0]. A name that begins with "mount." makes the program mount(8)'s helper, for which -f, -n
/// and -s mean something else. If root calls the helper (`is_root`), it has the defaults that mount(8)
/// has.
/// `defaults` supplies the settings of the configuration, which come before all options of the command line.
/// There are none for a remount, which changes what the command line says and nothing else.
Result<MountOptions> parse_command_line(const std::string& name, const std::vector<std::string>& words,
                                        bool is_root, const Defaults& defaults = no_defaults);
/// Returns true if a program of this name is mount(8)'s helper.
bool is_helper(const std::string& name);
/// Returns the text that --help prints.
std::string help_text(const std::string& name);

}  // namespace nfsrdma::fuse
