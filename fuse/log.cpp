#include "fuse/log.h"

#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

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

Status check_log(const std::string& file) {
  if (file.empty()) return {};
  const auto refused = [&file](int code, const std::string& why) {
    return Error(ErrorKind::usage, code, "--log", file, why);
  };
  // The daemon has another working directory than this process.
  if (file.front() != '/') return refused(EINVAL, "the path is not absolute; write /path/to/file");
  const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return refused(errno, std::string(std::strerror(errno)) + "; name a file that can be written");
  ::close(fd);
  return {};
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
