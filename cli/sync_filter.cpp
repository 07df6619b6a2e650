// See sync_filter.h.
#include "cli/sync_filter.h"

#include <cerrno>
#include <fstream>
#include <optional>

#include "cli/report.h"

namespace nfsrdma::cli {
namespace {

/// Takes the class "[...]" at the front of `pattern`, and tells whether it has the character. Nothing: the class
/// does not end, so the bracket stands for itself.
std::optional<bool> take_class(std::string_view& pattern, char c) {
  std::string_view rest = pattern.substr(1);
  const bool is_inverted = rest.starts_with('!') || rest.starts_with('^');
  if (is_inverted) rest.remove_prefix(1);
  bool found = false;
  for (bool first = true; !rest.empty(); first = false) {
    if (rest[0] == ']' && !first) {
      pattern = rest.substr(1);
      return found != is_inverted;
    }
    if (rest[0] == '\\' && rest.size() > 1) rest.remove_prefix(1);
    const auto low = static_cast<unsigned char>(rest[0]);
    const bool is_range = rest.size() > 2 && rest[1] == '-' && rest[2] != ']';
    const auto high = static_cast<unsigned char>(is_range ? rest[2] : rest[0]);
    found = found || (low <= static_cast<unsigned char>(c) && static_cast<unsigned char>(c) <= high);
    rest.remove_prefix(is_range ? 3 : 1);
  }
  return std::nullopt;
}

/// Takes what stands for one character at the front of `pattern`, no star. Returns true if it matches `c`.
bool take_one(std::string_view& pattern, char c) {
  if (pattern[0] == '[') {
    if (const auto has = take_class(pattern, c)) return *has && c != '/';
  }
  if (pattern[0] == '\\' && pattern.size() > 1)
    pattern.remove_prefix(1);
  else if (pattern[0] == '?') {
    pattern.remove_prefix(1);
    return c != '/';
  }
  const bool same = pattern[0] == c;
  pattern.remove_prefix(1);
  return same;
}

/// A star that was passed: what follows it, and the text that it has not taken yet.
struct Star {
  std::string_view pattern, text;
};

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  std::optional<Star> one, deep;  // the last '*', and the last "**"
  for (;;) {
    if (pattern.starts_with('*')) {
      const bool is_deep = pattern.starts_with("**");
      pattern.remove_prefix(std::min(pattern.find_first_not_of('*'), pattern.size()));
      if (is_deep) one.reset();
      (is_deep ? deep : one) = Star{pattern, text};
      continue;
    }
    if (pattern.empty() && text.empty()) return true;
    if (std::string_view rest = pattern; !rest.empty() && !text.empty() && take_one(rest, text[0])) {
      pattern = rest;
      text.remove_prefix(1);
      continue;
    }
    // The last star takes one more character. Earlier ones need not be asked, because it could take as much.
    const bool goes_on = one && !one->text.empty() && one->text[0] != '/';
    if (!goes_on) one.reset();
    if (!goes_on && (!deep || deep->text.empty())) return false;
    Star& star = goes_on ? *one : *deep;
    star.text.remove_prefix(1);
    pattern = star.pattern;
    text = star.text;
  }
}

void SyncFilter::add(std::string_view pattern, bool excludes) {
  constexpr std::string_view all = "/***";
  Rule rule;
  rule.excludes = excludes;
  rule.is_anchored = pattern.starts_with('/');
  if (rule.is_anchored) pattern.remove_prefix(1);
  rule.with_contents = pattern.size() > all.size() && pattern.ends_with(all);
  if (rule.with_contents) pattern.remove_suffix(all.size());
  rule.directories_only = !rule.with_contents && pattern.size() > 1 && pattern.ends_with('/');
  if (rule.directories_only) pattern.remove_suffix(1);
  rule.whole_paths = rule.is_anchored || rule.with_contents || pattern.find('/') != std::string_view::npos ||
                     pattern.find("**") != std::string_view::npos;
  rule.pattern = pattern;
  if (!rule.pattern.empty()) rules_.push_back(std::move(rule));
}

bool SyncFilter::matches(const Rule& rule, std::string_view path, bool is_directory) {
  if (rule.directories_only && !is_directory) return false;
  if (!rule.whole_paths) return glob_matches(rule.pattern, path.substr(path.rfind('/') + 1));
  for (;;) {
    const bool is_itself = glob_matches(rule.pattern, path);
    if (is_itself && (is_directory || !rule.with_contents)) return true;
    if (rule.with_contents && glob_matches(rule.pattern + "/**", path)) return true;
    const std::size_t slash = path.find('/');
    if (rule.is_anchored || slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

bool SyncFilter::leaves_out(std::string_view path, bool is_directory) const {
  for (const Rule& rule : rules_) {
    if (matches(rule, path, is_directory)) return rule.excludes;
  }
  return false;
}

void SyncFilter::add_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty() || line[0] == '#' || line[0] == ';') return;
  const bool is_marked = line.starts_with("+ ") || line.starts_with("- ");
  add(line.substr(is_marked ? 2 : 0), !line.starts_with("+ "));
}

Status SyncFilter::add_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return local_error(errno != 0 ? errno : ENOENT, "open", path);
  for (std::string line; std::getline(file, line);) add_line(line);
  return file.bad() ? Status(local_error(EIO, "read", path)) : Status();
}

}  // namespace nfsrdma::cli
