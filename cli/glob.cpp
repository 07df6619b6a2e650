// See glob.h.
#include "cli/glob.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>

#include "cli/servers.h"

namespace nfsrdma::cli {
namespace {

bool quotes_next(std::string_view text, std::size_t at) {
  return text[at] == '\\' && at + 1 < text.size() && is_special_in_glob(text[at + 1]);
}

/// A '[' without its ']' stands for itself.
bool has_wildcard(std::string_view component) {
  for (std::size_t i = 0; i < component.size(); ++i) {
    const char c = component[i];
    if (quotes_next(component, i)) {
      ++i;
    } else if (c == '*' || c == '?' || (c == '[' && component.find(']', i + 2) != std::string_view::npos)) {
      return true;
    }
  }
  return false;
}

std::string unquoted(std::string_view component) {
  std::string out;
  for (std::size_t i = 0; i < component.size(); ++i) {
    if (quotes_next(component, i)) ++i;
    out += component[i];
  }
  return out;
}

/// fnmatch(3) drops every backslash, so those that are a part of the name are doubled.
std::string for_fnmatch(std::string_view component) {
  std::string out;
  for (std::size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\' && !quotes_next(component, i)) out += '\\';
    out += component[i];
    if (quotes_next(component, i)) out += component[++i];
  }
  return out;
}

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

bool is_missing(const Error& error) {
  return error.errno_value() == ENOENT || error.errno_value() == ENOTDIR;
}

/// Returns false for an object that surely has nothing below it.
bool may_lead_on(const DirectoryEntry& entry) {
  if (!entry.attributes) return true;
  const FileType type = entry.attributes->type;
  return type == FileType::directory || type == FileType::symlink || type == FileType::unknown;
}

bool is_plain_directory(const DirectoryEntry& entry) {
  return entry.attributes && entry.attributes->type == FileType::directory && !entry.name.starts_with('.');
}

}  // namespace

bool is_special_in_glob(char c) {
  return c == '*' || c == '?' || c == '[' || c == ']' || c == '\\';
}

std::string quoted_for_glob(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (is_special_in_glob(c)) out += '\\';
    out += c;
  }
  return out;
}

Pattern Pattern::parse(std::string_view path) {
  Pattern out;
  out.is_directory_ = path.ends_with('/');
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view one = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (one.empty()) continue;
    if (one == "**") {
      out.components_.push_back({Kind::deep, ""});
    } else if (has_wildcard(one)) {
      out.components_.push_back({Kind::wild, for_fnmatch(one)});
    } else {
      out.components_.push_back({Kind::literal, unquoted(one)});
    }
  }
  return out;
}

bool Pattern::has_wildcards() const {
  return std::ranges::any_of(components_, [](const Component& one) { return one.kind != Kind::literal; });
}

std::string Pattern::literal() const {
  std::string out;
  for (const Component& one : components_) out += "/" + one.text;
  return is_directory_ || out.empty() ? out + "/" : out;
}

/// The paths that match the components so far.
class Pattern::Expansion {
 public:
  explicit Expansion(Client& client) : client_(client) {}

  Status add(const Component& component, bool is_last) {
    if (component.kind == Kind::literal) {
      for (std::string& path : paths_) path += "/" + component.text;
      is_checked_ = false;
      return {};
    }
    std::vector<std::string> found;
    for (const std::string& path : paths_) {
      Status status = component.kind == Kind::deep ? add_below(path, is_last, found)
                                                   : add_matches(path, component.text, is_last, found);
      if (!status) return status;
    }
    paths_ = std::move(found);
    is_checked_ = is_from_wildcard_ = true;
    return {};
  }
  /// Returns those of the paths that exist, or that are directories.
  std::vector<std::string> finish(bool is_directory) {
    if (!is_checked_ || is_directory) keep_existing(is_directory);
    if (is_directory) {
      for (std::string& path : paths_) path += '/';
    }
    std::ranges::sort(paths_);
    const auto rest = std::ranges::unique(paths_);
    paths_.erase(rest.begin(), rest.end());
    return std::move(paths_);
  }

 private:
  Status list(const std::string& path, const std::function<void(const DirectoryEntry&)>& take) {
    Status listed = client_.list(path.empty() ? "/" : path, [&](const DirectoryEntry& entry) {
      if (is_plain_name(entry.name)) take(entry);
      return true;
    });
    if (listed || is_missing(listed.error())) return {};
    if (is_from_wildcard_ && listed.error().errno_value() == EACCES) return {};
    return listed;
  }
  Status add_matches(const std::string& path, const std::string& pattern, bool is_last,
                     std::vector<std::string>& found) {
    return list(path, [&](const DirectoryEntry& entry) {
      if (matches(pattern, entry.name) && (is_last || may_lead_on(entry)))
        found.push_back(path + "/" + entry.name);
    });
  }
  /// Symbolic links and names with a leading dot are not descended, so that the walk ends.
  Status add_below(const std::string& top, bool is_last, std::vector<std::string>& found) {
    std::vector<std::string> left{top};
    if (!is_last) found.push_back(top);
    while (!left.empty()) {
      const std::string path = std::move(left.back());
      left.pop_back();
      Status status = list(path, [&](const DirectoryEntry& entry) {
        const bool leads_on = is_plain_directory(entry);
        if (leads_on) left.push_back(path + "/" + entry.name);
        if (is_last ? !entry.name.starts_with('.') : leads_on) found.push_back(path + "/" + entry.name);
      });
      if (!status) return status;
      is_from_wildcard_ = true;
    }
    return {};
  }
  void keep_existing(bool is_directory) {
    const std::vector<Result<Attributes>> facts = client_.stat_many(paths_, is_directory);
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < facts.size(); ++i) {
      if (facts[i] && (!is_directory || facts[i]->type == FileType::directory))
        kept.push_back(std::move(paths_[i]));
    }
    paths_ = std::move(kept);
  }

  Client& client_;
  std::vector<std::string> paths_{""};
  bool is_checked_ = true;         ///< all paths exist
  bool is_from_wildcard_ = false;  ///< the paths are what a pattern has found, and not what the user wrote
};

Result<std::vector<std::string>> Pattern::expand(Client& client) const {
  Expansion expansion(client);
  for (std::size_t i = 0; i < components_.size(); ++i) {
    const bool is_last = i + 1 == components_.size() && !is_directory_;
    if (Status status = expansion.add(components_[i], is_last); !status) return status.error();
  }
  return expansion.finish(is_directory_);
}

}  // namespace nfsrdma::cli
