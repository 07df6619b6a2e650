// Defaults of options that users and administrators write down: /etc/nfsrdma.conf, ~/.config/nfsrdma.conf, and the
// environment variable NFSRDMA_OPTIONS. nfsrdma.conf(5) describes the syntax, which is that of nfsmount.conf(5).
//
// Precedence, the highest first. This list is the only one; read_settings() returns settings in the opposite
// order, so that the last one of an option counts.
//
//     1. the command line, the target's URL, and what a program sets
//     2. NFSRDMA_OPTIONS
//     3. the user's file
//     4. the system's file
//
// Within a file: [mountpoint], [export], [server], [defaults]; of several exports that lead to the target, the one
// with the longest path. Of lines that are equal in all that, the last one counts.
//
// Who may write a file: the process does what the file says, with its own rights (which keys are used, whether
// users are trusted, whether set-user-ID programs run on a mount). A file that somebody else could have written is
// therefore an error, and so is a system's file that cannot be read: a mount that goes on without it might not
// encrypt. A program with raised rights (AT_SECURE) ignores the environment and the user's file.
//
// Failure: every error names the file and, if there is one, the line. The functions keep no state, and may be called
// from any thread; those that read the environment must not run while another thread changes it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "connect/options.h"

namespace nfsrdma::connect {

/// An option that a configuration sets.
struct Setting {
  std::string name;
  std::optional<std::string> value;  ///< nothing: an option without a value, such as "soft"
  std::string origin;                ///< "/etc/nfsrdma.conf:12", or "NFSRDMA_OPTIONS"

  /// Returns the option as it is written after -o.
  [[nodiscard]] std::string word() const { return value ? name + "=" + *value : name; }
};

/// The target, and for a mount its place, that settings are looked up for.
struct Subject {
  std::string host, path;
  std::string mountpoint;  ///< absolute; empty: it is not for a mount
};

/// A section of a file. Its kinds are ordered from the general to the particular.
struct Section {
  enum class Kind : unsigned char { defaults, server, exported, mountpoint };
  Kind kind = Kind::defaults;
  std::string host;  ///< of a server or an export, as normal_host() returns it
  std::string path;  ///< of an export or a mount point, without a '/' at its end
  std::vector<Setting> settings;

  [[nodiscard]] bool is_for(const Subject& subject) const;
};

/// Parses a file's text. `file` is its name, for errors and for Setting::origin.
Result<std::vector<Section>> parse_configuration(std::string_view text, const std::string& file);
/// Returns the settings of the sections that are for the subject; what counts more comes later.
std::vector<Setting> settings_for(const std::vector<Section>& sections, const Subject& subject);
/// Parses a list as after -o.
Result<std::vector<Setting>> parse_settings(std::string_view list, const std::string& origin);
/// Returns the host's name in lower case, without the brackets of an IPv6 address and the full stop at its end.
std::string normal_host(std::string_view host);

/// Where a process finds its configuration.
struct Sources {
  std::string system_file = "/etc/nfsrdma.conf";
  std::string user_file;            ///< empty: none
  std::optional<std::string> only;  ///< NFSRDMA_CONFIG: "none", or the file to read in place of both
  std::string options;              ///< NFSRDMA_OPTIONS
  uid_t user = 0;                   ///< files may belong to this user,
  uid_t administrator = 0;          ///< to this one,
  static constexpr uid_t root = 0;  ///< and to root

  static Sources of_process();
};

/// Returns all settings for the subject; what counts more comes later. `config` is the value of the option
/// of that name, and goes before NFSRDMA_CONFIG; "none" ignores NFSRDMA_OPTIONS, too.
Result<std::vector<Setting>> read_settings(const Sources& sources, const std::string& config,
                                           const Subject& subject);

/// Sets those options of the target that still have their defaults. Settings that only a mount has are left out.
Status configure(Target& target, const Sources& sources);

}  // namespace nfsrdma::connect
