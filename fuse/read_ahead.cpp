#include "fuse/read_ahead.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace nfsrdma::fuse {
namespace {

/// Two requests, so that one is under way while the other is used.
constexpr int kKiB = 2048;

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

std::string device_of(const std::string& mountinfo, const std::string& mountpoint) {
  std::string found;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, where;
    if (words >> id >> parent >> device >> root >> where && unescaped(where) == mountpoint) found = device;
  }
  return found;
}

void read_ahead(const std::string& mountpoint) {
  std::ifstream file("/proc/self/mountinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string device = device_of(text, mountpoint);
  if (device.empty()) return;
  std::ofstream("/sys/class/bdi/" + device + "/read_ahead_kb") << kKiB;
}

}  // namespace nfsrdma::fuse
