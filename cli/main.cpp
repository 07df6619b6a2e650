// nfsrdma-cli: files on an NFS server over RDMA, one command at a time.
//
// main() looks the command up in the table (commands.cpp), reads its arguments, runs it, and turns the
// outcome into an exit status: 0, 1 (an operation failed), 2 (usage), 128 + signal. The library's sessions
// end before main() returns.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <span>

#include "cli/commands.h"
#include "cli/format.h"

namespace nfsrdma::cli {
namespace {

std::string overview() {
  std::string out =
      "usage: nfsrdma-cli [-o OPT=VAL,...] COMMAND [OPTION]... OPERAND...\n"
      "Works with files on an NFS server over RDMA. An RDMA device is not required.\n\ncommands:\n";
  for (const Command& command : all_commands())
    out += "  " + left(command.name, 10) + " " + command.summary + "\n";
  return out +
         "\n'nfsrdma-cli COMMAND --help' shows the options of a command, 'man nfsrdma-cli' describes "
         "everything.\nA target is host:/path or nfs://host[:port]/path[?opt=val&...].\n";
}

/// Opens those of the descriptors 0, 1 and 2 that are closed, because another file of the program would get
/// their numbers, and would be read and written as standard input, output or error. Reading 0 and writing 1
/// and 2 then fails (EBADF), so that lost output is an error.
void occupy_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != fd) std::abort();  // a machine without /dev/null: nothing can work
  }
}

int usage_error(const std::string& text) {
  say_error({ErrorKind::usage, EINVAL, "", "", text});
  return exit_usage;
}

/// Writes the rest of the output, and returns the exit status.
int finish_output(Output& out, int status) {
  out.flush();
  if (out.error() == 0 || interrupt::raised()) return status;
  if (out.error() == EPIPE && interrupt::sigpipe_was_default()) return 128 + SIGPIPE;
  say_error(local_error(out.error(), "write", "standard output"));
  return exit_failed;
}

int run(const Command& command, const Arguments& arguments) {
  Output out;
  Servers servers(arguments.base);
  if (arguments.has("verbose") && has_common_verbose(command)) servers.be_verbose();
  Call call{command, arguments, servers, out};
  run_command(call);
  const int status = finish_output(out, call.status);
  if (arguments.has("stats")) write_error(servers.statistics(call.json()));
  if (!interrupt::raised()) return status;
  const interrupt::Grace grace;  // for the sessions to end
  servers.end();
  return call.interruption_is_an_end ? status : interrupt::exit_status();
}

int print(const std::string& text) {
  Output out;
  out.write(text);
  return finish_output(out, 0);
}

int unknown_command(const std::string& name) {
  return usage_error("unknown command '" + name + "'; 'nfsrdma-cli --help' lists the commands");
}

/// "help" and "help COMMAND".
int help(std::span<const std::string> words) {
  if (words.empty()) return print(overview());
  const Command* const command = find_command(words[0]);
  return command == nullptr ? unknown_command(words[0]) : print(help_text(*command));
}

int dispatch(std::span<char*> argv) {
  const std::vector<std::string> words = command_first({argv.begin(), argv.end()});
  // Mistakes in the command line are reported in the form that it asks for, too.
  report_as_json(std::find(words.begin(), std::ranges::find(words, "--"), "--json") !=
                 std::ranges::find(words, "--"));
  if (words.empty()) return usage_error("a command is missing; see 'nfsrdma-cli --help'");
  const std::string& name = words[0];
  if (name == "--help" || name == "-h") return print(overview());
  if (name == "help") return help(std::span(words).subspan(1));
  if (name == "--version") return print("nfsrdma-cli " NFSRDMA_VERSION "\n");
  if (name.starts_with('-'))
    return usage_error("option '" + name + "' needs a command before it; write nfsrdma-cli COMMAND " + name +
                       ", or see 'nfsrdma-cli --help'");
  const Command* const command = find_command(name);
  if (command == nullptr) return unknown_command(name);
  const Result<Arguments> arguments = parse_arguments(*command, {words.begin() + 1, words.end()});
  if (!arguments) return usage_error(arguments.error().message());
  if (arguments->help) return print(help_text(*command));
  return run(*command, *arguments);
}

}  // namespace
}  // namespace nfsrdma::cli

int main(int argc, char** argv) {
  namespace cli = nfsrdma::cli;
  cli::occupy_standard_descriptors();
  cli::interrupt::install();
  // The umask is read while there is one thread: a file that another thread created meanwhile would not get
  // it.
  (void)cli::creation_mask();
  const std::span words(argv, static_cast<std::size_t>(argc));
  const int status = cli::dispatch(words.empty() ? words : words.subspan(1));
  if (status == 128 + SIGPIPE) cli::interrupt::die_of_sigpipe();
  return status;
}
