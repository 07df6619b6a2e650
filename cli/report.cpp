// See report.h.
#include "cli/report.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cli/error_json.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "nfsrdma/one_line.h"

namespace nfsrdma::cli {
namespace {

constexpr std::size_t buffer_size = 64 * 1024;

struct Advice {
  int errno_value;
  const char* step;
};

constexpr auto advice = std::to_array<Advice>({
    {ENOENT, "check the path"},
    {EACCES, "check its permissions and those of its directory"},
    {EPERM, "check its permissions and its owner"},
    {EISDIR, "name a file instead"},
    {ENOTDIR, "name a directory instead"},
    {ENOSPC, "make room and try again"},
    {EDQUOT, "make room within your quota and try again"},
    {EROFS, "choose a writable place"},
    {EFBIG, "choose a file system for files of this size"},
    {ENAMETOOLONG, "choose a shorter name"},
    {EBADF, "it is closed: open it, or redirect it to a file or /dev/null"},
    {EPIPE, "check the program that reads the output"},
    {EIO, "check the device it is on"},
    {ENOMEM, "free some memory or lower rsize= and wsize="},
});

std::atomic<bool> reports_are_json = false;

void write_report(std::string line) {
  Progress::erase();
  line += '\n';
  [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, line.data(), line.size());
}

const char* next_step(int errno_value) {
  for (const Advice& row : advice) {
    if (row.errno_value == errno_value) return row.step;
  }
  return "check it and try again";
}

}  // namespace

void report_as_json(bool wanted) {
  reports_are_json = wanted;
}

void say(std::string_view text) {
  // The names in a text may contain anything.
  write_report(reports_are_json ? notice_json(text) : "nfsrdma-cli: " + one_line(text));
}

void say_error(const Error& error) {
  if (reports_are_json) return write_report(error_json(error));
  say(error.text());
}

void write_error(std::string_view text) {
  Progress::erase();
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // standard error is closed
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

Error local_error(int errno_value, std::string operation, std::string file) {
  std::string message = std::strerror(errno_value);
  message += std::string("; ") + next_step(errno_value);
  return {ErrorKind::local, errno_value, std::move(operation), std::move(file), std::move(message)};
}

bool Output::is_terminal() {
  return isatty(STDOUT_FILENO) != 0;
}

bool Output::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() < buffer_size && !(terminal_ && text.ends_with(line_end_))) return error_ == 0;
  return flush();
}

bool Output::flush() {
  std::string_view rest = buffer_;
  while (error_ == 0 && !rest.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR || interrupt::raised()) {
      error_ = errno;
    }
  }
  buffer_.clear();
  return error_ == 0;
}

}  // namespace nfsrdma::cli
