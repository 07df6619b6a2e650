#include "cli/pseudo_exports.h"

#include <algorithm>
#include <utility>

#include "cli/servers.h"

namespace nfsrdma::cli {
namespace {

constexpr int kMostListings = 200, kMostDepth = 8;
/// Limits for one directory: entries that are looked at, and directories among them.
constexpr std::size_t kMostEntries = 4096, kMostDirectories = 128;

using FileSystem = std::pair<std::uint64_t, std::uint64_t>;

FileSystem file_system_of(const Attributes& attributes) {
  return {attributes.filesystem_major, attributes.filesystem_minor};
}

class Walk {
 public:
  explicit Walk(Names& server) : server_(server) {}

  /// Adds the exports at and below `path`, where a file system begins.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as kMostDepth
  void visit(const std::string& path, const FileSystem& here, int depth, std::vector<std::string>& out) {
    std::vector<std::string> below;
    if (!leads_on(path, here, depth, below)) out.push_back(path);
    std::ranges::move(below, std::back_inserter(out));
  }

 private:
  /// Returns true if the directory only leads to exports. Exports that were found go to `below` in any case.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as kMostDepth
  bool leads_on(const std::string& path, const FileSystem& here, int depth, std::vector<std::string>& below) {
    if (depth == kMostDepth || listings_++ == kMostListings) return false;
    bool only_ways = true;
    std::size_t entries = 0;
    std::vector<std::string> directories;
    const Status listed = server_.list(path, [&](const DirectoryEntry& entry) {
      const bool known = entry.attributes.has_value();
      if (known && entry.attributes->type == FileType::directory)
        directories.push_back(entry.name);
      else if (known)
        only_ways = false;
      return ++entries < kMostEntries && directories.size() <= kMostDirectories;
    });
    if (!listed || directories.empty()) return false;
    if (directories.size() > kMostDirectories) only_ways = false;
    for (const std::string& name : directories) {
      const std::string child = join(path, name);
      // The entry's own attributes may be those of the directory that the other file system hides.
      const Result<Attributes> now = server_.stat(child, false);
      if (!now) {
        only_ways = false;
      } else if (file_system_of(*now) != here) {
        visit(child, file_system_of(*now), depth + 1, below);
      } else if (only_ways) {
        only_ways = leads_on(child, here, depth + 1, below);
      }
    }
    return only_ways;
  }

  Names& server_;
  int listings_ = 0;
};

}  // namespace

Result<std::vector<std::string>> pseudo_exports(Names& server) {
  const Result<Attributes> root = server.stat("/", false);
  if (!root) return root.error();
  std::vector<std::string> out;
  Walk(server).visit("/", file_system_of(*root), 0, out);
  std::ranges::sort(out);
  return out;
}

}  // namespace nfsrdma::cli
