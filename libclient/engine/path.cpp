#include "engine/path.h"

#include <algorithm>
#include <cerrno>

namespace nfsrdma::engine {
namespace {
// No file system has longer names, and no caller has a longer path than PATH_MAX.
constexpr std::size_t kMostNameBytes = 4096;
constexpr std::size_t kMostNames = 4096;
constexpr int kMostLinks = 40;  // the limit of Linux

Error too_long(ErrorKind kind, std::string path, const char* why) {
  return {kind, ENAMETOOLONG, "path", std::move(path), why};
}

}  // namespace

/// Adds the components of `text` to `path`. Lowers `stayed` to the smallest number of names that `path` had
/// meanwhile.
Status Path::append(Path& path, std::string_view text, std::size_t& stayed) {
  std::vector<std::string>& names = path.names_;
  while (!text.empty()) {
    const std::size_t slash = std::min(text.find('/'), text.size());
    const std::string_view name = text.substr(0, slash);
    text.remove_prefix(std::min(slash + 1, text.size()));
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      // The directory above the server's root is the root.
      if (names.empty()) path.above_ += path.begin_ ? 1 : 0;
      if (!names.empty()) names.pop_back();
      stayed = std::min(stayed, names.size());
      continue;
    }
    if (name.size() > kMostNameBytes || names.size() + path.above_ >= kMostNames) {
      return too_long(ErrorKind::usage, std::string(name.substr(0, 64)) + "…",
                      "the path is too long; use a shorter one");
    }
    names.emplace_back(name);
  }
  return {};
}

Result<Path> Path::parse(std::string_view text) {
  Path path;
  std::size_t stayed = 0;
  if (auto done = append(path, text, stayed); !done) return done.error();
  return path;
}

Result<Path> Path::parse_at(const FileHandle& directory, std::string_view text) {
  if (text.starts_with('/')) return parse(text);
  Path path;
  path.begin_ = directory;
  std::size_t stayed = 0;
  if (auto done = append(path, text, stayed); !done) return done.error();
  return path;
}

Path Path::parent() const {
  Path up = *this;
  if (!up.names_.empty()) up.names_.pop_back();
  return up;
}

std::string Path::text() const {
  std::string out;
  for (std::size_t i = 0; i < above_; ++i) out += out.empty() ? ".." : "/..";
  for (const std::string& name : names_) out += out.empty() && begin_ ? name : "/" + name;
  if (out.empty()) out = begin_ ? "." : "/";
  return out;
}

Spot Path::spot(std::size_t count) const {
  return {begin_, {names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(count)}};
}

Result<std::size_t> Path::substitute(std::size_t index, std::string_view link_text) {
  if (++links_followed_ > kMostLinks) {
    return Error(ErrorKind::server, ELOOP, "path", text(),
                 "the path leads through more than 40 symbolic links; use a path without them");
  }
  const auto at = static_cast<std::ptrdiff_t>(index);
  Path now;
  std::size_t stayed = 0;
  if (!link_text.starts_with('/')) {
    // A relative link starts from the directory that contains the link.
    now.begin_ = begin_;
    now.above_ = above_;
    now.names_.assign(names_.begin(), names_.begin() + at);
    stayed = index;
  }
  if (auto done = append(now, link_text, stayed); !done) return done.error();
  now.names_.insert(now.names_.end(), names_.begin() + at + 1, names_.end());
  if (now.names_.size() > kMostNames) {
    return too_long(ErrorKind::server, text(), "its symbolic links make the path too long");
  }
  now.links_followed_ = links_followed_;
  *this = std::move(now);
  return stayed;
}

}  // namespace nfsrdma::engine
