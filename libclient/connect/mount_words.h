// The options that only a mount has, by name, for the configuration's files: the library reads these files, too,
// and must tell an option of the mount from a typing error.
//
// fuse/mount_options.cpp has what each option does. It compares its table with this one when it is compiled.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace nfsrdma::connect {

/// How an option may be written.
enum class Form : unsigned char { word = 1, valued = 2, either = 3 };

struct MountWord {
  std::string_view name;
  Form form = Form::word;
  /// An option of the library that this is another name for: what stands in place of the name and of '='.
  std::string_view stands_for = {};
  bool in_files = true;  ///< false: it means something on a command line or in /etc/fstab only

  [[nodiscard]] constexpr bool is_word() const { return (static_cast<unsigned>(form) & 1U) != 0; }
  [[nodiscard]] constexpr bool is_valued() const { return (static_cast<unsigned>(form) & 2U) != 0; }
};

constexpr MountWord valued(std::string_view name) {
  return {name, Form::valued};
}
constexpr MountWord not_in_files(std::string_view name, Form form = Form::word) {
  return {name, form, {}, false};
}

constexpr std::array mount_words{
    MountWord{"hard"},
    MountWord{"soft"},
    MountWord{"softerr"},
    valued("retrans"),
    MountWord{"minorversion", Form::valued, "vers=4."},
    MountWord{"nfsvers", Form::valued, "vers="},
    MountWord{"v4.2", Form::word, "vers=4.2"},
    MountWord{"v4.1", Form::word, "vers=4.1"},
    MountWord{"v4.0", Form::word, "vers=4.0"},
    MountWord{"v4", Form::word, "vers=4"},
    MountWord{"v3", Form::word, "vers=3"},
    MountWord{"v2", Form::word, "vers=2"},
    MountWord{"mountaddr", Form::valued, "mounthost="},
    valued("acregmin"),
    valued("acregmax"),
    valued("acdirmin"),
    valued("acdirmax"),
    valued("actimeo"),
    MountWord{"ac"},
    MountWord{"noac"},
    valued("lookupcache"),
    MountWord{"cto"},
    MountWord{"nocto"},
    MountWord{"sync"},
    MountWord{"async"},
    valued("write"),
    MountWord{"writeback_cache"},
    MountWord{"ring"},
    MountWord{"noring"},
    MountWord{"lock"},
    MountWord{"nolock"},
    valued("local_lock"),
    valued("clientid"),
    valued("metrics"),
    valued("metrics_interval"),
    valued("retry"),
    MountWord{"bg"},
    MountWord{"fg"},
    not_in_files("sloppy"),
    not_in_files("remount"),
    MountWord{"ro"},
    MountWord{"rw"},
    valued("mountvers"),
    valued("proto"),
    MountWord{"rdma"},
    MountWord{"tcp"},
    MountWord{"fsc", Form::either},
    MountWord{"nofsc"},
    MountWord{"acl"},
    MountWord{"noacl"},
    MountWord{"sharecache"},
    MountWord{"nosharecache"},
    MountWord{"resvport"},
    MountWord{"noresvport"},
    MountWord{"rdirplus", Form::either},
    MountWord{"nordirplus"},
    MountWord{"softreval"},
    MountWord{"nosoftreval"},
    valued("max_connect"),
    MountWord{"trunkdiscovery"},
    MountWord{"notrunkdiscovery"},
    MountWord{"migration"},
    MountWord{"nomigration"},
    MountWord{"intr"},
    MountWord{"nointr"},
    MountWord{"posix"},
    MountWord{"noposix"},
    valued("namlen"),
    valued("bsize"),
    MountWord{"alignwrite"},
    MountWord{"noalignwrite"},
    valued("fatal_neterrors"),
    valued("xprtsec"),
    MountWord{"udp"},
    MountWord{"allow_other"},
    MountWord{"allow_root"},
    MountWord{"default_permissions"},
    MountWord{"auto_unmount"},
    MountWord{"suid"},
    MountWord{"nosuid"},
    MountWord{"dev"},
    MountWord{"nodev"},
    MountWord{"exec"},
    MountWord{"noexec"},
    MountWord{"atime"},
    MountWord{"noatime"},
    MountWord{"dirsync"},
    valued("context"),
    valued("fscontext"),
    valued("defcontext"),
    valued("rootcontext"),
    not_in_files("defaults"),
    not_in_files("_netdev"),
    not_in_files("nofail"),
    not_in_files("auto"),
    not_in_files("noauto"),
    not_in_files("user", Form::either),
    not_in_files("nouser"),
    not_in_files("users"),
    not_in_files("nousers"),
    not_in_files("owner"),
    not_in_files("noowner"),
    not_in_files("group"),
    not_in_files("nogroup"),
    not_in_files("relatime"),
    not_in_files("norelatime"),
    not_in_files("strictatime"),
    not_in_files("nostrictatime"),
    not_in_files("lazytime"),
    not_in_files("nolazytime"),
    not_in_files("diratime"),
    not_in_files("nodiratime"),
    not_in_files("iversion"),
    not_in_files("noiversion"),
    not_in_files("mand"),
    not_in_files("nomand"),
    not_in_files("silent"),
    not_in_files("loud"),
    not_in_files("comment", Form::valued),
    not_in_files("addr", Form::valued),
    not_in_files("helper", Form::valued),
    not_in_files("uhelper", Form::valued),
};

/// Returns the option, or null if the mount has none of this name.
constexpr const MountWord* find_mount_word(std::string_view name) {
  const auto* const found = std::ranges::find(mount_words, name, &MountWord::name);
  return found == mount_words.end() ? nullptr : found;
}

}  // namespace nfsrdma::connect
