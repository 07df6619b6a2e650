#include "fuse/log.h"

#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "nfsrdma/one_line.h"

namespace nfsrdma::fuse {

Log log_of(const MountOptions& options) {
  if (!options.log.empty()) {
    return [file = options.log](const std::string& text) {
      if (std::FILE* out = std::fopen(file.c_str(), "ae")) {
        std::fprintf(out, "%s\n", one_line(text).c_str());
        std::fclose(out);
      }
    };
  }
  if (options.foreground) return [](const std::string& text) { say(text); };
  ::openlog("nfsrdma-fuse", LOG_PID, LOG_DAEMON);
  return [](const std::string& text) { ::syslog(LOG_WARNING, "%s", one_line(text).c_str()); };
}

void say(std::string_view text) {
  const std::string line = "nfsrdma-fuse: " + one_line(text) + "\n";
  [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, line.data(), line.size());
}

void log_lines(const Log& log, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    log(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace nfsrdma::fuse
