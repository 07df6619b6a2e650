// nfsrdma-fuse, and mount.nfsrdma: connects, mounts, and goes into the background.
//
// The connection is made after the fork, by the process that will use it. The process that was started waits
// until that process reports the result, and passes signals on to it. The exit status is as in mount(8): 0, 1
// (usage), 8 (interrupted by a signal), 32 (the mount failed).
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "async/backoff.h"
#include "async/descriptor.h"
#include "connect/resolve.h"
#include "fuse/log.h"
#include "fuse/mount.h"
#include "fuse/mount_record.h"
#include "fuse/mountpoint.h"
#include "fuse/remount.h"
#include "fuse/service_manager.h"
#include "nfsrdma/one_line.h"

namespace nfsrdma::fuse {
namespace {

constexpr int kUsage = 1, kInterrupted = 8, kFailed = 32;

/// Returns the signals that end the mount, and SIGUSR1.
sigset_t signals_taken() {
  sigset_t out;
  sigemptyset(&out);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&out, number);
  return out;
}

/// Returns true if a later attempt may succeed. A host name that cannot be resolved is more likely a typing
/// error than a name service that is not available yet, so it counts as final unless the mount is tried in
/// the background.
bool is_passing(const Error& error, const MountOptions& options) {
  if (error.operation() == "resolve" && error.kind() == ErrorKind::connection) return options.background;
  return error.kind() == ErrorKind::connection || error.kind() == ErrorKind::timeout;
}

/// A descriptor that is readable when a signal asks for the end. SIGUSR1 stays pending until the mount is
/// served.
async::Descriptor open_interrupt() {
  sigset_t ending = signals_taken();
  sigdelset(&ending, SIGUSR1);
  return async::Descriptor(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// Waits between two attempts. Returns false if the descriptor became readable.
bool pause(async::Clock::duration time, int interrupt) {
  const auto until = async::Clock::now() + time;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - async::Clock::now()).count();
    pollfd signal{interrupt, POLLIN, 0};
    const int ready = ::poll(&signal, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready >= 0) return ready == 0;
    if (errno != EINTR) return false;  // EINTR: the process was stopped and continued (signal(7))
  }
}

Result<std::unique_ptr<Mount>> attempt(const MountOptions& options, const Log& log, int interrupt) {
  const auto deadline = async::Clock::now() + options.target.options.connect_timeout;
  auto addresses = connect::resolve(options.target.host, options.target.options.port, deadline, interrupt);
  if (!addresses) return addresses.error();
  try {
    auto mount = std::make_unique<Mount>(options, *addresses, log);
    if (auto done = mount->start(interrupt); !done) return done.error();
    return mount;
  } catch (const std::system_error& fault) {  // no descriptor is left for its loop
    return Error(ErrorKind::local, fault.code().value(), "mount", options.mountpoint, fault.what());
  }
}

std::string counted(std::int64_t count, const std::string& unit) {
  return std::to_string(count) + " " + unit + (count == 1 ? "" : "s");
}

/// Tells the user how the mount proceeds. As long as a process waits for the result, lines go to standard
/// error. After the result has been reported, they go to the log.
class Progress {
 public:
  using Ready = std::function<void(const std::string&, int)>;
  Progress(const MountOptions& options, const Log& log, const Ready& ready)
      : options_(options), log_(log), console_(console_of(options)), ready_(ready) {}

  /// Reports the result if none has been reported.
  void tell(const std::string& text, int status) {
    if (!std::exchange(told_, true)) return ready_(text, status);
    if (!text.empty()) log_(text);
  }
  [[nodiscard]] bool has_told() const { return told_; }
  void begin(unsigned attempt) const {
    if (options_.verbose) line(options_.source + ": attempt " + std::to_string(attempt) + " to mount");
  }
  /// Called after a failure that may pass. The first failure is always printed or logged.
  void failed(unsigned attempt, const std::string& text, async::Clock::duration pause) {
    const std::string period = counted(options_.patience().count(), "minute");
    if (attempt == 1 && options_.background)
      return tell(text + "; trying again in the background for " + period, 0);
    if (attempt == 1) return line(text + "; trying again for " + period);
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(pause).count();
    if (options_.verbose) line(text + "; trying again in " + counted(seconds, "second"));
  }

 private:
  void line(const std::string& text) const { told_ ? log_(text) : console_(text); }

  const MountOptions& options_;
  const Log& log_;
  const Log console_;
  const Ready& ready_;
  bool told_ = false;
};

/// Mounts, and tries again for as long as the options say. Returns the Error of the last attempt.
Result<std::unique_ptr<Mount>> mount_patiently(const MountOptions& options, const Log& log,
                                               Progress& progress) {
  const async::Descriptor interrupt = open_interrupt();
  const auto last = async::Clock::now() + options.patience();
  constexpr auto kFirst = std::chrono::seconds(1), kForeground = std::chrono::seconds(10),
                 kBackground = std::chrono::seconds(30);
  async::Backoff between(kFirst, options.background ? kBackground : kForeground);
  const Error interrupted(ErrorKind::cancelled, EINTR, "mount", options.source,
                          "interrupted by a signal; nothing was mounted");
  for (unsigned count = 1;; ++count) {
    progress.begin(count);
    auto mount = attempt(options, log, interrupt.get());
    if (mount) return mount;
    if (mount.error().kind() == ErrorKind::cancelled) return interrupted;
    const auto next = between.take();
    if (!is_passing(mount.error(), options) || async::Clock::now() + next > last) return mount;
    progress.failed(count, mount.error().text(), next);
    if (!pause(next, interrupt.get())) return interrupted;
  }
}

/// Records the mount on a thread of its own, for a process that serves the mount meanwhile.
std::jthread record_in_background(const MountOptions& options) {
  if (is_recorded_by_mount8(options)) return {};
  try {
    return std::jthread([options] { record_mount(options); });
  } catch (const std::system_error&) {  // no thread is left; the mount works without its record
    return {};
  }
}

/// Calls `ready` once, with the message for the user and the exit status.
int run(const MountOptions& options, const Progress::Ready& ready) {
  const sigset_t signals = signals_taken();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // Large buffers get pages of their own, which go back to the kernel when they are freed. By default malloc
  // takes such buffers from its heap after the first one has been freed, and the heap then has holes of all
  // sizes.
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  const Log log = log_of(options);
  Progress progress(options, log, ready);
  auto mount = mount_patiently(options, log, progress);
  if (!mount) {
    const int status = mount.error().kind() == ErrorKind::cancelled ? kInterrupted : kFailed;
    progress.tell(mount.error().text(), status);
    return status;
  }
  std::jthread recording;
  if (options.foreground || progress.has_told()) recording = record_in_background(options);
  progress.tell("", 0);
  tell_service_manager("READY=1\nSTATUS=" + one_line(options.source) + " is mounted on " +
                       one_line(options.mountpoint));
  (*mount)->serve(signals);
  tell_service_manager("STOPPING=1");
  mount->reset();
  if (recording.joinable()) recording.join();
  forget_mount(options);
  return 0;
}

void into_background() {
  ::setsid();
  if (::chdir("/") != 0) return;
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int fd : {0, 1, 2}) ::dup2(null, fd);
  if (null > 2) ::close(null);
}

/// Writes the result for the waiting process. An error of write(2) means that this process was killed.
void report(int pipe, const std::string& text, int status) {
  const std::string message = static_cast<char>(status) + text;
  [[maybe_unused]] const ssize_t written = ::write(pipe, message.data(), message.size());
}

struct Report {
  std::string
      message;  ///< an octet with the exit status, and a text for the user; empty: there was no report
  bool interrupted = false;  ///< a signal asked for the end
};

/// Reads the report of the child. Passes signals on to the child, which may not have received them.
Report report_of(pid_t child, int pipe) {
  Report out;
  const async::Descriptor signals = open_interrupt();
  std::array<pollfd, 2> ready{pollfd{pipe, POLLIN, 0}, pollfd{signals.get(), POLLIN, 0}};
  for (;;) {
    if (::poll(ready.data(), ready.size(), -1) < 0) continue;  // EINTR
    signalfd_siginfo signal{};
    if (ready[1].revents != 0 &&
        ::read(signals.get(), &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
      ::kill(child, static_cast<int>(signal.ssi_signo));
      out.interrupted = true;
    }
    if (ready[0].revents == 0) continue;
    std::array<char, 1024> piece{};
    const ssize_t got = ::read(pipe, piece.data(), piece.size());
    if (got <= 0) return out;
    out.message.append(piece.data(), static_cast<std::size_t>(got));
  }
}

/// Prints the report, and returns the exit status.
int conclude(const MountOptions& options, pid_t child, const Report& report) {
  const Log console = console_of(options);
  if (report.message.empty()) {
    console("the mount process ended before the mount was complete; run nfsrdma-fuse with -f to see why");
    return kFailed;
  }
  const int status = static_cast<unsigned char>(report.message.front());
  const std::string text = report.message.substr(1);
  if (!text.empty()) console(text);
  if (status != 0) ::waitpid(child, nullptr, 0);
  if (status != 0 || !text.empty()) return status;
  if (report.interrupted) {
    console(options.mountpoint + ": a signal ends the mount; unmounting");
    return kInterrupted;
  }
  record_mount(options);
  if (options.verbose) console(options.source + " is mounted on " + options.mountpoint);
  return status;
}

int in_background(const MountOptions& options) {
  const sigset_t signals = signals_taken();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return kFailed;
  const pid_t child = ::fork();
  if (child < 0) {
    say(std::string("fork: ") + std::strerror(errno));
    return kFailed;
  }
  if (child == 0) {
    ::close(pipe[0]);
    return run(options, [&](const std::string& text, int status) {
      report(pipe[1], text, status);
      into_background();
      ::close(pipe[1]);
    });
  }
  ::close(pipe[1]);
  return conclude(options, child, report_of(child, pipe[0]));
}

Status set_full_mountpoint(MountOptions& options) {
  const auto full = find_mountpoint(options.mountpoint);
  if (!full) return full.error();
  options.mountpoint = *full;
  return {};
}

/// Returns where the configuration of a mount is. What mount(8) mounts for root must not depend on whose HOME root
/// has at the moment, so it follows the system's file only.
connect::Sources sources_for(const std::string& name, bool is_root) {
  connect::Sources out = connect::Sources::of_process();
  if (is_root && is_helper(name)) out.user_file.clear();
  return out;
}

int main_of(const std::string& name, const std::vector<std::string>& words) {
  const bool is_root = ::geteuid() == 0;
  const connect::Sources sources = sources_for(name, is_root);
  const Defaults defaults = [&](const std::string& config, connect::Subject subject) {
    // A mount point that cannot be found is reported later.
    if (const auto full = find_mountpoint(subject.mountpoint); full) subject.mountpoint = *full;
    return connect::read_settings(sources, config, subject);
  };
  auto options = parse_command_line(name, words, is_root, defaults);
  if (!options) {
    say(options.error().text());
    return kUsage;
  }
  if (options->help) {
    std::cout << help_text(name);
    return 0;
  }
  if (options->version) {
    std::cout << "nfsrdma-fuse " << NFSRDMA_VERSION << '\n';
    return 0;
  }
  const Log console = console_of(*options);
  if (options->verbose) std::ranges::for_each(options->notes, console);
  if (options->fake) return 0;
  const auto passed = passed_descriptor(options->mountpoint);
  if (auto done = passed ? check_passed_descriptor(*passed) : set_full_mountpoint(*options); !done) {
    console(done.error().text());
    return kFailed;
  }
  if (options->remount) {
    const auto done = remount(*options);
    if (!done) console(done.error().text());
    return done ? 0 : kFailed;
  }
  if (auto done = check_log(options->log); !done) {
    console(done.error().text());
    return kUsage;
  }
  if (auto done = passed ? Status() : check_mountpoint(options->mountpoint, options->source); !done) {
    console(done.error().text());
    return kFailed;
  }
  if (options->foreground) {
    return run(*options, [&](const std::string& text, int) {
      if (!text.empty()) console(text);
    });
  }
  return in_background(*options);
}

}  // namespace
}  // namespace nfsrdma::fuse

int main(int argc, char** argv) {
  return nfsrdma::fuse::main_of(argc > 0 ? argv[0] : "nfsrdma-fuse",
                                std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}
