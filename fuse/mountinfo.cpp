#include "fuse/mountinfo.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace nfsrdma::fuse {
namespace {

/// A word of mountinfo: spaces and the like are in octal.
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
    std::string id, parent, root, where, word, source;
    MountInfo one;
    if (!(words >> id >> parent >> one.device >> root >> where >> one.options)) continue;
    if (unescaped(where) != mountpoint) continue;
    while (words >> word && word != "-") continue;  // optional fields
    words >> one.type >> source >> one.super_options;
    found = one;
  }
  return found;
}

std::optional<MountInfo> mounted_at(const std::string& mountpoint) {
  std::ifstream file("/proc/self/mountinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return topmost_mount(text, mountpoint);
}

}  // namespace nfsrdma::fuse
