#include "fuse/trace_control.h"

#include <cerrno>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

#include "connect/tracing.h"
#include "fuse/mountinfo.h"
#include "nfsrdma/one_line.h"

namespace nfsrdma::fuse {
namespace {

/// The working directory of a daemon changes when it goes into the background.
std::string absolute(const std::string& file) {
  std::error_code ignored;
  return file.empty() ? file : std::filesystem::absolute(file, ignored).string();
}

}  // namespace

bool leads_to_nfsrdma(const std::string& path) {
  namespace files = std::filesystem;
  constexpr unsigned kMostLinks = 40;  // as the kernel
  const std::string mounts = mountinfo_now();
  const files::path whole = files::path(path).relative_path();
  std::deque<files::path> rest(whole.begin(), whole.end());
  files::path at = "/";
  for (unsigned links = 0; !rest.empty() && links < kMostLinks;) {
    const files::path next = (at / rest.front()).lexically_normal();
    rest.pop_front();
    if (const auto mount = topmost_mount(mounts, next.string()); mount && mount->is_nfsrdma()) return true;
    std::error_code no_link;
    const files::path to = files::read_symlink(next, no_link);
    if (no_link) {
      at = next;
      continue;
    }
    ++links;
    if (to.is_absolute()) at = "/";
    const files::path parts = to.relative_path();
    rest.insert(rest.begin(), parts.begin(), parts.end());
  }
  return !rest.empty();
}

TraceControl::TraceControl(const connect::Options& options, Log log)
    : log_(std::move(log)),
      file_(absolute(options.trace)),
      recorder_(std::make_shared<trace::Recorder>(connect::trace_options(options))) {}

void TraceControl::start() {
  if (!file_.empty()) (void)begin(file_);
}

int TraceControl::begin(const std::string& file) {
  if (auto done = recorder_->start(file); !done) {
    log_(one_line(done.error().text()));
    return done.error().errno_value();
  }
  file_ = recorder_->name();
  log_(one_line(file_) + ": a trace of the messages to the server begins");
  return 0;
}

/// Begins a trace unless its file is on a mount of this program.
int TraceControl::begin_elsewhere(const std::string& file) {
  if (!leads_to_nfsrdma(file)) return begin(file);
  log_(one_line(file) + ": a trace cannot be on a mount of nfsrdma; name a file elsewhere");
  return EXDEV;
}

int TraceControl::obey(std::string_view command) {
  while (command.ends_with('\n')) command.remove_suffix(1);
  if (command == "off") {
    if (recorder_->on()) log_(one_line(file_) + ": the trace ends");
    recorder_->stop();
    return 0;
  }
  constexpr std::string_view kOn = "on", kOnFile = "on ";
  if (command == kOn && !file_.empty()) return begin_elsewhere(file_);
  const bool names_file = command.starts_with(kOnFile) && command.substr(kOnFile.size()).starts_with('/');
  if (names_file && command.find('\0') == std::string_view::npos)
    return begin_elsewhere(std::string(command.substr(kOnFile.size())));
  log_(
      "the file .nfsrdma-trace takes 'on FILE' with an absolute path, 'off', or 'on' if a file was named "
      "before");
  return EINVAL;
}

std::string TraceControl::text() const {
  const std::string file = file_.empty() ? "" : " " + one_line(file_);
  if (!recorder_->on()) return "off" + file + "\n";
  return "on" + file + "\nwritten_bytes=" + std::to_string(recorder_->written()) + "\n";
}

}  // namespace nfsrdma::fuse
