#include "nfs4/path.h"

#include <cerrno>

namespace nfsrdma::nfs4 {
namespace {
constexpr std::size_t kMostNameBytes =
    4096;  // no file system has longer names, and no caller PATH_MAX for them
constexpr std::size_t kMostNames = 4096;
constexpr int kMostLinks = 40;  // as Linux
}  // namespace

Status Path::append(std::vector<std::string>& names, std::string_view text) {
  while (!text.empty()) {
    const std::size_t slash = std::min(text.find('/'), text.size());
    const std::string_view name = text.substr(0, slash);
    text.remove_prefix(std::min(slash + 1, text.size()));
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      if (!names.empty()) names.pop_back();
      continue;
    }
    if (name.size() > kMostNameBytes || names.size() >= kMostNames) {
      return Error(ErrorKind::usage, ENAMETOOLONG, "path", std::string(name.substr(0, 64)) + "…",
                   "the path is too long; use a shorter one");
    }
    names.emplace_back(name);
  }
  return {};
}

Result<Path> Path::parse(std::string_view text) {
  Path path;
  if (auto done = append(path.names_, text); !done) return done.error();
  return path;
}

Path Path::parent() const {
  Path up = *this;
  if (!up.names_.empty()) up.names_.pop_back();
  return up;
}

std::string Path::text() const {
  if (names_.empty()) return "/";
  std::string out;
  for (const std::string& name : names_) out += "/" + name;
  return out;
}

Status Path::substitute(std::size_t index, std::string_view link_text) {
  if (++links_followed_ > kMostLinks) {
    return Error(ErrorKind::server, ELOOP, "path", text(),
                 "more than 40 symbolic links on the way; name the file without them");
  }
  std::vector<std::string> names;
  const auto at = static_cast<std::ptrdiff_t>(index);
  // A relative link starts from the directory that it stands in.
  if (!link_text.starts_with('/')) names.assign(names_.begin(), names_.begin() + at);
  if (auto done = append(names, link_text); !done) return done;
  names.insert(names.end(), names_.begin() + at + 1, names_.end());
  if (names.size() > kMostNames) {
    return Error(ErrorKind::server, ENAMETOOLONG, "path", text(),
                 "its symbolic links make the path too long");
  }
  names_ = std::move(names);
  return {};
}

}  // namespace nfsrdma::nfs4
