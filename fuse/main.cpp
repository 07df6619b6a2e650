// nfsrdma-fuse, and mount.nfsrdma: connects, mounts, and goes into the background.
//
// The connection is made after the fork, by the process that will use it. The process that was started waits
// until that process reports the result. The exit status is as in mount(8): 0, 1 (usage), 32 (the mount
// failed).
#include <fcntl.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>

#include "async/backoff.h"
#include "connect/resolve.h"
#include "fuse/log.h"
#include "fuse/mount.h"
#include "fuse/mountpoint.h"
#include "fuse/remount.h"

namespace nfsrdma::fuse {
namespace {

constexpr int kUsage = 1, kFailed = 32;

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

/// Waits between two attempts. Returns false if a signal came that asks for the end.
bool pause(async::Clock::duration time, const sigset_t& signals) {
  timespec left{};
  left.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  for (;;) {
    const int got = ::sigtimedwait(&signals, nullptr, &left);
    if (got < 0 && errno == EINTR) continue;  // the process was stopped and continued (signal(7))
    if (got < 0) return errno == EAGAIN;
    if (got != SIGUSR1) return false;
  }
}

Result<std::unique_ptr<Mount>> attempt(const MountOptions& options, const Log& log) {
  const auto deadline = async::Clock::now() + options.target.options.connect_timeout;
  auto addresses = connect::resolve(options.target.host, options.target.options.port, deadline, -1);
  if (!addresses) return addresses.error();
  try {
    auto mount = std::make_unique<Mount>(options, *addresses, log);
    if (auto done = mount->start(); !done) return done.error();
    return mount;
  } catch (const std::system_error& fault) {  // no descriptor is left for its loop
    return Error(ErrorKind::local, fault.code().value(), "mount", options.mountpoint, fault.what());
  }
}

/// Calls `ready` once, with the message for the user and the exit status.
int run(const MountOptions& options, const std::function<void(const std::string&, int)>& ready) {
  const sigset_t signals = signals_taken();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // Large buffers get pages of their own, which go back to the kernel when they are freed. By default malloc
  // takes such buffers from its heap after the first one has been freed, and the heap then has holes of all
  // sizes.
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  const Log log = log_of(options);
  // If attempts go on in the background, the waiting process gets its answer after the first one, and later
  // messages are logged.
  bool told = false;
  const auto tell = [&](const std::string& text, int status) {
    if (!std::exchange(told, true)) return ready(text, status);
    if (!text.empty()) log(text);
  };
  const auto last = async::Clock::now() + options.patience();
  constexpr auto kFirst = std::chrono::seconds(1), kForeground = std::chrono::seconds(10),
                 kBackground = std::chrono::seconds(30);
  async::Backoff between(kFirst, options.background ? kBackground : kForeground);
  auto mount = attempt(options, log);
  while (!mount) {
    const Error error = mount.error();
    const auto next = between.take();
    if (!is_passing(error, options) || async::Clock::now() + next > last) {
      tell(error.text(), kFailed);
      return kFailed;
    }
    if (options.background && !told) tell(error.text() + "; retrying in the background", 0);
    if (!pause(next, signals)) {
      tell(error.text() + "; a signal arrived, so the mount is not retried", kFailed);
      return kFailed;
    }
    mount = attempt(options, log);
  }
  tell("", 0);
  (*mount)->serve(signals);
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

int in_background(const MountOptions& options) {
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
      const std::string message = static_cast<char>(status) + text;
      if (::write(pipe[1], message.data(), message.size()) < 0) say(std::strerror(errno));
      into_background();
      ::close(pipe[1]);
    });
  }
  ::close(pipe[1]);
  std::string message;
  std::array<char, 1024> piece{};
  for (ssize_t got = 0; (got = ::read(pipe[0], piece.data(), piece.size())) > 0;) {
    message.append(piece.data(), static_cast<std::size_t>(got));
  }
  if (message.empty()) {
    say("the mount process ended before the mount was complete; run nfsrdma-fuse with -f to see why");
    return kFailed;
  }
  if (message.size() > 1) say(message.substr(1));
  return static_cast<unsigned char>(message[0]);
}

int main_of(const std::string& name, const std::vector<std::string>& words) {
  auto options = parse_command_line(name, words, ::geteuid() == 0);
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
  if (options->fake) return 0;
  if (options->verbose) std::ranges::for_each(options->notes, say);
  if (auto full = find_mountpoint(options->mountpoint); full) {
    options->mountpoint = *full;
  } else {
    say(full.error().text());
    return kFailed;
  }
  if (options->remount) {
    const auto done = remount(*options);
    if (!done) say(done.error().text());
    return done ? 0 : kFailed;
  }
  if (!options->log.empty() && options->log.front() != '/') {
    say("--log takes an absolute path, not '" + options->log + "'");
    return kUsage;
  }
  if (auto done = check_mountpoint(options->mountpoint, options->source); !done) {
    say(done.error().text());
    return kFailed;
  }
  if (options->foreground) {
    return run(*options, [](const std::string& text, int) {
      if (!text.empty()) say(text);
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
