#include "fuse/mountinfo.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace nfsrdma::fuse {
namespace {

/// Decodes a word of mountinfo, in which spaces and similar characters are octal escapes.
std::string unescaped(const std::string& word) {
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool escape = word[i] == '\\' && i + 3 < word.size();
    if (!escape) {
      out += word[i];
      continue;
    }
    out += static_cast<char>(std::strtol(word.substr(i + 1, 3).c_str(), nullptr, 8));
    i += 3;
  }
  return out;
}

}  // namespace

std::optional<MountInfo> topmost_mount(const std::string& mountinfo, const std::string& mountpoint) {
  std::optional<MountInfo> found;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, where, word;
    MountInfo one;
    if (!(words >> id >> parent >> one.device >> one.root >> where >> one.options)) continue;
    if (unescaped(where) != mountpoint) continue;
    while (words >> word && word != "-") continue;  // optional fields
    words >> one.type >> one.source >> one.super_options;
    one.source = unescaped(one.source);
    found = one;
  }
  return found;
}

bool is_mounted_below(const std::string& mountinfo, const std::string& path) {
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, where;
    if (!(words >> id >> parent >> device >> root >> where)) continue;
    where = unescaped(where);
    if (where == path || where.starts_with(path + "/")) return true;
  }
  return false;
}

std::string mountinfo_now() {
  std::ifstream file("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<MountInfo> mounted_at(const std::string& mountpoint) {
  return topmost_mount(mountinfo_now(), mountpoint);
}

bool is_mounted_below(const std::string& path) {
  return is_mounted_below(mountinfo_now(), path);
}

}  // namespace nfsrdma::fuse
