#include "fuse/mount_options.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

namespace nfsrdma::fuse {
namespace {

Error usage(const std::string& message) {
  return {ErrorKind::usage, EINVAL, "", "", message};
}

std::optional<unsigned> number(std::string_view text, unsigned most) {
  unsigned value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || stop != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

/// A mount option. `set` returns false if the option does not accept the value.
struct Row {
  const char* name;
  const char* values;  ///< null: the option takes no value
  const char* text;
  bool (*set)(MountOptions&, std::string_view);
};

bool set_seconds(fs::Seconds& field, std::string_view text) {
  const auto value = number(text, 86400);
  if (value) field = fs::Seconds(*value);
  return value.has_value();
}
bool set_all_times(MountOptions& o, std::string_view text) {
  return set_seconds(o.cache.file_min, text) && set_seconds(o.cache.file_max, text) &&
         set_seconds(o.cache.directory_min, text) && set_seconds(o.cache.directory_max, text);
}
bool set_lookupcache(MountOptions& o, std::string_view text) {
  if (text != "all" && text != "none" && text != "pos" && text != "positive") return false;
  o.cache.names = text != "none";
  o.cache.negative_names = text == "all";
  return true;
}
bool set_local_lock(MountOptions& o, std::string_view text) {
  if (text != "none" && text != "all" && text != "flock" && text != "posix") return false;
  o.local_flock = text == "all" || text == "flock";
  o.local_posix = text == "all" || text == "posix";
  return true;
}

bool set_client_id(MountOptions& o, std::string_view text) {
  constexpr std::size_t kLongest = 200;
  o.client_id = text;
  return !text.empty() && text.size() <= kLongest;
}

constexpr std::array kRows{
    Row{"hard", nullptr, "wait without limit for a server that does not answer (default)",
        [](MountOptions& o, std::string_view) { return o.hard = true; }},
    Row{"soft", nullptr, "fail with ETIMEDOUT after timeo has passed once, and then retrans times more",
        [](MountOptions& o, std::string_view) { return !(o.hard = false); }},
    Row{"softerr", nullptr, "the same as soft",
        [](MountOptions& o, std::string_view) { return !(o.hard = false); }},
    Row{"retrans", "0 to 100", "how many times timeo passes again before soft gives up (default 2)",
        [](MountOptions& o, std::string_view text) {
          const auto value = number(text, 100);
          o.retrans = value.value_or(0);
          return value.has_value();
        }},
    Row{"minorversion", "0, 1 or 2", "the same as vers=4.0, 4.1 or 4.2",
        [](MountOptions& o, std::string_view text) {
          return o.target.options.set("vers", "4." + std::string(text)).has_value();
        }},
    Row{"nfsvers", "4.2, 4.1, 4.0, 4, 3 or 2", "the same as vers",
        [](MountOptions& o, std::string_view text) {
          return o.target.options.set("vers", text).has_value();
        }},
    Row{"v3", nullptr, "the same as vers=3",
        [](MountOptions& o, std::string_view) { return o.target.options.set("vers", "3").has_value(); }},
    Row{"v2", nullptr, "the same as vers=2",
        [](MountOptions& o, std::string_view) { return o.target.options.set("vers", "2").has_value(); }},
    Row{"mountvers", "3, or 1 for version 2",
        "accepted without effect: the version of the mount service always follows the NFS version",
        [](MountOptions&, std::string_view text) { return text == "3" || text == "1"; }},
    Row{"proto", "rdma or rdma6",
        "accepted without effect: the transport is always RDMA, and fabric selects what carries it",
        [](MountOptions&, std::string_view text) { return text == "rdma" || text == "rdma6"; }},
    Row{"rdma", nullptr, "the same as proto=rdma", [](MountOptions&, std::string_view) { return true; }},
    Row{"acregmin", "seconds", "minimum time for which a file's attributes are cached (default 3)",
        [](MountOptions& o, std::string_view t) { return set_seconds(o.cache.file_min, t); }},
    Row{"acregmax", "seconds", "maximum time for which a file's attributes are cached (default 60)",
        [](MountOptions& o, std::string_view t) { return set_seconds(o.cache.file_max, t); }},
    Row{"acdirmin", "seconds", "the same as acregmin for directories (default 30)",
        [](MountOptions& o, std::string_view t) { return set_seconds(o.cache.directory_min, t); }},
    Row{"acdirmax", "seconds", "the same as acregmax for directories (default 60)",
        [](MountOptions& o, std::string_view t) { return set_seconds(o.cache.directory_max, t); }},
    Row{"actimeo", "seconds", "set all four of acregmin, acregmax, acdirmin and acdirmax", set_all_times},
    Row{"ac", nullptr, "cache attributes (default)", [](MountOptions&, std::string_view) { return true; }},
    Row{"noac", nullptr, "do not cache attributes, and write synchronously: the same as actimeo=0,sync",
        [](MountOptions& o, std::string_view) { return (o.cache.sync = true) && set_all_times(o, "0"); }},
    Row{"lookupcache", "all, none or pos",
        "the names that are cached: all, none, or only (pos) those that exist", set_lookupcache},
    Row{"cto", nullptr, "when a file is opened that has changed, drop its cached contents (default)",
        [](MountOptions& o, std::string_view) { return o.cache.close_to_open = true; }},
    Row{"nocto", nullptr, "keep the cached contents of such a file",
        [](MountOptions& o, std::string_view) { return !(o.cache.close_to_open = false); }},
    Row{"sync", nullptr, "a write returns when its data is on the server's disk",
        [](MountOptions& o, std::string_view) { return o.cache.sync = true; }},
    Row{"async", nullptr,
        "a write returns when its data is on its way; it is on the server's disk after fsync or close "
        "(default)",
        [](MountOptions& o, std::string_view) { return !(o.cache.sync = false); }},
    Row{"writeback_cache", nullptr,
        "let the kernel collect writes in its cache; only if nobody else writes to these files",
        [](MountOptions& o, std::string_view) { return o.cache.kernel_gathers = true; }},
    Row{"ring", nullptr,
        "allow programs to bypass the kernel for reads and writes, by nfsrdma/ring.h (default)",
        [](MountOptions& o, std::string_view) { return o.ring = true; }},
    Row{"noring", nullptr, "do not allow it",
        [](MountOptions& o, std::string_view) { return !(o.ring = false); }},
    Row{"lock", nullptr, "the same as local_lock=none",
        [](MountOptions& o, std::string_view) { return set_local_lock(o, "none"); }},
    Row{"nolock", nullptr, "the same as local_lock=all",
        [](MountOptions& o, std::string_view) { return set_local_lock(o, "all"); }},
    Row{"local_lock", "none, flock, posix or all", "the locks that hold on this machine only (default none)",
        set_local_lock},
    Row{"clientid", "a name",
        "the identity that this client presents to the server, if another machine has the same machine-id "
        "and host name",
        set_client_id},
    Row{"retry", "minutes",
        "how long to repeat the mount if the server cannot be reached (default 2; with bg 10000; for "
        "nfsrdma-fuse 0)",
        [](MountOptions& o, std::string_view text) {
          o.retry = number(text, 1000000);
          return o.retry.has_value();
        }},
    Row{"bg", nullptr, "after a first failure, repeat the mount in the background",
        [](MountOptions& o, std::string_view) { return o.background = true; }},
    Row{"fg", nullptr, "repeat the mount in the foreground (default)",
        [](MountOptions& o, std::string_view) { return !(o.background = false); }},
    Row{"remount", nullptr,
        "change the flags that the kernel keeps for a mount: ro, noatime, nosuid, nodev, noexec",
        [](MountOptions& o, std::string_view) { return o.remount = true; }},
    Row{"ro", nullptr, "mount read-only",
        [](MountOptions& o, std::string_view) {
          o.kernel.emplace_back("ro");
          return true;
        }},
    Row{"rw", nullptr, "mount for reading and writing (default)",
        [](MountOptions& o, std::string_view) {
          std::erase(o.kernel, "ro");
          return true;
        }},
};

/// Options of libfuse and of the kernel, which are passed on unchanged.
constexpr std::array kPassed{"allow_other",  "allow_root", "default_permissions",
                             "auto_unmount", "suid",       "nosuid",
                             "dev",          "nodev",      "exec",
                             "noexec",       "atime",      "noatime",
                             "dirsync"};
/// Options of fstab(5) and mount(8) that have had their effect before a helper is called.
constexpr std::array kIgnored{"defaults",    "_netdev",  "nofail",     "auto",     "noauto",
                              "user",        "nouser",   "users",      "nousers",  "owner",
                              "noowner",     "group",    "nogroup",    "relatime", "norelatime",
                              "strictatime", "diratime", "nodiratime", "intr",     "nointr"};
/// Ignored options that have a value. nfs(5)'s own helper adds addr for itself.
constexpr std::array kIgnoredWithValue{"comment", "user", "addr", "helper", "uhelper"};

Status set_option(MountOptions& options, std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const bool has_value = equals != std::string_view::npos;
  const std::string_view value = has_value ? word.substr(equals + 1) : std::string_view();
  const auto row = std::ranges::find_if(kRows, [&](const Row& r) { return r.name == name; });
  if (row != kRows.end()) {
    if (has_value == (row->values != nullptr) && row->set(options, value)) return {};
    if (row->values == nullptr) return usage("option '" + std::string(name) + "' takes no value");
    return usage("option '" + std::string(name) + "' takes " + row->values + ", not '" + std::string(value) +
                 "'");
  }
  if (!has_value && std::ranges::find(kPassed, name) != kPassed.end()) {
    options.kernel.emplace_back(name);
    return {};
  }
  const bool is_for_others =
      name.starts_with("x-") || name.starts_with("X-") ||
      (!has_value && std::ranges::find(kIgnored, name) != kIgnored.end()) ||
      (has_value && std::ranges::find(kIgnoredWithValue, name) != kIgnoredWithValue.end());
  if (is_for_others) return {};
  const bool known = std::ranges::any_of(connect::option_help(),
                                         [&](const connect::OptionHelp& help) { return help.name == name; });
  if (!known && options.sloppy) return {};
  return options.target.options.set(name, value);
}

}  // namespace

Status set_options(MountOptions& options, std::string_view list) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    if (word.empty()) continue;
    if (auto done = set_option(options, word); !done) return done;
    options.words.emplace_back(word);
  }
  return {};
}

namespace {

bool is_helper(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return name.substr(slash == std::string::npos ? 0 : slash + 1).starts_with("mount.");
}

/// Adds the defaults of every file system that root mounts by mount(8).
void add_defaults_of_root(MountOptions& options) {
  if (std::ranges::find(options.kernel, "allow_other") == options.kernel.end())
    options.kernel.emplace_back("allow_other");
  // Each of these options implies nosuid and nodev, which are libfuse's defaults.
  constexpr std::array kForUsers{"user", "users", "owner", "group"};
  const auto is_given = [&options](const char* word) {
    return std::ranges::find(options.words, word) != options.words.end();
  };
  if (std::ranges::any_of(kForUsers, is_given)) return;
  // The words are put in front, because the last option counts.
  for (const char* word : {"dev", "suid"}) options.kernel.insert(options.kernel.begin(), word);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ',' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

Result<MountOptions> parse_command_line(const std::string& name, const std::vector<std::string>& words,
                                        bool is_root) {
  MountOptions options;
  const bool helper = options.helper = is_helper(name);
  // The position of -s does not matter, because it concerns all options.
  options.sloppy = helper && std::ranges::find(words, "-s") != words.end();
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto argument = [&]() -> Result<std::string> {
      if (i + 1 == words.size()) return usage(word + " takes an argument");
      return words[++i];
    };
    if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word == "--version" || word == "-V") {
      options.version = true;
    } else if (word == "-o") {
      auto list = argument();
      if (!list) return list.error();
      if (auto done = set_options(options, *list); !done) return done.error();
    } else if (word == "--log") {
      auto file = argument();
      if (!file) return file.error();
      options.log = *file;
    } else if (helper && (word == "-n" || word == "-s" || word == "-v")) {
      // -n: no mtab is written. -s was handled above. -v: there is nothing to add to the messages.
    } else if (helper && word == "-f") {
      options.fake = true;
    } else if (helper && (word == "-t" || word == "-N")) {
      auto ignored = argument();
      if (!ignored) return ignored.error();
    } else if (!helper && word == "-f") {
      options.foreground = true;
    } else if (!helper && word == "-d") {
      options.foreground = true;
      options.kernel.emplace_back("debug");
    } else if (word.size() > 1 && word.starts_with('-')) {
      return usage("no such option: " + word + "; see --help");
    } else {
      operands.push_back(word);
    }
  }
  if (options.help || options.version) return options;
  if (operands.size() != 2) {
    return usage("two operands are needed, what to mount and where: " + name +
                 " host:/path /mountpoint; see --help");
  }
  if (options.cache.kernel_gathers && options.cache.sync) {
    return usage("writeback_cache cannot be combined with sync or noac: it delays writes, which they forbid");
  }
  // An ordinary user does not get them, because fusermount3 refuses options that the administrator has not
  // allowed.
  if (helper && is_root) add_defaults_of_root(options);
  options.source = operands[0];
  options.mountpoint = operands[1];
  auto target = connect::parse_target(options.source, options.target.options);
  if (!target) return target.error();
  options.target = std::move(*target);
  options.target.options.no_core = true;
  options.cache.rsize = options.target.options.rsize;
  options.cache.wsize = options.target.options.wsize;
  return options;
}

std::string help_text(const std::string& name) {
  const auto line = [](std::string left, const std::string& right) {
    left.resize(std::max<std::size_t>(left.size() + 2, 34), ' ');
    return "  " + left + right + "\n";
  };
  std::string out = "usage: " + name +
                    " host:/path MOUNTPOINT [-o option,option=value ...]\n\nMounts an export of an NFSv3 or "
                    "NFSv4 server over RDMA: through an RDMA device, or with iWARP\nover TCP where there is "
                    "none. Unmount it with fusermount3 -u MOUNTPOINT, or umount.\n\n";
  out += line("-f", "stay in the foreground, and write messages to standard error");
  out += line("-d", "like -f, and show every request of the kernel");
  out += line("--log FILE", "write messages to FILE instead of syslog");
  out += line("--help, --version", "");
  out += "\noptions, as in nfs(5):\n";
  for (const connect::OptionHelp& help : connect::option_help()) {
    out += line(std::string(help.name) + "=" + help.values, help.text);
  }
  for (const Row& row : kRows) {
    out += line(row.name + (row.values != nullptr ? "=" + std::string(row.values) : ""), row.text);
  }
  out += "\npassed on to the kernel or to libfuse:\n  ";
  for (const char* passed : kPassed) out += std::string(passed) + " ";
  return out + "\n";
}

}  // namespace nfsrdma::fuse
