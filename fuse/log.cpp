#include "fuse/log.h"

#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "nfsrdma/one_line.h"

namespace nfsrdma::fuse {

namespace {

void write_to_stderr(const std::string& line) {
  [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, line.data(), line.size());
}

/// Returns a time as 2026-01-31T12:00:00.123Z.
std::string rfc3339(std::chrono::system_clock::time_point time) {
  const auto since_1970 = time.time_since_epoch();
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(since_1970).count();
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(since_1970).count() % 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> out{};
  const std::size_t length = std::strftime(out.data(), out.size(), "%FT%T", &parts);
  return std::string(out.data(), length) + "." + std::to_string(1000 + ms).substr(1) + "Z";
}

}  // namespace

std::string json_line(std::string_view text, std::chrono::system_clock::time_point now) {
  std::string message;
  // one_line() leaves neither control characters nor ill-formed UTF-8.
  for (const char c : one_line(text)) {
    if (c == '"' || c == '\\') message += '\\';
    message += c;
  }
  return R"({"time":")" + rfc3339(now) + R"(","program":"nfsrdma-fuse","message":")" + message + "\"}";
}

Log console_of(const MountOptions& options) {
  if (!options.json_log) return [](const std::string& text) { say(text); };
  return [](const std::string& text) {
    write_to_stderr(json_line(text, std::chrono::system_clock::now()) + "\n");
  };
}

Log log_of(const MountOptions& options) {
  if (!options.log.empty()) {
    return [file = options.log, json = options.json_log](const std::string& text) {
      if (std::FILE* out = std::fopen(file.c_str(), "ae")) {
        const std::string line = json ? json_line(text, std::chrono::system_clock::now()) : one_line(text);
        std::fprintf(out, "%s\n", line.c_str());
        std::fclose(out);
      }
    };
  }
  if (options.foreground) return console_of(options);
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
  write_to_stderr("nfsrdma-fuse: " + one_line(text) + "\n");
}

void log_lines(const Log& log, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    log(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace nfsrdma::fuse
