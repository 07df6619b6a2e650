// The table of the commands, and how a command reports its failures.
#include "cli/commands.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "cli/format.h"
#include "cli/json.h"
#include "cli/operands.h"

namespace nfsrdma::cli {
namespace {

constexpr auto ping_switches = std::to_array<Switch>({
    {'c', "count", "N", "stop after N round trips (default: go on until interrupted)"},
    {'i', "interval", "SECONDS", "pause between two round trips (default 1)"},
});
constexpr auto doctor_switches = std::to_array<Switch>({
    {0, "read", "FILE", "read from this file of the server, too: an absolute path, or one below the target"},
    {0, "write", nullptr, "make a file in the target's directory, too, write and read it, and remove it"},
    {0, "limit", "SECONDS", "end after this time whatever happens (default 30)"},
});
constexpr auto config_switches = std::to_array<Switch>({
    {'c', "changed", nullptr, "only the options that do not have their defaults"},
});
constexpr auto top_switches = std::to_array<Switch>({
    {'d', "delay", "SECONDS", "time between two views (default 2)"},
    {'n', "count", "N", "end after N views (default: go on until interrupted)"},
    {'1', "once", nullptr, "print one report about the next SECONDS, and end"},
    {'s', "sort", "ORDER", "sort by busy (time spent, the default), rate, latency or name"},
});
constexpr auto exports_switches = std::to_array<Switch>({
    {'m', "mounts", nullptr,
     "list the clients that have mounted them instead, as recorded by the server's mount service"},
});
constexpr Switch null_switch = {'0', "null", nullptr,
                                "end each line with a NUL character instead of a newline, for xargs -0"};
constexpr auto ls_switches = std::to_array<Switch>({
    {'l', "long", nullptr, "show mode, links, owner, group, size and time, too"},
    {'a', "all", nullptr, "list names that begin with '.', too, including '.' and '..'"},
    {'A', "almost-all", nullptr, "list names that begin with '.', too, but not '.' and '..'"},
    {'R', "recursive", nullptr, "list subdirectories, too"},
    {'d', "directory", nullptr, "list a directory itself, not its contents"},
    {'h', "human", nullptr, "with -l: sizes such as 1.5K"},
    {'n', "numeric", nullptr, "like -l, but show owners and groups as numbers"},
    {'t', "time", nullptr, "sort by time of modification, latest first"},
    {'S', "size", nullptr, "sort by size, largest first"},
    {'r', "reverse", nullptr, "reverse the order; alone: sort by name, reversed"},
    {'U', "unsorted", nullptr, "do not sort (the default)"},
    {0, "sort", "WORD", "sort by none, name, size or time"},
    {'1', "single-column", nullptr, "one name on a line (always so)"},
    null_switch,
});
constexpr auto stat_switches = std::to_array<Switch>({
    {'L', "dereference", nullptr, "follow a symbolic link"},
});
constexpr auto cat_switches = std::to_array<Switch>({
    {'r', "range", "FIRST-LAST",
     "write only these bytes: 0-499, 500-, -500 (the last ones), or several with commas"},
});
constexpr Switch quiet_headings = {'q', "quiet", nullptr, "no lines with the names of the files"};
constexpr Switch verbose_headings = {'v', "verbose", nullptr,
                                     "a line with the name also above a single file"};
constexpr auto head_switches = std::to_array<Switch>({
    {'n', "lines", "LINES", "write this many lines (default 10)"},
    {'c', "bytes", "BYTES", "write this many bytes, such as 100 or 4K"},
    quiet_headings,
    verbose_headings,
});
constexpr auto tail_switches = std::to_array<Switch>({
    {'n', "lines", "LINES", "write the last lines (default 10), or with +LINES everything from that line on"},
    {'c', "bytes", "BYTES", "write the last bytes, or with +BYTES everything from that byte on"},
    {'f', "follow", nullptr, "go on with what is appended; a file that is truncated or replaced begins anew"},
    {'s', "sleep-interval", "SECONDS", "with -f: look this often (default: from 0.25 to 2 seconds)"},
    quiet_headings,
    verbose_headings,
});
constexpr Switch update_switch = {'u', "update", nullptr,
                                  "skip a file whose copy has the same size and is not older"};
constexpr auto transfer_switches = std::to_array<Switch>({
    {'r', "recursive", nullptr, "copy a directory with its contents, several files at once"},
    {'p', "preserve", nullptr, "preserve mode, times and holes; as root, owner and group, too"},
    {'q', "quiet", nullptr, "no progress bar"},
    {'T', "no-target-directory", nullptr,
     "the last operand is the name of the copy, even if it is a directory"},
    update_switch,
    {0, "resume", nullptr, "keep the part of a large file that was cut off, and go on with it next time"},
});
constexpr auto sync_switches = std::to_array<Switch>({
    {'n', "dry-run", nullptr, "print what would be done, and do nothing"},
    {'v', "verbose", nullptr, "print what is done"},
    {'q', "quiet", nullptr, "no progress bar, no sums at the end"},
    {'c', "checksum", nullptr,
     "compare files of the same size by their contents (SHA-256), not by their times"},
    {'p', "preserve", nullptr, "preserve mode and time of access, too; as root, owner and group, too"},
    {0, "delete", nullptr, "remove what the source does not have, when all of it was read"},
    {0, "exclude", "PATTERN",
     "leave out names that match; the first --exclude or --include that matches decides"},
    {0, "include", "PATTERN", "do not leave out names that match"},
    {0, "exclude-from", "FILE", "read patterns from a file, one on a line; '+ PATTERN' includes"},
    {0, "bwlimit", "RATE", "move at most so many bytes per second: 500K, 10M"},
    {0, "verify", nullptr, "read each copy back, and compare its SHA-256 with that of its source"},
    {0, "resume", nullptr, "keep the part of a large file that was cut off, and go on with it next time"},
    {'T', "no-target-directory", nullptr,
     "the one SOURCE becomes DESTINATION itself, as 'dir/' does; without a slash, 'dir' becomes "
     "DESTINATION/dir"},
});
constexpr auto cp_switches = std::to_array<Switch>({
    {'r', "recursive", nullptr, "copy directories with their contents, several files at once"},
    {'p', "preserve", nullptr, "preserve mode and times; as root, owner and group, too"},
    {'q', "quiet", nullptr, "no progress bar"},
    {'T', "no-target-directory", nullptr,
     "the last operand is the name of the copy, even if it is a directory"},
    update_switch,
});
constexpr auto find_switches = std::to_array<Switch>({
    {'n', "name", "PATTERN", "only names that match, such as '*.c'; -name does the same"},
    {0, "iname", "PATTERN", "as --name, in upper and lower case"},
    {0, "path", "PATTERN", "only paths on the server that match; * matches slashes, too"},
    {'t', "type", "TYPE",
     "only f (files), d (directories), l (symbolic links), b, c (block, character devices), p (FIFOs) or s "
     "(sockets), or several with commas"},
    {0, "size", "N", "only sizes of N units, +N: more, -N: less: 10M, +1G, -4k, 100c; rounded up"},
    {0, "mtime", "N", "only what was modified N days ago, +N: earlier, -N: later"},
    {0, "mmin", "N", "the same in minutes"},
    {0, "newer", "FILE", "only what was modified later than a local file, or a target"},
    {0, "empty", nullptr, "only empty files and directories"},
    {'d', "maxdepth", "N", "descend at most N directory levels; 0: the targets only"},
    {0, "mindepth", "N", "nothing above this level; 1: everything but the targets"},
    {0, "depth", nullptr, "the contents of a directory before itself"},
    {0, "delete", nullptr, "remove what is found, contents first; not directories that are targets"},
    {0, "print", nullptr, "list names, also with --delete"},
    null_switch,
    {0, "print0", nullptr, "do what -0 does"},
});
constexpr auto du_switches = std::to_array<Switch>({
    {'s', "summarize", nullptr, "one line for each target"},
    {'h', "human", nullptr, "sizes such as 1.5K"},
    {'b', "apparent-size", nullptr, "count the sizes of files in bytes instead of the space that they use"},
    null_switch,
});
constexpr auto sum_switches = std::to_array<Switch>({
    {'r', "recursive", nullptr, "include the files in directories"},
    null_switch,
});
constexpr auto mkdir_switches = std::to_array<Switch>({
    {'p', "parents", nullptr, "create missing parent directories, too; accept directories that exist"},
    {'m', "mode", "MODE", "permissions, as for chmod (default: 0777 minus the umask)"},
});
constexpr auto rm_switches = std::to_array<Switch>({
    {'r', "recursive", nullptr, "remove directories with their contents"},
    {'f', "force", nullptr, "ignore files that do not exist"},
});
constexpr auto mv_switches = std::to_array<Switch>({
    {'T', "no-target-directory", nullptr, "the last operand is the new name, even if it is a directory"},
});
constexpr auto ln_switches = std::to_array<Switch>({
    {'s', "symbolic", nullptr, "create symbolic links; EXISTING is stored as given"},
    {'f', "force", nullptr, "replace a file that already has the link's name"},
    {'T', "no-target-directory", nullptr,
     "the last operand is the name of the link, even if it is a directory"},
});
constexpr auto touch_switches = std::to_array<Switch>({
    {'c', "no-create", nullptr, "do not create files that do not exist"},
    {'a', "access", nullptr, "set only the time of the last access"},
    {'m', "modification", nullptr, "set only the time of the last modification"},
    {'d', "date", "TIME", "use this time: '2024-11-20 09:42:01', '@SECONDS' or 'now'"},
    {'t', "stamp", "STAMP", "use this time: [[CC]YY]MMDDhhmm[.ss]"},
    {'h', "no-dereference", nullptr, "act on a symbolic link itself, not on its target"},
});
constexpr auto chown_switches = std::to_array<Switch>({
    {'h', "no-dereference", nullptr, "act on a symbolic link itself, not on its target"},
});
constexpr auto acl_switches = std::to_array<Switch>({
    {'c', "omit-header", nullptr, "get: omit the lines that begin with '#', with --json the owner and mode"},
    {'n', "numeric", nullptr, "get: show users and groups as numbers"},
    {'f', "file", "FILE", "set: read the entries from FILE ('-': standard input)"},
    {'k', "remove-default", nullptr, "set: remove the default ACL of directories"},
    {'h', "no-dereference", nullptr, "act on a symbolic link itself, not on its target"},
});
constexpr auto truncate_switches = std::to_array<Switch>({
    {'s', "size", "SIZE", "the new size, or with + or - the change: 4096, 10M, +1K, -512"},
    {'c', "no-create", nullptr, "do not create files that do not exist"},
});
constexpr auto shell_switches = std::to_array<Switch>({
    {'c', "command", "LINE", "run the commands of this line instead of those of standard input"},
    {'e', "exit-on-error", nullptr, "end at the first command that fails"},
});
constexpr auto bench_switches = std::to_array<Switch>({
    {0, "write", nullptr, "make a scratch file in the directory, write and read it, and remove it"},
    {0, "time", "SECONDS", "of each part (default 2)"},
    {0, "size", "SIZE", "of the scratch file, or the most that is read of a file (default 64M)"},
    {0, "parts", "LIST", "some of ping,getattr,write,read,randread,randwrite,create (default: all)"},
    {0, "plot", nullptr, "show a histogram of the latencies of each part"},
    {0, "svg", "FILE", "write the histograms to a picture, too"},
});
constexpr auto df_switches = std::to_array<Switch>({
    {'h', "human", nullptr, "sizes such as 1.5G"},
    {'i', "inodes", nullptr, "show inodes instead of bytes"},
});
constexpr auto trace_switches = std::to_array<Switch>({
    {0, "xid", "XID", "show only this call and its reply, such as 0x1234abcd; may be given again"},
    {0, "slow", "TIME", "show only calls that took at least this time: 20ms, 300us, 1s"},
    {0, "errors", nullptr,
     "show only what failed, was sent again, or cannot be decoded, and lost connections"},
    {'s', "summary", nullptr, "show only the sums at the end"},
    {'f', "follow", nullptr, "wait for more at the end of the file, until interrupted"},
});

constexpr auto commands = std::to_array<Command>({
    {"ping", run_ping, "SERVER", "measure round-trip times to a server", ping_switches, 1, 1, true},
    {"info", run_info, "SERVER...", "show what was negotiated with a server", {}, 1, any_number, true},
    {"doctor", run_doctor, "TARGET", "find out why a target does not work, or is slow", doctor_switches, 1, 1,
     true},
    {"config", run_config, "TARGET...", "show the options for a target, and where each comes from",
     config_switches, 1, any_number, true},
    {"top", run_top, "[MOUNTPOINT]...", "show what the mounts of this machine are doing", top_switches, 0,
     any_number, true},
    {"exports", run_exports, "SERVER...", "list what a server exports", exports_switches, 1, any_number,
     true},
    {"ls", run_ls, "TARGET...", "list directories", ls_switches, 1, any_number, true},
    {"stat", run_stat, "TARGET...", "show the attributes of files", stat_switches, 1, any_number, true},
    {"cat", run_cat, "TARGET...", "write files to standard output", cat_switches, 1, any_number},
    {"head", run_head, "TARGET...", "write the beginnings of files", head_switches, 1, any_number},
    {"tail", run_tail, "TARGET...", "write the ends of files, and follow their growth", tail_switches, 1,
     any_number},
    {"get", run_get, "TARGET... [LOCAL]", "copy files from a server", transfer_switches, 1, any_number, true},
    {"put", run_put, "LOCAL... TARGET", "copy files to a server", transfer_switches, 2, any_number, true},
    {"sync", run_sync, "SOURCE... DESTINATION",
     "make the copy of a tree equal to it, copying only what differs", sync_switches, 2, any_number, true},
    {"cp", run_cp, "TARGET... TARGET", "copy files on a server", cp_switches, 2, any_number, true},
    {"find", run_find, "TARGET...", "find files by name, type, size and age", find_switches, 1, any_number,
     true, false, true},
    {"du", run_du, "TARGET...", "show the disk space that directory trees use", du_switches, 1, any_number,
     true},
    {"sum", run_sum, "TARGET...", "show SHA-256 checksums of files", sum_switches, 1, any_number, true},
    {"mkdir", run_mkdir, "TARGET...", "create directories", mkdir_switches, 1, any_number, true},
    {"rm", run_rm, "TARGET...", "remove files", rm_switches, 1, any_number, true},
    {"rmdir", run_rmdir, "TARGET...", "remove empty directories", {}, 1, any_number, true},
    {"mv", run_mv, "TARGET... TARGET", "rename files, or move them into a directory", mv_switches, 2,
     any_number, true},
    {"ln", run_ln, "EXISTING... TARGET", "create links", ln_switches, 2, any_number, true},
    {"touch", run_touch, "TARGET...", "set times, or create empty files", touch_switches, 1, any_number,
     true},
    {"chmod", run_chmod, "MODE TARGET...", "set permissions", {}, 2, any_number, true, true},
    {"chown", run_chown, "UID[:GID] TARGET...", "set owner and group", chown_switches, 2, any_number, true},
    {"acl", run_acl, "get|set [ENTRIES] TARGET...", "show or replace access control lists", acl_switches, 2,
     any_number, true},
    {"truncate", run_truncate, "TARGET...", "set the size of files", truncate_switches, 1, any_number, true},
    {"df", run_df, "TARGET...", "show the free and used space of file systems", df_switches, 1, any_number,
     true},
    {"trace", run_trace, "FILE...", "decode files that the option trace=FILE has recorded", trace_switches, 1,
     any_number, true},
    {"bench", run_bench, "TARGET", "measure latency and throughput", bench_switches, 1, 1, true},
    {"shell", run_shell, "TARGET", "run commands on one connection, with relative paths", shell_switches, 1,
     1, true},
});

}  // namespace

std::span<const Command> all_commands() {
  return commands;
}

const Command* find_command(const std::string& name) {
  const auto commands = all_commands();
  const auto found =
      std::ranges::find(commands, name, [](const Command& row) { return std::string(row.name); });
  return found == commands.end() ? nullptr : &*found;
}

void run_command(Call& call) {
  report_as_json(call.json());
  if (expand_operands(call)) call.command.run(call);
}

bool Call::choose_line_end() {
  if (!ends_lines_with_nul()) return true;
  out.end_lines_with_nul();
  if (json()) misused("--json and --null cannot be used together");
  return !json();
}

std::string Call::shown(const std::string& name) const {
  return out.terminal() && !ends_lines_with_nul() ? printable(name) : name;
}

void Call::failed(const Error& error) {
  if (error.kind() != ErrorKind::cancelled || !interrupt::raised()) say_error(error);
  // A usage error that names no peer concerns the command line itself, such as a malformed target.
  if (error.kind() == ErrorKind::usage && error.peer().empty()) status = exit_usage;
  if (status == 0) status = exit_failed;
}

void Call::failed_at(const Remote& remote, const Error& error) {
  // The library names the path; a program wants the target, which other commands take.
  if (json() && error.peer() == remote.path) return failed(error.about(error.operation(), remote.target()));
  const bool is_named = !error.peer().empty() || error.kind() == ErrorKind::usage;
  failed(is_named ? error : error.about(error.operation(), remote.text()));
}

std::optional<std::vector<Operand>> Call::targets(std::span<const std::string> operands,
                                                  const std::string& hint) {
  std::vector<Operand> parsed;
  for (const std::string& operand : operands) {
    Result<Operand> target = servers.parse(operand);
    if (target) {
      parsed.push_back(*std::move(target));
    } else {
      const Error& error = target.error();
      failed({error.kind(), error.errno_value(), error.operation(), error.peer(), error.message() + hint});
    }
  }
  if (parsed.size() < operands.size()) return std::nullopt;
  return parsed;
}

void Call::did(const char* action, const Remote& remote, const std::string& destination) {
  if (!json()) return;
  json::Object object;
  object.text("action", action).text("target", remote.target());
  if (!destination.empty()) object.text("destination", destination);
  out.line(object.str());
}

void Call::misused(const std::string& message) {
  say_error({ErrorKind::usage, EINVAL, "", "", message + "; see 'nfsrdma-cli " + command.name + " --help'"});
  status = exit_usage;
}

}  // namespace nfsrdma::cli
