// The text of a configuration: sections, and lines such as "rsize = 64K". No function here reads a file.
#include "connect/configuration.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "connect/mount_words.h"

namespace nfsrdma::connect {
namespace {

Error wrong(std::string message) {
  return {ErrorKind::usage, EINVAL, "", "", std::move(message)};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\v\f";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string without_last_slashes(std::string_view path) {
  return std::string(path.substr(0, path.find_last_not_of('/') + 1));
}

/// Removes the quotation marks from around a text.
std::string_view unquoted(std::string_view text) {
  const bool is_quoted = text.size() >= 2 && text.starts_with('"') && text.ends_with('"');
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

// ---- one option ----

bool is_option_of_library(std::string_view name) {
  return std::ranges::any_of(option_help(), [name](const OptionHelp& one) { return name == one.name; });
}

std::vector<std::string_view> names_for_files() {
  std::vector<std::string_view> out;
  for (const OptionHelp& one : option_help()) out.emplace_back(one.name);
  for (const MountWord& one : mount_words) {
    if (one.in_files) out.push_back(one.name);
  }
  return out;
}

/// Returns the truth value that nfsmount.conf(5) writes after an option that is a word ("soft=true").
std::optional<bool> truth(std::string_view value) {
  const std::string text = lower(value);
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  return std::nullopt;
}

/// Returns the word that means the opposite, such as "nolock" for "lock"; empty if there is none.
std::string opposite(std::string_view word) {
  std::string longer = "no" + std::string(word);
  if (find_mount_word(longer) != nullptr) return longer;
  const bool is_no = word.starts_with("no") && find_mount_word(word.substr(2)) != nullptr;
  return is_no ? std::string(word.substr(2)) : "";
}

/// Replaces a truth value by the word that it makes: "lock=false" becomes "nolock".
Status make_word(Setting& setting, const MountWord& known) {
  const std::optional<bool> wanted = truth(*setting.value);
  if (!wanted)
    return known.is_valued() ? Status() : wrong("option '" + setting.name + "' takes no value but yes or no");
  const std::string other = *wanted ? setting.name : opposite(setting.name);
  if (other.empty())
    return wrong("option '" + setting.name + "' has no opposite; leave the line out, or name another option");
  setting.name = other;
  setting.value.reset();
  return {};
}

/// Replaces another name of an option of the library, such as nfsvers, by the library's name.
void rename(Setting& setting, const MountWord& known) {
  if (known.stands_for.empty()) return;
  const std::string all = std::string(known.stands_for) + setting.value.value_or("");
  const std::size_t equals = all.find('=');
  setting.name = all.substr(0, equals);
  setting.value = all.substr(equals + 1);
}

Status check_mount_word(Setting& setting, const MountWord& known) {
  if (!known.in_files)
    return wrong("option '" + setting.name + "' has no meaning here; write it after -o or in /etc/fstab");
  if (setting.value && known.is_word()) {
    if (Status done = make_word(setting, known); !done) return done;
  } else if (!setting.value && !known.is_word()) {
    return wrong("option '" + setting.name + "' takes a value; write " + setting.name + " = VALUE");
  }
  rename(setting, known);
  return {};
}

/// Checks an option, and gives it the form that -o takes.
Status check(Setting& setting) {
  if (setting.value && setting.value->find(',') != std::string::npos)
    return wrong("a value cannot have a comma; write each option in a line of its own");
  if (setting.name == "config") return wrong("option 'config' has no meaning here; write it after -o");
  if (const MountWord* const known = find_mount_word(setting.name)) {
    if (Status done = check_mount_word(setting, *known); !done) return done;
  } else if (!is_option_of_library(setting.name)) {
    return unknown_option(setting.name, names_for_files());
  }
  if (!is_option_of_library(setting.name)) return {};
  return Options().set(setting.name, setting.value.value_or(""));
}

Result<Setting> setting_from(std::string_view text, std::string origin) {
  const std::size_t equals = std::min(text.find('='), text.size());
  Setting out{lower(trimmed(text.substr(0, equals))), std::nullopt, std::move(origin)};
  if (equals != text.size()) out.value = unquoted(trimmed(text.substr(equals + 1)));
  if (Status done = check(out); !done) return wrong(out.origin + ": " + done.error().message());
  return out;
}

// ---- sections ----

struct KindName {
  std::string_view name;
  Section::Kind kind;
};
constexpr std::array kind_names{
    KindName{"defaults", Section::Kind::defaults}, KindName{"server", Section::Kind::server},
    KindName{"export", Section::Kind::exported}, KindName{"mountpoint", Section::Kind::mountpoint}};
constexpr std::string_view forms_of_sections =
    "[defaults], [server \"NAME\"], [export \"SERVER:/PATH\"] or [mountpoint \"/PATH\"]";

/// Stores what a section is for. Returns false if the text has not the form that its kind takes.
bool set_name(Section& section, std::string_view name) {
  switch (section.kind) {
    case Section::Kind::defaults:
      return name.empty();
    case Section::Kind::server:
      section.host = normal_host(name);
      return !section.host.empty() && name.find('/') == std::string_view::npos;
    case Section::Kind::mountpoint:
      section.path = without_last_slashes(name);
      return name.starts_with('/');
    case Section::Kind::exported:
      break;
  }
  const Result<Target> target = parse_target(name);
  if (!target) return false;
  section.host = normal_host(target->host);
  section.path = without_last_slashes(target->path);
  return true;
}

/// Parses "[server "name"]". Returns nothing if the line is no heading.
std::optional<Section> section_from(std::string_view line) {
  if (!line.ends_with(']')) return std::nullopt;
  const std::string_view inside = trimmed(line.substr(1, line.size() - 2));
  const std::size_t blank = std::min(inside.find_first_of(" \t\""), inside.size());
  const auto* const kind = std::ranges::find(kind_names, lower(inside.substr(0, blank)), &KindName::name);
  if (kind == kind_names.end()) return std::nullopt;
  Section out;
  out.kind = kind->kind;
  if (!set_name(out, unquoted(trimmed(inside.substr(blank))))) return std::nullopt;
  return out;
}

Error wrong_heading(const std::string& where, std::string_view line) {
  constexpr std::size_t longest = 80;
  return wrong(where + ": '" + std::string(line.substr(0, longest)) + "' is no section; write " +
               std::string(forms_of_sections));
}

Status add_line(std::vector<Section>& sections, std::string_view line, const std::string& where) {
  if (line.empty() || line.starts_with('#') || line.starts_with(';')) return {};
  if (line.starts_with('[')) {
    auto section = section_from(line);
    if (!section) return wrong_heading(where, line);
    sections.push_back(*std::move(section));
    return {};
  }
  if (sections.empty()) return wrong(where + ": an option precedes all sections; write [defaults] above it");
  auto setting = setting_from(line, where);
  if (!setting) return setting.error();
  sections.back().settings.push_back(*std::move(setting));
  return {};
}

bool is_at_or_below(std::string_view path, const std::string& directory) {
  return path == directory || path.starts_with(directory + "/");
}

}  // namespace

std::string normal_host(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower(host);
}

bool Section::is_for(const Subject& subject) const {
  switch (kind) {
    case Kind::defaults:
      return true;
    case Kind::server:
      return host == normal_host(subject.host);
    case Kind::exported:
      return host == normal_host(subject.host) && is_at_or_below(subject.path, path);
    case Kind::mountpoint:
      break;
  }
  return !subject.mountpoint.empty() && path == without_last_slashes(subject.mountpoint);
}

Result<std::vector<Section>> parse_configuration(std::string_view text, const std::string& file) {
  std::vector<Section> out;
  for (unsigned number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string where = file + ":" + std::to_string(number);
    if (Status done = add_line(out, trimmed(text.substr(0, end)), where); !done) return done.error();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<Setting> settings_for(const std::vector<Section>& sections, const Subject& subject) {
  std::vector<const Section*> chosen;
  for (const Section& one : sections) {
    if (one.is_for(subject)) chosen.push_back(&one);
  }
  // The path of a longer export makes it more particular; the host was compared already.
  std::ranges::stable_sort(chosen, {},
                           [](const Section* one) { return std::pair(one->kind, one->path.size()); });
  std::vector<Setting> out;
  for (const Section* one : chosen) out.insert(out.end(), one->settings.begin(), one->settings.end());
  return out;
}

Result<std::vector<Setting>> parse_settings(std::string_view list, const std::string& origin) {
  std::vector<Setting> out;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    if (trimmed(item).empty()) continue;
    auto setting = setting_from(item, origin);
    if (!setting) return setting.error();
    out.push_back(*std::move(setting));
  }
  return out;
}

Status configure(Target& target, const Sources& sources) {
  const auto settings = read_settings(sources, target.options.config, {target.host, target.path, {}});
  if (!settings) return settings.error();
  const Options given = target.options;
  for (const Setting& one : *settings) {
    if (!is_option_of_library(one.name) || given.origin(one.name) != origin_default) continue;
    if (Status done = target.options.set(one.name, *one.value, one.origin); !done) return done;
  }
  return {};
}

}  // namespace nfsrdma::connect
