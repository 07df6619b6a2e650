// See command_line.h. The only file that includes Boost.Program_options; its exceptions end here.
#include "cli/command_line.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cerrno>

#include "cli/format.h"

namespace nfsrdma::cli {
namespace {

namespace po = boost::program_options;

constexpr Switch mount_options = {'o', "options", "OPT=VAL,...", "options for the connection, see below"};
constexpr Switch trace_option = {
    0, "trace", "FILE",
    "record what goes over RDMA to FILE, for nfsrdma-cli trace or Wireshark (-o trace=FILE)"};
constexpr Switch json_option = {0, "json", nullptr, "print facts as JSON, one object per line"};
/// For commands whose output is not facts but the contents of files.
constexpr Switch json_errors_option = {0, "json", nullptr, "report errors as JSON, one object per line"};
constexpr Switch no_glob_option = {'g', no_glob_name, nullptr,
                                   "take * ? and [ in targets as ordinary characters"};
constexpr Switch statistics_option = {0, "stats", nullptr,
                                      "at the end, show on stderr what the calls to the server cost"};
constexpr Switch verbose_option = {'v', "verbose", nullptr,
                                   "say on stderr what is connected, and what was negotiated"};
constexpr Switch help_option = {0, "help", nullptr, "show this help and exit"};

Error usage(const Command& command, const std::string& message) {
  return {ErrorKind::usage, EINVAL, "", "", message + "; see 'nfsrdma-cli " + command.name + " --help'"};
}

po::options_description description(const Command& command) {
  po::options_description out;
  for (const Switch& option : all_switches(command)) {
    std::string names = option.name;
    if (option.letter != 0) names += std::string(",") + option.letter;
    if (option.value == nullptr) {
      out.add_options()(names.c_str(), option.text);
    } else {
      out.add_options()(names.c_str(), po::value<std::vector<std::string>>(), option.text);
    }
  }
  return out;
}

/// Returns true for a word such as "-x" or "-rw,o+r", which is a mode and no option.
bool looks_like_mode(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         word.find_first_not_of("rwxXstugoa+-=,", 1) == std::string::npos && word[1] != '-' && word != "-o";
}

/// Takes a first operand that begins with '-' out of the words, because Program_options would call it an
/// option.
std::optional<std::string> take_mode(std::vector<std::string>& words) {
  const auto end = std::ranges::find(words, "--");
  const auto found = std::find_if(words.begin(), end, looks_like_mode);
  if (found == end) return std::nullopt;
  std::string mode = *found;
  words.erase(found);
  return mode;
}

/// Gives the long options that have one dash their second one. A value that begins with a dash, as in
/// "-size -4k", is joined to its option, because Program_options might take it for another option.
void add_dashes(const Command& command, std::vector<std::string>& words) {
  const std::vector<Switch> switches = all_switches(command);
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const auto found = std::ranges::find_if(switches, [&](const Switch& option) {
      return words[i] == std::string("-") + option.name || words[i] == std::string("--") + option.name;
    });
    if (found == switches.end()) continue;
    words[i] = std::string("--") + found->name;
    if (found->value == nullptr || i + 1 == words.size() || !words[i + 1].starts_with('-')) continue;
    words[i] += "=" + words[i + 1];
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

void store(const po::parsed_options& parsed, Arguments& out) {
  for (const po::option& option : parsed.options) {
    if (option.position_key >= 0) {
      out.operands.insert(out.operands.end(), option.value.begin(), option.value.end());
    } else {
      std::vector<std::string>& values = out.given[option.string_key];
      values.insert(values.end(), option.value.begin(), option.value.end());
      for (const std::string& value : option.value) out.in_order.emplace_back(option.string_key, value);
    }
  }
}

Status read_words(const Command& command, const std::vector<std::string>& words, Arguments& out) {
  try {
    const po::options_description described = description(command);
    // Abbreviations are not accepted: "--rec" in a script must not change its meaning when an option is
    // added.
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    store(po::command_line_parser(words).options(described).style(style).run(), out);
  } catch (const po::error& fault) {
    return usage(command, fault.what());
  }
  return {};
}

std::string switch_row(const Switch& option) {
  std::string names = option.letter != 0 ? std::string("-") + option.letter + ", " : "    ";
  names += std::string("--") + option.name;
  if (option.value != nullptr) names += std::string(" ") + option.value;
  return "  " + left(std::move(names), 28) + " " + option.text + "\n";
}

/// Returns the words that give the option as often as it was given.
std::string words_of(const Switch& option, const Arguments& arguments) {
  const auto given = arguments.given.find(option.name);
  if (given == arguments.given.end()) return "";
  std::string name =
      option.letter != 0 ? std::string(" -") + option.letter : std::string(" --") + option.name;
  if (option.value == nullptr) return name;
  std::string out;
  for (const std::string& value : given->second) out += name + " " + shell_word(value);
  return out;
}

}  // namespace

bool has_common_verbose(const Command& command) {
  return std::ranges::none_of(command.switches, [](const Switch& one) { return one.letter == 'v'; });
}

std::vector<Switch> all_switches(const Command& command) {
  std::vector<Switch> out(command.switches.begin(), command.switches.end());
  if (takes_patterns(command)) out.push_back(no_glob_option);
  out.push_back(command.facts ? json_option : json_errors_option);
  out.push_back(mount_options);
  out.push_back(trace_option);
  out.push_back(statistics_option);
  if (has_common_verbose(command)) out.push_back(verbose_option);
  out.push_back(help_option);
  return out;
}

Status check_operands(const Command& command, const Arguments& arguments) {
  const std::size_t count = arguments.operands.size();
  if (count < command.least) {
    const std::string given = count == 0 ? "" : ", and got only '" + arguments.operands.back() + "'";
    return usage(command, std::string(command.name) + " needs " + command.operands + given);
  }
  if (count > command.most) {
    return usage(command, std::string(command.name) + ": unexpected operand '" +
                              arguments.operands[command.most] + "'");
  }
  return {};
}

bool takes_patterns(const Command& command) {
  const std::string_view operands = command.operands;
  const bool is_for_several = operands.find("TARGET...") != std::string_view::npos ||
                              operands.find("EXISTING...") != std::string_view::npos;
  return is_for_several && std::string_view(command.name) != "mkdir";  // whose names do not exist yet
}

std::string line_for_shell(const Command& command, const Arguments& arguments,
                           const std::vector<std::string>& operands) {
  std::string out = std::string("nfsrdma-cli ") + command.name;
  for (const Switch& option : all_switches(command)) out += words_of(option, arguments);
  const bool has_dash =
      std::ranges::any_of(operands, [](const std::string& operand) { return operand.starts_with('-'); });
  if (has_dash) out += " --";
  for (const std::string& operand : operands) out += " " + shell_word(operand);
  return out;
}

std::optional<std::string> Arguments::value(const std::string& name) const {
  const auto found = given.find(name);
  if (found == given.end() || found->second.empty()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> command_first(std::vector<std::string> words) {
  auto at = words.begin();
  const auto is_common = [](const std::string& word) {
    return word.starts_with("-o") || word.starts_with("--options") || word == "--trace" ||
           word.starts_with("--trace=");
  };
  while (at != words.end() && is_common(*at)) {
    const bool value_follows = *at == "-o" || *at == "--options" || *at == "--trace";
    if (++at != words.end() && value_follows) ++at;
  }
  if (at != words.end()) std::rotate(words.begin(), at, at + 1);
  return words;
}

Result<Arguments> parse_arguments(const Command& command, std::vector<std::string> words) {
  Arguments out;
  // Kerberos keys that come into this process must not end up in a core file.
  if (Status status = out.base.set("no_core", "yes"); !status) return status.error();
  const auto mode = command.mode_operand ? take_mode(words) : std::nullopt;
  if (command.one_dash) add_dashes(command, words);
  if (Status status = read_words(command, words, out); !status) return status.error();
  out.help = out.has(help_option.name);
  if (out.help) return out;
  if (mode) out.operands.insert(out.operands.begin(), *mode);
  if (Status status = check_operands(command, out); !status) return status.error();
  for (const std::string& list : out.given[mount_options.name]) {
    if (Status status = out.base.set_all(list); !status)
      return usage(command, "-o: " + status.error().message());
  }
  if (const auto file = out.value(trace_option.name)) {
    if (Status status = out.base.set("trace", *file); !status)
      return usage(command, "--trace: " + status.error().message());
  }
  return out;
}

std::string help_text(const Command& command) {
  std::string out =
      std::string("usage: nfsrdma-cli ") + command.name + " [OPTION]... " + command.operands + "\n";
  out += std::string(command.summary) + ".\n\noptions:\n";
  for (const Switch& option : all_switches(command)) out += switch_row(option);
  out += "\nA target is host:/path or nfs://host[:port]/path[?opt=val&...].\noptions for the connection:\n";
  for (const OptionHelp& option : option_help()) {
    out += "  " + left(option.name, 16) + " " + option.text + ";\n" + std::string(21, ' ') + "takes " +
           option.values + "\n";
  }
  return out;
}

}  // namespace nfsrdma::cli
