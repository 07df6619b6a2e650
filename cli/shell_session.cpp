// See shell_session.h.
#include "cli/shell_session.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "cli/format.h"
#include "cli/json.h"
#include "cli/operands.h"

namespace nfsrdma::cli {
namespace {

constexpr std::chrono::milliseconds completion_limit{2000};
constexpr std::size_t most_candidates = 2000;

int report(const Error& error, int status) {
  say_error(error);
  return status;
}

int misuse(const std::string& text) {
  return report({ErrorKind::usage, EINVAL, "", "", text}, exit_usage);
}

std::vector<std::string> plain_words(const std::vector<ShellWord>& words) {
  std::vector<std::string> out;
  out.reserve(words.size());
  for (const ShellWord& word : words) out.push_back(plain(word));
  return out;
}

/// Runs a program of this machine, and returns its exit status. The program gets the default for the signals
/// that this one handles, and those of the keyboard are for it alone.
int run_local(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // NOLINT: argv
  argv.push_back(nullptr);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM}) sigaddset(&defaults, number);
  posix_spawnattr_setsigdefault(&how, &defaults);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
  const interrupt::Aside aside;
  pid_t child = 0;
  const int fault = posix_spawnp(&child, argv[0], nullptr, &how, argv.data(), environ);
  posix_spawnattr_destroy(&how);
  if (fault != 0) return report(local_error(fault, "run", words[0]), exit_failed);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return exit_failed;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Commands that concern the present directory, or the server, if they are given no operand.
bool defaults_to_directory(const Command& command) {
  constexpr std::array names{"ls", "find", "du", "df", "info", "ping", "exports", "doctor"};
  return std::ranges::any_of(names, [&](std::string_view name) { return name == command.name; });
}

/// Adds the operand that may be left out in the shell.
void add_default_operand(const Command& command, Arguments& arguments) {
  const std::size_t count = arguments.operands.size();
  if (count == 0 && defaults_to_directory(command)) arguments.operands.emplace_back(".");
  if (count == 1 && command.run == run_put) arguments.operands.emplace_back(".");
}

std::string common_start(const std::vector<std::string>& names) {
  std::string out = names.empty() ? "" : names.front();
  for (const std::string& name : names) {
    const auto [end, other] = std::ranges::mismatch(out, name);
    out.resize(static_cast<std::size_t>(end - out.begin()));
  }
  return out;
}

std::vector<std::string> local_names(const std::string& directory, bool only_directories) {
  std::vector<std::string> out;
  std::error_code fault;
  std::filesystem::directory_iterator at(directory.empty() ? "." : directory, fault);
  for (; !fault && at != std::filesystem::directory_iterator() && out.size() < most_candidates;
       at.increment(fault)) {
    std::error_code unknown;
    const bool is_directory = at->is_directory(unknown);
    if (is_directory || !only_directories)
      out.push_back(at->path().filename().string() + (is_directory ? "/" : ""));
  }
  return out;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> out;
  for (const Switch& option : all_switches(command)) {
    out.push_back(std::string("--") + option.name);
    if (option.letter != 0) out.push_back(std::string("-") + option.letter);
  }
  return out;
}

/// Kind of the word at the cursor, by the words before it.
enum class Wanted : unsigned char { command, option, remote, remote_directory, local, nothing };

bool takes_value(const Command& command, const std::string& word) {
  return std::ranges::any_of(all_switches(command), [&](const Switch& option) {
    return option.value != nullptr && (word == std::string("--") + option.name ||
                                       (option.letter != 0 && word == std::string("-") + option.letter));
  });
}

Wanted wanted_operand(const Command& command, const UnfinishedWord& word) {
  Arguments arguments;
  for (std::size_t i = 1; i < word.before.size(); ++i) {
    const bool is_value = i > 1 && takes_value(command, word.before[i - 1]);
    if (!word.before[i].starts_with('-') && !is_value) arguments.operands.push_back(word.before[i]);
  }
  const std::size_t index = arguments.operands.size();
  arguments.operands.resize(std::max(index + 1, command.least));
  switch (role_of(command, arguments, index)) {
    case Role::local:
      return Wanted::local;
    case Role::target:
    case Role::pattern:
      return Wanted::remote;
    default:
      return Wanted::nothing;
  }
}

Wanted wanted_at(const UnfinishedWord& word) {
  if (word.before.empty()) return Wanted::command;
  const std::string& name = word.before.front();
  if (name == "cd") return Wanted::remote_directory;
  if (name == "lcd" || name == "lls") return Wanted::local;
  const Command* const command = find_command(name);
  if (command == nullptr) return Wanted::nothing;
  if (word.text.starts_with('-')) return Wanted::option;
  if (word.before.size() > 1 && takes_value(*command, word.before.back())) return Wanted::local;
  return wanted_operand(*command, word);
}

}  // namespace

ShellSession::ShellSession(Servers& servers, const Target& target, const Remote& start, bool is_json)
    : servers_(servers),
      is_json_(is_json),
      base_(target.options),
      host_(Remote{nullptr, "", start.host, {}}.text()),
      top_(resolved_path("/", start.path)),
      directory_(top_),
      previous_(top_) {
  servers_.use(base_);
}

const std::vector<ShellSession::Builtin>& ShellSession::builtins() {
  static const std::vector<Builtin> all{
      {"cd", &ShellSession::change_directory, "change the remote directory; cd - returns to the last one"},
      {"pwd", &ShellSession::print_directory, "print the remote directory"},
      {"lcd", &ShellSession::change_local, "change the local directory"},
      {"lpwd", &ShellSession::print_local, "print the local directory"},
      {"lls", &ShellSession::list_local, "list a local directory, with the options of ls(1)"},
      {"help", &ShellSession::help, "list the commands, or describe one"},
      {"exit", &ShellSession::leave, "end the shell"},
      {"quit", &ShellSession::leave, "end the shell"},
  };
  return all;
}

const ShellSession::Builtin* ShellSession::find_builtin(const std::string& name) {
  const auto found =
      std::ranges::find(builtins(), name, [](const Builtin& one) { return std::string(one.name); });
  return found == builtins().end() ? nullptr : &*found;
}

std::string ShellSession::prompt() const {
  return "nfsrdma " + printable(host_ + directory_) + "> ";
}

void ShellSession::run(const std::string& line, bool stops) {
  const Result<std::vector<ShellCommand>> commands = split_line(line);
  if (!commands) {
    status_ = report(commands.error(), exit_usage);
    return;
  }
  for (const ShellCommand& command : *commands) {
    status_ = run_one(command);
    report_as_json(is_json_);
    // SIGINT ends the command and the rest of its line, and not the shell. A program of this machine gets the
    // signal in place of the shell.
    const bool is_interrupted = interrupt::raised() || status_ == 128 + SIGINT;
    if (interrupt::raised() && !interrupt::forget()) is_over_ = true;
    if (is_over_ || is_interrupted || (stops && status_ != 0)) return;
  }
}

int ShellSession::run_one(const ShellCommand& command) {
  if (command.is_local) {
    const char* const shell = std::getenv("SHELL");
    if (command.local.find_first_not_of(" \t") == std::string::npos)
      return run_local({shell != nullptr ? shell : "/bin/sh"});
    return run_local({"/bin/sh", "-c", command.local});
  }
  const std::string name = plain(command.words.front());
  if (const Builtin* const builtin = find_builtin(name)) return (this->*builtin->run)(command.words);
  const Command* const found = find_command(name);
  if (found == nullptr) return misuse("unknown command '" + name + "'; 'help' lists the commands");
  if (found->run == run_shell) return misuse("this is the shell already; exit it to open another one");
  return run_program(*found, command.words);
}

int ShellSession::run_program(const Command& command, const Words& words) {
  Command relaxed = command;
  relaxed.least = 0;  // an operand may be left out
  Result<Arguments> arguments = parse_arguments(relaxed, {words.begin() + 1, words.end()});
  if (!arguments) return misuse(plain(arguments.error().message()));
  if (is_json_) (void)arguments->given["json"];
  if (arguments->help) {
    Output out;
    out.write(help_text(command));
    return finish(out, 0);
  }
  add_default_operand(command, *arguments);
  if (const Status right = check_operands(command, *arguments); !right)
    return misuse(plain(right.error().message()));
  make_targets(command, *arguments);
  if (const Status applied = apply_options(*arguments); !applied) return misuse(applied.error().message());
  return run_parsed(command, *std::move(arguments));
}

int ShellSession::run_parsed(const Command& command, Arguments arguments) {
  Output out;
  Call call{command, std::move(arguments), servers_, out};
  run_command(call);
  const int status = finish(out, call.status);
  servers_.use(base_);
  return interrupt::raised() && !call.interruption_is_an_end ? interrupt::exit_status() : status;
}

int ShellSession::finish(Output& out, int status) {
  out.flush();
  if (out.error() == 0 || interrupt::raised()) return status;
  is_over_ = true;
  if (out.error() == EPIPE && interrupt::sigpipe_was_default()) return 128 + SIGPIPE;
  return report(local_error(out.error(), "write", "standard output"), exit_failed);
}

/// Options of a command are added to those of the shell. Other options mean another connection.
Status ShellSession::apply_options(const Arguments& arguments) {
  Options options = base_;
  const auto given = arguments.given.find("options");
  if (given != arguments.given.end()) {
    for (const std::string& list : given->second) {
      if (Status set = options.set_all(list); !set) return set;
    }
  }
  servers_.use(options);
  return {};
}

std::string ShellSession::target_of(const std::string& path) const {
  if (path.starts_with("nfs://") || parse_target(path, base_)) return path;
  return host_ + resolved_path(directory_, path);
}

void ShellSession::make_targets(const Command& command, Arguments& arguments) {
  for (auto& [name, values] : arguments.given) {
    for (std::string& value : values) value = plain(value);
  }
  Arguments unmarked = arguments;
  unmarked.operands = plain_words(arguments.operands);
  for (std::size_t i = 0; i < arguments.operands.size(); ++i) {
    const Role role = role_of(command, unmarked, i);
    std::string& operand = arguments.operands[i];
    const bool is_pattern = role == Role::pattern && !arguments.has(no_glob_name);
    const std::string word = is_pattern ? for_pattern(operand) : plain(operand);
    const bool is_remote = role == Role::pattern || role == Role::target || role == Role::server;
    operand = is_remote ? target_of(word) : plain(operand);
  }
}

int ShellSession::change_directory(const Words& words) {
  if (words.size() > 2) return misuse("cd takes one directory");
  const std::string word = words.size() == 2 ? plain(words[1]) : top_;
  const std::string path = word == "-" ? previous_ : resolved_path(directory_, word);
  const Result<Remote> remote = servers_.at(host_ + path);
  if (!remote) return report(remote.error(), exit_failed);
  const Result<Attributes> attributes = remote->client->stat(path);
  if (!attributes) return report(attributes.error(), exit_failed);
  if (attributes->type != FileType::directory)
    return report({ErrorKind::usage, ENOTDIR, "cd", remote->text(), "is not a directory; use ls to list it"},
                  exit_failed);
  previous_ = std::exchange(
      directory_,
      resolved_path("/", path.ends_with('/') && path.size() > 1 ? path.substr(0, path.size() - 1) : path));
  return 0;
}

int ShellSession::print_directory(const Words& /*words*/) {
  Output out;
  out.line(is_json_ ? json::Object().text("target", host_ + directory_).str() : host_ + directory_);
  return finish(out, 0);
}

int ShellSession::change_local(const Words& words) {
  const char* const home = std::getenv("HOME");
  const std::string path = words.size() > 1 ? plain(words[1]) : home != nullptr ? home : "/";
  return ::chdir(path.c_str()) == 0 ? 0 : report(local_error(errno, "lcd", path), exit_failed);
}

int ShellSession::print_local(const Words& /*words*/) {
  std::error_code fault;
  const std::string path = std::filesystem::current_path(fault).string();
  if (fault) return report(local_error(fault.value(), "lpwd", "."), exit_failed);
  Output out;
  out.line(is_json_ ? json::Object().text("path", path).str() : path);
  return finish(out, 0);
}

int ShellSession::list_local(const Words& words) {
  std::vector<std::string> all = plain_words(words);
  all.front() = "ls";
  return run_local(all);
}

int ShellSession::help(const Words& words) {
  Output out;
  if (words.size() > 1) {
    const std::string name = plain(words[1]);
    const Builtin* const builtin = find_builtin(name);
    const Command* const command = find_command(name);
    if (builtin == nullptr && command == nullptr)
      return misuse("unknown command '" + name + "'; 'help' lists the commands");
    out.write(builtin != nullptr ? name + ": " + builtin->summary + "\n" : help_text(*command));
    return finish(out, 0);
  }
  for (const Command& command : all_commands())
    out.line("  " + left(command.name, 10) + " " + command.summary);
  for (const Builtin& one : builtins()) out.line("  " + left(one.name, 10) + " " + one.summary);
  out.line("  " + left("!LINE", 10) + " give the rest of the line to the local shell");
  out.line("Paths on the server may be relative. COMMAND --help shows the options of a command.");
  return finish(out, 0);
}

int ShellSession::leave(const Words& /*words*/) {
  is_over_ = true;
  return status_;
}

// ---- completion ----

std::vector<std::string> ShellSession::remote_names(const std::string& directory, bool only_directories) {
  std::vector<std::string> out;
  const Result<Remote> remote = servers_.at(target_of(directory.empty() ? "." : directory));
  if (!remote) return out;
  // A completion that takes long, or fails, offers nothing.
  (void)remote->client->list(
      remote->path,
      [&](const DirectoryEntry& entry) {
        const FileType type = entry.attributes ? entry.attributes->type : FileType::unknown;
        const bool may_lead_on = type == FileType::directory || type == FileType::symlink;
        if (may_lead_on || !only_directories)
          out.push_back(entry.name + (type == FileType::directory ? "/" : ""));
        return out.size() < most_candidates;
      },
      {.timeout = completion_limit});
  return out;
}

std::vector<std::string> ShellSession::names_below(const UnfinishedWord& word, bool is_remote,
                                                   bool only_directories) {
  const std::size_t slash = word.text.rfind('/') + 1;  // 0 without a slash
  const std::string directory = word.text.substr(0, slash), start = word.text.substr(slash);
  std::vector<std::string> out;
  for (const std::string& name :
       is_remote ? remote_names(directory, only_directories) : local_names(directory, only_directories)) {
    const bool is_hidden = name.starts_with('.') && !start.starts_with('.');
    if (name.starts_with(start) && !is_hidden) out.push_back(directory + name);
  }
  return out;
}

Completion ShellSession::complete(const std::string& line) {
  const UnfinishedWord word = word_at_end(line);
  std::vector<std::string> found;
  const auto offer = [&](std::string name) {
    if (name.starts_with(word.text)) found.push_back(std::move(name));
  };
  switch (wanted_at(word)) {
    case Wanted::command:
      for (const Command& one : all_commands()) offer(one.name);
      for (const Builtin& one : builtins()) offer(one.name);
      break;
    case Wanted::option:
      for (std::string& one : option_names(*find_command(word.before.front()))) offer(std::move(one));
      break;
    case Wanted::remote:
      found = names_below(word, true, false);
      break;
    case Wanted::remote_directory:
      found = names_below(word, true, true);
      break;
    case Wanted::local:
      found = names_below(word, false, word.before.front() == "lcd");
      break;
    case Wanted::nothing:
      break;
  }
  std::ranges::sort(found);
  Completion out;
  out.begin = word.begin;
  out.replacement = with_backslashes(common_start(found));
  if (found.size() == 1 && !found.front().ends_with('/')) out.replacement += ' ';
  for (const std::string& one : found) {
    const std::size_t end = one.size() - (one.ends_with('/') ? 1 : 0);
    const std::size_t slash = end == 0 ? std::string::npos : one.rfind('/', end - 1);
    out.names.push_back(printable(slash == std::string::npos ? one : one.substr(slash + 1)));
  }
  return out;
}

}  // namespace nfsrdma::cli
