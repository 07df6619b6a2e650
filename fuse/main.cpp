// nfsrdma-fuse, and mount.nfsrdma: connects, mounts, and goes into the background.
//
// The connection is made after the fork, by the process that will use it; the one that was started waits for
// it to say how that went. Exit status as mount(8): 0, 1 (usage), 32 (the mount failed).
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "api/resolve.h"
#include "fuse/mount.h"

namespace nfsrdma::fuse {
namespace {

constexpr int kUsage = 1, kFailed = 32;

/// Those that end it, and SIGUSR1.
sigset_t signals_taken() {
  sigset_t out;
  sigemptyset(&out);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&out, number);
  return out;
}

/// Where messages go once the mount stands.
Mount::Log log_of(const MountOptions& options) {
  if (!options.log.empty()) {
    return [file = options.log](const std::string& text) {
      if (std::FILE* out = std::fopen(file.c_str(), "ae")) {
        std::fprintf(out, "%s\n", text.c_str());
        std::fclose(out);
      }
    };
  }
  if (options.foreground) {
    return [](const std::string& text) { std::fprintf(stderr, "nfsrdma-fuse: %s\n", text.c_str()); };
  }
  ::openlog("nfsrdma-fuse", LOG_PID, LOG_DAEMON);
  return [](const std::string& text) {
    std::istringstream lines(text);  // syslog takes one at a time
    for (std::string line; std::getline(lines, line);) ::syslog(LOG_WARNING, "%s", line.c_str());
  };
}

/// `ready` is told once, with what is to be said and the exit status.
int run(const MountOptions& options, const std::function<void(const std::string&, int)>& ready) {
  const auto fail = [&](const Error& error) {
    ready(error.text(), kFailed);
    return kFailed;
  };
  const sigset_t signals = signals_taken();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // Buffers have pages of their own, which go back when they are freed. Otherwise, after the first one that
  // is freed, malloc would take them from its heap, which then has holes of all sizes.
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  const auto deadline = async::Clock::now() + options.target.options.connect_timeout;
  auto addresses = api::resolve(options.target.host, options.target.options.port, deadline, -1);
  if (!addresses) return fail(addresses.error());
  Mount mount(options, *addresses, log_of(options));
  if (auto done = mount.start(); !done) return fail(done.error());
  ready("", 0);
  mount.serve(signals);
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
    std::perror("nfsrdma-fuse: fork");
    return kFailed;
  }
  if (child == 0) {
    ::close(pipe[0]);
    return run(options, [&](const std::string& text, int status) {
      const std::string message = static_cast<char>(status) + text;
      if (::write(pipe[1], message.data(), message.size()) < 0) std::perror("nfsrdma-fuse");
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
    std::cerr << "nfsrdma-fuse: it ended before it had mounted anything; run it with -f to see why\n";
    return kFailed;
  }
  if (message.size() > 1) std::cerr << "nfsrdma-fuse: " << message.substr(1) << '\n';
  return static_cast<unsigned char>(message[0]);
}

int main_of(const std::string& name, const std::vector<std::string>& words) {
  auto options = parse_command_line(name, words);
  if (!options) {
    std::cerr << "nfsrdma-fuse: " << options.error().text() << '\n';
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
  // A path of its own would mean something else after chdir("/").
  if (char* full = ::realpath(options->mountpoint.c_str(), nullptr); full != nullptr) {
    options->mountpoint = full;
    std::free(full);  // NOLINT: realpath's malloc
  } else {
    std::cerr << "nfsrdma-fuse: " << options->mountpoint << ": there is no such directory to mount on\n";
    return kFailed;
  }
  if (!options->log.empty() && options->log.front() != '/') {
    std::cerr << "nfsrdma-fuse: --log takes an absolute path, not '" << options->log << "'\n";
    return kUsage;
  }
  if (options->foreground) {
    return run(*options, [](const std::string& text, int) {
      if (!text.empty()) std::cerr << "nfsrdma-fuse: " << text << '\n';
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
