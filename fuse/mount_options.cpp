#include "fuse/mount_options.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "connect/mount_words.h"

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

/// The effect of an option on a mount.
enum class Effect : unsigned char {
  set,         ///< `set` changes the MountOptions
  passed,      ///< libfuse or the kernel gets the option unchanged
  for_others,  ///< mount(8), systemd or another program uses the option
  noted,       ///< no effect, for the reason that `text` gives, and which -v prints
  refused,     ///< for the reason that `text` gives, with the next step
};

/// A mount option. An option whose value may be left out has two rows. A name with '=' stands for one value
/// of an option, and its row precedes the one for the other values.
struct Row {
  const char* name;
  const char* values;  ///< null: the option takes no value
  const char* text;
  bool (*set)(MountOptions&, std::string_view) = nullptr;  ///< returns false if it does not accept the value
  Effect effect = Effect::set;

  [[nodiscard]] constexpr std::string_view plain_name() const {
    const std::string_view all = name;
    return all.substr(0, all.find('='));
  }
  [[nodiscard]] bool is_for(std::string_view word) const {
    const std::size_t equals = word.find('=');
    if (values == nullptr) return word == name;
    return equals != std::string_view::npos && word.substr(0, equals) == name;
  }
};
constexpr Row passed(const char* name, const char* values = nullptr) {
  return {name, values, "", nullptr, Effect::passed};
}
constexpr Row for_others(const char* name, const char* values = nullptr) {
  return {name, values, "", nullptr, Effect::for_others};
}
constexpr Row noted(const char* name, const char* text) {
  return {name, nullptr, text, nullptr, Effect::noted};
}
constexpr Row noted(const char* name, const char* values, const char* text) {
  return {name, values, text, nullptr, Effect::noted};
}
constexpr Row noted_number(const char* name, const char* text) {
  return {name, "a number", text,
          [](MountOptions&, std::string_view value) { return number(value, UINT_MAX).has_value(); },
          Effect::noted};
}
constexpr Row refused(const char* name, const char* values, const char* text) {
  return {name, values, text, nullptr, Effect::refused};
}

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

bool set_write(MountOptions& o, std::string_view text) {
  o.cache.sync = text == "wait";
  return text == "lazy" || text == "eager" || text == "wait";
}

bool set_client_id(MountOptions& o, std::string_view text) {
  constexpr std::size_t kLongest = 200;
  o.client_id = text;
  return !text.empty() && text.size() <= kLongest;
}

bool set_metrics(MountOptions& o, std::string_view text) {
  o.metrics = text;
  return text.starts_with('/');
}

bool set_metrics_interval(MountOptions& o, std::string_view text) {
  const auto value = number(text, 3600);
  o.metrics_interval = std::chrono::seconds(value.value_or(0));
  return o.metrics_interval.count() != 0;
}

bool set_version(MountOptions& o, std::string_view text) {
  return o.target.options.set("vers", text).has_value();
}

constexpr const char* kOwnTransport =
    "the transport is always RDMA; without an RDMA device, that is iWARP over TCP";
constexpr const char* kNoUdp =
    "NFS over RDMA does not run over UDP; leave the option out, or mount with type nfs";
constexpr const char* kOwnCache = "each mount has a cache of its own";
constexpr const char* kPorts = "NFS over RDMA uses an ordinary port, which its servers accept";
constexpr const char* kListing = "directories are listed with attributes when a program asks for both";
constexpr const char* kAcls = "access control lists are visible whenever the server supports them";
constexpr const char* kAddresses = "more addresses of the server are those that remoteports names";
constexpr const char* kMigration = "this client does not follow an export that moves to another server";
constexpr const char* kKill = "a program that waits for the server can always be killed";
constexpr const char* kDiskCache = "file contents are cached in memory, and not on a local disk";

/// The options of a mount, without those of the library (connect::option_help()).
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
    Row{"nfsvers", "4.2, 4.1, 4.0, 4, 3 or 2", "the same as vers", set_version},
    Row{"v4.2", nullptr, "the same as vers=4.2",
        [](MountOptions& o, std::string_view) { return set_version(o, "4.2"); }},
    Row{"v4.1", nullptr, "the same as vers=4.1",
        [](MountOptions& o, std::string_view) { return set_version(o, "4.1"); }},
    Row{"v4.0", nullptr, "the same as vers=4.0",
        [](MountOptions& o, std::string_view) { return set_version(o, "4.0"); }},
    Row{"v4", nullptr, "the same as vers=4",
        [](MountOptions& o, std::string_view) { return set_version(o, "4"); }},
    Row{"v3", nullptr, "the same as vers=3",
        [](MountOptions& o, std::string_view) { return set_version(o, "3"); }},
    Row{"v2", nullptr, "the same as vers=2",
        [](MountOptions& o, std::string_view) { return set_version(o, "2"); }},
    Row{"mountaddr", "an address", "the same as mounthost",
        [](MountOptions& o, std::string_view text) {
          return o.target.options.set("mounthost", text).has_value();
        }},
    Row{"acregmin", "seconds from 0 to 86400",
        "minimum time for which a file's attributes are cached (default 3)",
        [](MountOptions& o, std::string_view t) { return set_seconds(o.cache.file_min, t); }},
    Row{"acregmax", "seconds from 0 to 86400",
        "maximum time for which a file's attributes are cached (default 60)",
        [](MountOptions& o, std::string_view t) { return set_seconds(o.cache.file_max, t); }},
    Row{"acdirmin", "seconds from 0 to 86400", "the same as acregmin for directories (default 30)",
        [](MountOptions& o, std::string_view t) { return set_seconds(o.cache.directory_min, t); }},
    Row{"acdirmax", "seconds from 0 to 86400", "the same as acregmax for directories (default 60)",
        [](MountOptions& o, std::string_view t) { return set_seconds(o.cache.directory_max, t); }},
    Row{"actimeo", "seconds from 0 to 86400", "set all four of acregmin, acregmax, acdirmin and acdirmax",
        set_all_times},
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
    Row{"write", "lazy, eager or wait", "wait is the same as sync, lazy and eager are the same as async",
        set_write},
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
    Row{"metrics", "an absolute path",
        "write metrics to this file, or to a file in this directory, for Prometheus' node_exporter",
        set_metrics},
    Row{"metrics_interval", "seconds from 1 to 3600", "how often to write them (default 15)",
        set_metrics_interval},
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
    Row{"sloppy", nullptr, "ignore options that are not known",
        [](MountOptions& o, std::string_view) { return o.sloppy = true; }},
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
    // ---- options of nfs(5) that have no effect here ----
    Row{"mountvers", "3, or 1 for version 2", "the version of the mount service follows the NFS version",
        [](MountOptions&, std::string_view text) { return text == "3" || text == "1"; }, Effect::noted},
    noted("proto=tcp", kOwnTransport),
    noted("proto=tcp6", kOwnTransport),
    refused("proto=udp", nullptr, kNoUdp),
    refused("proto=udp6", nullptr, kNoUdp),
    Row{"proto", "rdma or rdma6", kOwnTransport,
        [](MountOptions&, std::string_view text) { return text == "rdma" || text == "rdma6"; },
        Effect::noted},
    noted("rdma", kOwnTransport),
    noted("tcp", kOwnTransport),
    noted("fsc", kDiskCache),
    noted("fsc", "a name", kDiskCache),
    noted("nofsc", kDiskCache),
    noted("acl", kAcls),
    noted("noacl", kAcls),
    noted("sharecache", kOwnCache),
    noted("nosharecache", kOwnCache),
    noted("resvport", kPorts),
    noted("noresvport", kPorts),
    noted("rdirplus", kListing),
    noted("rdirplus", "none or force", kListing),
    noted("nordirplus", kListing),
    noted("softreval", "cached attributes are used only while they are valid (see acregmin)"),
    noted("nosoftreval", "cached attributes are used only while they are valid (see acregmin)"),
    noted_number("max_connect", kAddresses),
    noted("trunkdiscovery", kAddresses),
    noted("notrunkdiscovery", kAddresses),
    noted("migration", kMigration),
    noted("nomigration", kMigration),
    noted("intr", kKill),
    noted("nointr", kKill),
    noted("posix", "the server says how long names may be"),
    noted("noposix", "the server says how long names may be"),
    noted_number("namlen", "the server says how long names may be"),
    noted_number("bsize", "rsize and wsize limit the size of requests"),
    noted("alignwrite", "the option writeback_cache decides how writes are collected"),
    noted("noalignwrite", "the option writeback_cache decides how writes are collected"),
    noted("fatal_neterrors", "default, none, or names of errors",
          "soft and hard decide how long a program waits for the server"),
    noted("xprtsec=none", "RDMA connections have no TLS"),
    // ---- options of nfs(5) that cannot be honored ----
    refused("udp", nullptr, kNoUdp),
    refused("xprtsec", "tls or mtls",
            "RDMA connections have no TLS; use sec=krb5p, which encrypts, or leave the option out"),
    // ---- options of libfuse and of the kernel ----
    passed("allow_other"),
    passed("allow_root"),
    passed("default_permissions"),
    passed("auto_unmount"),
    passed("suid"),
    passed("nosuid"),
    passed("dev"),
    passed("nodev"),
    passed("exec"),
    passed("noexec"),
    passed("atime"),
    passed("noatime"),
    passed("dirsync"),
    passed("context", "a label"),
    passed("fscontext", "a label"),
    passed("defcontext", "a label"),
    passed("rootcontext", "a label"),
    // ---- options that have had their effect before mount(8) calls a helper ----
    for_others("defaults"),
    for_others("_netdev"),
    for_others("nofail"),
    for_others("auto"),
    for_others("noauto"),
    for_others("user"),
    for_others("user", "a name"),
    for_others("nouser"),
    for_others("users"),
    for_others("nousers"),
    for_others("owner"),
    for_others("noowner"),
    for_others("group"),
    for_others("nogroup"),
    for_others("relatime"),
    for_others("norelatime"),
    for_others("strictatime"),
    for_others("nostrictatime"),
    for_others("lazytime"),
    for_others("nolazytime"),
    for_others("diratime"),
    for_others("nodiratime"),
    for_others("iversion"),
    for_others("noiversion"),
    for_others("mand"),
    for_others("nomand"),
    for_others("silent"),
    for_others("loud"),
    for_others("comment", "a text"),
    for_others("addr", "an address"),  // mount.nfs adds this one itself, so /proc/mounts has it
    for_others("helper", "a name"),
    for_others("uhelper", "a name"),
};

// ---- the table for the configuration's files, connect/mount_words.h, says of each option what kRows does ----

/// The facts about an option that connect::MountWord repeats.
struct Fact {
  std::string_view name;
  bool takes_value = false, in_files = true;
};
constexpr Fact fact_of(const Row& row) {
  const std::string_view name = row.plain_name();
  const bool is_for_command_line = name == "sloppy" || name == "remount";
  return {name, row.values != nullptr || name.size() != std::string_view(row.name).size(),
          row.effect != Effect::for_others && !is_for_command_line};
}
constexpr auto kFacts = [] {
  std::array<Fact, kRows.size()> out{};
  std::ranges::transform(kRows, out.begin(), fact_of);
  return out;
}();
constexpr bool is_in_step(const connect::MountWord& word) {
  bool is_word = false, is_valued = false;
  for (const Fact& fact : kFacts) {
    if (fact.name != word.name) continue;
    if (fact.in_files != word.in_files) return false;
    (fact.takes_value ? is_valued : is_word) = true;
  }
  return is_word == word.is_word() && is_valued == word.is_valued();
}
static_assert(std::ranges::all_of(connect::mount_words, is_in_step));
static_assert(std::ranges::all_of(kFacts, [](const Fact& fact) {
  return connect::find_mount_word(fact.name) != nullptr;
}));

bool is_foreign(std::string_view word) {
  return word.starts_with("x-") || word.starts_with("X-");
}

/// Returns the names of all options, each once.
std::vector<std::string_view> all_names() {
  std::vector<std::string_view> out;
  out.reserve(connect::option_help().size() + kRows.size());
  for (const connect::OptionHelp& help : connect::option_help()) out.emplace_back(help.name);
  for (const Row& row : kRows) {
    if (std::ranges::find(out, row.plain_name()) == out.end()) out.push_back(row.plain_name());
  }
  return out;
}

/// Returns the Error for a word whose option is known, but not in this form.
Error wrong_form(std::string_view name, std::string_view value) {
  const auto with_values = std::ranges::find_if(
      kRows, [name](const Row& row) { return row.plain_name() == name && row.values != nullptr; });
  const std::string option = "option '" + std::string(name) + "' takes ";
  if (with_values == kRows.end()) return usage(option + "no value");
  return usage(option + with_values->values + ", not '" + std::string(value) + "'");
}

Status apply(MountOptions& options, const Row& row, std::string_view word) {
  const std::string_view name = row.plain_name();
  const std::string_view value = word.substr(std::min(word.size(), name.size() + 1));
  const std::string reason = "option '" + std::string(word) + "' ";
  if (row.effect == Effect::refused) return usage(reason + "is not supported: " + row.text);
  if (row.set != nullptr && !row.set(options, value)) return wrong_form(name, value);
  if (row.effect == Effect::noted) options.notes.push_back(reason + "has no effect: " + row.text);
  if (row.effect == Effect::passed) options.kernel.emplace_back(word);
  return {};
}

Status set_option(MountOptions& options, std::string_view word) {
  const auto row = std::ranges::find_if(kRows, [word](const Row& r) { return r.is_for(word); });
  if (row != kRows.end()) return apply(options, *row, word);
  if (is_foreign(word)) return {};
  const std::string_view name = word.substr(0, word.find('='));
  const std::string_view value = word.substr(std::min(word.size(), name.size() + 1));
  if (std::ranges::find(kRows, name, &Row::plain_name) != kRows.end()) return wrong_form(name, value);
  const auto names = all_names();
  if (std::ranges::find(names, name) != names.end()) return options.target.options.set(name, value);
  if (options.sloppy) return {};
  return connect::unknown_option(name, names);
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

/// Returns true if a list of -o has the option.
bool lists_option(const std::vector<std::string>& words, const std::string& option) {
  bool is_list = false;  // the word before was -o
  for (const std::string& word : words) {
    const bool is_joined = word.starts_with("-o");
    const std::string list = is_joined ? word.substr(2) : is_list ? word : "";
    if (("," + list + ",").find("," + option + ",") != std::string::npos) return true;
    is_list = word == "-o";
  }
  return false;
}

Status set_each(MountOptions& options, const std::vector<std::string>& lists) {
  for (const std::string& list : lists) {
    if (auto done = set_options(options, list); !done) return done;
  }
  auto target = connect::parse_target(options.source, options.target.options);
  if (!target) return target.error();
  options.target = std::move(*target);
  return {};
}

/// Sets what the configuration says, and notes where each option comes from.
Status set_default(MountOptions& options, const connect::Setting& setting) {
  const std::string word = setting.word();
  if (auto done = set_option(options, word); !done)
    return usage(setting.origin + ": " + done.error().message());
  options.notes.push_back("option '" + word + "' is set by " + setting.origin);
  return {};
}

/// Sets the options of the command line, with those of the configuration before them. The command line is set twice,
/// because it says which configuration is read and for what.
Status set_lists(MountOptions& options, const std::vector<std::string>& lists, const Defaults& defaults) {
  MountOptions given = options;
  if (auto done = set_each(given, lists); !done) return done;
  const connect::Target& target = given.target;
  const auto settings = given.remount
                            ? Result(std::vector<connect::Setting>())
                            : defaults(target.options.config, {target.host, target.path, given.mountpoint});
  if (!settings) return settings.error();
  for (const connect::Setting& one : *settings) {
    if (auto done = set_default(options, one); !done) return done;
  }
  return set_each(options, lists);
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

bool is_helper(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return name.substr(slash == std::string::npos ? 0 : slash + 1).starts_with("mount.");
}

Result<MountOptions> parse_command_line(const std::string& name, const std::vector<std::string>& words,
                                        bool is_root, const Defaults& defaults) {
  MountOptions options;
  const bool helper = options.helper = is_helper(name);
  // The position of these does not matter, because they concern all options.
  options.sloppy = (helper && std::ranges::find(words, "-s") != words.end()) || lists_option(words, "sloppy");
  std::vector<std::string> operands, lists;
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
      lists.push_back(*list);
    } else if (word.starts_with("-o")) {
      lists.push_back(word.substr(2));
    } else if (word == "-r" || word == "-w") {
      lists.emplace_back(word == "-r" ? "ro" : "rw");
    } else if (word == "--log") {
      auto file = argument();
      if (!file) return file.error();
      options.log = *file;
    } else if (word == "--log-format" || word.starts_with("--log-format=")) {
      auto format = word == "--log-format" ? argument() : Result(word.substr(word.find('=') + 1));
      if (!format) return format.error();
      options.json_log = *format == "json";
      if (!options.json_log && *format != "text")
        return usage("--log-format takes text or json, not '" + *format + "'");
    } else if (word == "-v" || word == "--verbose") {
      options.verbose = true;
    } else if (helper && (word == "-n" || word == "-s")) {
      // -n: no mtab is written. -s was handled above.
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
  options.source = operands[0];
  options.mountpoint = operands[1];
  if (auto done = set_lists(options, lists, defaults); !done) return done.error();
  if (options.cache.kernel_gathers && options.cache.sync) {
    return usage("writeback_cache cannot be combined with sync or noac: it delays writes, which they forbid");
  }
  // An ordinary user does not get them, because fusermount3 refuses options that the administrator has not
  // allowed.
  if (helper && is_root) add_defaults_of_root(options);
  options.target.options.no_core = true;
  options.cache.rsize = options.target.options.rsize;
  options.cache.wsize = options.target.options.wsize;
  return options;
}

namespace {

/// Returns the names of these options, in lines for a terminal.
std::string names_of(Effect effect) {
  constexpr std::size_t kWidth = 76;
  std::string out, line = " ";
  for (const Row& row : kRows) {
    if (row.effect != effect) continue;
    const std::string word = std::string(row.name) + (row.values != nullptr ? "=..." : "");
    if (line.size() + word.size() > kWidth) out += std::exchange(line, " ") + "\n";
    line += " " + word;
  }
  return out + line;
}

}  // namespace

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
  out += line("-r, -w", "the same as -o ro, -o rw");
  out += line("-v, --verbose", "print each attempt to mount, and which options have no effect");
  out += line("--log FILE", "write messages to FILE instead of syslog");
  out += line("--log-format FORMAT",
              "text (default), or json: one object in a line, for standard error and --log");
  out += line("--help, --version", "");
  out += "\noptions, as in nfs(5):\n";
  for (const connect::OptionHelp& help : connect::option_help()) {
    out += line(std::string(help.name) + "=" + help.values, help.text);
  }
  const auto lines_of = [&](Effect effect) {
    for (const Row& row : kRows) {
      if (row.effect != effect) continue;
      out += line(row.name + (row.values != nullptr ? "=" + std::string(row.values) : ""), row.text);
    }
  };
  lines_of(Effect::set);
  out += "\noptions of nfs(5) that are accepted and have no effect (-v says so when one is given):\n";
  lines_of(Effect::noted);
  out += "\noptions of nfs(5) that are refused:\n";
  lines_of(Effect::refused);
  out += "\npassed on to the kernel or to libfuse:\n" + names_of(Effect::passed) + "\n";
  out += "\naccepted, because other programs use them:\n" + names_of(Effect::for_others) + " x-...\n";
  return out;
}

}  // namespace nfsrdma::fuse
