// The commands, and the Call that each of them gets.
//
// A command reports a failure with Call::failed() and goes on with its next target.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/servers.h"

namespace nfsrdma::cli {

constexpr int exit_failed = 1, exit_usage = 2;

struct Call {
  const Command& command;
  Arguments arguments;  ///< with patterns replaced by what they match
  Servers& servers;
  Output& out;
  int status = 0;
  bool interruption_is_an_end = false;  ///< a signal is the normal end (ping) and keeps the exit status

  [[nodiscard]] bool has(const std::string& name) const { return arguments.has(name); }
  [[nodiscard]] bool json() const { return has("json"); }
  /// Returns false if the command should stop: after a signal, or when standard output has failed.
  [[nodiscard]] bool going() const { return !interrupt::raised() && out.error() == 0; }

  [[nodiscard]] bool ends_lines_with_nul() const { return has("null") || has("print0"); }
  /// Lets NUL characters end the lines of the output if the user asks for that. Returns false if the command
  /// line is wrong, which is reported.
  [[nodiscard]] bool choose_line_end();
  /// Returns a name as it is written to standard output: bytes that could act on a terminal are replaced
  /// there, unless NUL characters end the lines.
  [[nodiscard]] std::string shown(const std::string& name) const;

  /// Reports what failed, unless the user stopped it, and sets the exit status.
  void failed(const Error& error);
  /// Reports what failed at a target, and names the target if the Error does not.
  void failed_at(const Remote& remote, const Error& error);
  /// Prints an object for what was done to a target, with --json.
  void did(const char* action, const Remote& remote, const std::string& destination = "");
  /// Reports a wrong command line. `message` is one sentence without a next step.
  void misused(const std::string& message);

  /// Parses the operands as targets. Reports each operand that is no target, and returns nothing if there is
  /// one: the command must not do anything then. `hint` follows the report.
  [[nodiscard]] std::optional<std::vector<Operand>> targets(std::span<const std::string> operands,
                                                            const std::string& hint = "");
  /// Calls `act` for each operand from `first` on, and reports what it returns.
  template <class Act>
  void each(std::size_t first, Act act) {
    const auto all = targets(std::span(arguments.operands).subspan(first));
    if (!all) return;
    for (const Operand& operand : *all) {
      if (!going()) return;
      const Result<Remote> remote = servers.at(operand);
      if (!remote) {
        failed(remote.error());
      } else if (const Status done = act(*remote); !done) {
        failed_at(*remote, done.error());
      }
    }
  }
  /// Calls `act` as each() does, and reports each success with did(). For commands that change their targets.
  template <class Act>
  void change_each(std::size_t first, const char* action, Act act) {
    each(first, [&](const Remote& remote) -> Status {
      Status status = act(remote);
      if (status) did(action, remote);
      return status;
    });
  }
};

/// Expands the patterns among the operands (operands.h), and runs the command.
void run_command(Call& call);

/// Returns the commands in the order in which --help shows them.
std::span<const Command> all_commands();

/// Returns null if there is no command of this name.
const Command* find_command(const std::string& name);

/// Returns the umask, which the server does not apply. main() calls this first, before there are further
/// threads.
std::uint32_t creation_mask();

// cmd_config.cpp
void run_config(Call& call);
// cmd_doctor.cpp
void run_doctor(Call& call);
// cmd_server.cpp
/// Returns the target that an operand stands for. Commands about a server also accept a bare host, whose root is
/// meant.
std::string server_target(const std::string& operand);
/// Returns what Call::targets() returns for all operands of such a command.
std::optional<std::vector<Operand>> server_targets(Call& call);
void run_ping(Call& call);
void run_info(Call& call);
void run_exports(Call& call);
void run_df(Call& call);
// cmd_top.cpp
void run_top(Call& call);
// cmd_list.cpp, cmd_stat.cpp
void run_ls(Call& call);
void run_stat(Call& call);
// cmd_cat.cpp, cmd_tail.cpp
void run_cat(Call& call);
void run_head(Call& call);
void run_tail(Call& call);
// cmd_transfer.cpp
void run_get(Call& call);
void run_put(Call& call);
// cmd_sync.cpp
void run_sync(Call& call);
// cmd_tree.cpp, cmd_remove.cpp
void run_mkdir(Call& call);
void run_rm(Call& call);
void run_rmdir(Call& call);
void run_mv(Call& call);
void run_ln(Call& call);
void run_cp(Call& call);
// cmd_walk.cpp
void run_find(Call& call);
void run_du(Call& call);
void run_sum(Call& call);
// cmd_attributes.cpp
void run_touch(Call& call);
void run_chmod(Call& call);
void run_chown(Call& call);
void run_truncate(Call& call);
// cmd_acl.cpp
void run_acl(Call& call);
// cmd_trace.cpp
void run_trace(Call& call);
// cmd_bench.cpp
void run_bench(Call& call);
// cmd_shell.cpp
void run_shell(Call& call);

}  // namespace nfsrdma::cli
