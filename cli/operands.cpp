// See operands.h.
#include "cli/operands.h"

#include <algorithm>
#include <cerrno>

#include "cli/glob.h"
#include "cli/parse.h"

namespace nfsrdma::cli {
namespace {

// ---- the usage line ----

struct UsageWord {
  std::string_view name;
  bool is_repeated = false, is_optional = false;
};

UsageWord usage_word(std::string_view text) {
  UsageWord out;
  out.is_repeated = text.ends_with("...");
  if (out.is_repeated) text.remove_suffix(3);
  out.is_optional = text.starts_with('[') && text.ends_with(']');
  out.name = out.is_optional ? text.substr(1, text.size() - 2) : text;
  return out;
}

std::vector<UsageWord> usage_words(const Command& command) {
  std::vector<UsageWord> out;
  for (std::string_view rest = command.operands; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    out.push_back(usage_word(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

/// The entries of "acl set" may come from a file, and "acl get" has none.
bool lacks_entries(const Command& command, const Arguments& arguments) {
  return command.run == run_acl && (arguments.operands.front() != "set" || arguments.has("file"));
}

/// Leaves out the optional words that were not given.
void drop_absent(const Command& command, const Arguments& arguments, std::vector<UsageWord>& words) {
  const auto optional = std::ranges::find_if(words, &UsageWord::is_optional);
  if (optional == words.end()) return;
  if (arguments.operands.size() < words.size() || lacks_entries(command, arguments)) words.erase(optional);
}

Role role_of_word(const Command& command, const Arguments& arguments, const UsageWord& word) {
  if (word.name == "LOCAL") return Role::local;
  if (word.name == "SERVER") return Role::server;
  if (word.name == "EXISTING") return arguments.has("symbolic") ? Role::other : Role::pattern;
  if (word.name != "TARGET") return Role::other;
  return word.is_repeated && takes_patterns(command) ? Role::pattern : Role::target;
}

// ---- operands as text ----

constexpr std::string_view url_scheme = "nfs://";

/// Decodes the path of a URL. A special character that was encoded gets a backslash, which keeps it ordinary.
std::string pattern_of_url_path(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool may_be_encoded = path[i] == '%' && i + 2 < path.size();
    const auto byte = may_be_encoded ? parse_number<unsigned char>(path.substr(i + 1, 2), 16) : std::nullopt;
    if (!byte) {
      out += path[i];
      continue;
    }
    out += quoted_for_glob(std::string(1, static_cast<char>(*byte)));
    i += 2;
  }
  return out;
}

bool has_special(std::string_view text) {
  return std::ranges::any_of(text, is_special_in_glob);
}

// ---- expansion ----

bool is_there(const Remote& remote) {
  return remote.client->stat(remote.path, false).has_value();
}

Error no_match(const Remote& remote) {
  return {ErrorKind::server, ENOENT, "", remote.text(),
          "no name on the server matches this pattern; if a name really has such characters, write a "
          "backslash before each (\\*), or use --no-glob"};
}

/// Adds what one pattern stands for.
Status add_expanded(Call& call, const std::string& operand, const OperandPattern& pattern,
                    const Remote& remote, std::vector<std::string>& out) {
  const Pattern parsed = Pattern::parse(pattern.path);
  if (is_there(remote)) {
    if (parsed.has_wildcards())
      say(remote.text() + ": a file has exactly this name, so it is not taken as a pattern");
    out.push_back(operand);
    return {};
  }
  if (!parsed.has_wildcards()) {
    out.push_back(pattern.with_path(parsed.literal()));
    return {};
  }
  const Result<std::vector<std::string>> found = parsed.expand(*remote.client);
  if (!found) return found.error();
  const bool may_be_none = call.command.run == run_rm && call.has("force");
  if (found->empty() && !may_be_none) return no_match(remote);
  for (const std::string& path : *found) out.push_back(pattern.with_path(path));
  return {};
}

Status add_operand(Call& call, std::size_t index, std::vector<std::string>& out) {
  const std::string& operand = call.arguments.operands[index];
  std::optional<OperandPattern> pattern;
  // An operand that is no target is left to the command, which reports it.
  const Result<Operand> parsed = call.servers.parse(operand);
  if (parsed && role_of(call.command, call.arguments, index) == Role::pattern)
    pattern = pattern_of(operand, parsed->target.path);
  if (!pattern) {
    out.push_back(operand);
    return {};
  }
  const Result<Remote> remote = call.servers.at(*parsed);
  if (!remote) return remote.error();
  return add_expanded(call, operand, *pattern, *remote, out);
}

/// Returns true if all operands that must be targets are. If one is not, the command reports that, and does
/// nothing.
bool are_targets(Call& call) {
  for (std::size_t i = 0; i < call.arguments.operands.size(); ++i) {
    const Role role = role_of(call.command, call.arguments, i);
    if ((role == Role::pattern || role == Role::target) && !call.servers.parse(call.arguments.operands[i]))
      return false;
  }
  return true;
}

}  // namespace

Role role_of(const Command& command, const Arguments& arguments, std::size_t index) {
  std::vector<UsageWord> words = usage_words(command);
  const std::size_t count = arguments.operands.size();
  drop_absent(command, arguments, words);
  const auto repeated = std::ranges::find_if(words, &UsageWord::is_repeated);
  const auto before = static_cast<std::size_t>(repeated - words.begin());
  if (index < before && index < words.size()) return role_of_word(command, arguments, words[index]);
  if (repeated == words.end()) return Role::other;
  const std::size_t after = words.size() - before - 1, from_end = count - index;
  const UsageWord& word = from_end <= after ? words[words.size() - from_end] : *repeated;
  return role_of_word(command, arguments, word);
}

std::string OperandPattern::with_path(const std::string& other) const {
  return before + (is_url ? percent_encoded(other) : other) + after;
}

std::optional<OperandPattern> pattern_of(std::string_view operand, std::string_view path) {
  OperandPattern out;
  out.is_url = operand.starts_with(url_scheme);
  if (!out.is_url) {
    if (!operand.ends_with(path) || !has_special(path)) return std::nullopt;
    out.before = operand.substr(0, operand.size() - path.size());
    out.path = path;
    return out;
  }
  const std::size_t begin = operand.find('/', url_scheme.size());
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = std::min(operand.find('?', begin), operand.size());
  const std::string_view raw = operand.substr(begin, end - begin);
  if (!has_special(raw)) return std::nullopt;
  out.before = operand.substr(0, begin);
  out.after = operand.substr(end);
  out.path = pattern_of_url_path(raw);
  return out;
}

bool expand_operands(Call& call) {
  if (call.has(no_glob_name) || !takes_patterns(call.command) || !are_targets(call)) return true;
  std::vector<std::string>& operands = call.arguments.operands;
  std::vector<std::string> out;
  bool is_good = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Status added = add_operand(call, i, out);
    if (!added) call.failed(added.error());
    is_good = is_good && added;
  }
  if (!is_good) return false;
  // Several matches of the only operand would be taken for a target and the local name that may follow it.
  if (operands.size() == 1 && out.size() > 1 && call.command.run == run_get) out.emplace_back(".");
  operands = std::move(out);
  return true;
}

}  // namespace nfsrdma::cli
