// See interrupt.h. The handlers make async-signal-safe calls only: write, alarm, clock_gettime, _exit.
#include "cli/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace nfsrdma::cli::interrupt {
namespace {

constexpr unsigned grace_seconds = 2;
constexpr std::int64_t session_patience_ms = 1000;

std::atomic<int> caught = 0;
std::atomic<std::int64_t> caught_at_ms = 0;
std::atomic<bool> is_aside = false;
std::atomic<bool> grace_is_over = false;
std::atomic<bool> has_session = false;
int event = -1;            // set once, by install()
bool pipe_default = true;  // likewise
std::atomic<void (*)()> last_act = nullptr;
bool grace_spent = false;  // main thread: a Grace after a signal has set the deadline

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

[[noreturn]] void end_at_once(int status) {
  if (void (*const act)() = last_act; act != nullptr) act();
  _exit(status);
}

void poke() {
  const int saved = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t count = ::write(event, &one, sizeof one);
  errno = saved;
}

std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// Returns true if a SIGINT that is not the first one must not end the process.
bool is_tolerated(int number) {
  return has_session && number == SIGINT && now_ms() - caught_at_ms < session_patience_ms;
}

void on_signal(int number) {
  if (is_aside && number == SIGINT) return;
  int expected = 0;
  const bool is_first = caught.compare_exchange_strong(expected, number);
  if (is_first) caught_at_ms = now_ms();
  if (!is_first && !is_tolerated(number)) end_at_once(128 + number);
  poke();
}

void on_alarm(int /*number*/) {
  if (grace_is_over.exchange(true) && !has_session) end_at_once(caught != 0 ? exit_status() : 1);
  poke();
  alarm(grace_seconds);
}

bool is_ignored(int number) {
  struct sigaction action{};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void handle(int number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

void install() {
  event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) std::abort();  // no descriptors at the very start: nothing can work
  // SIGINT is handled even if it is ignored, as a shell arranges for the jobs that a script starts with '&':
  // an explicit kill -INT must end those like any other. A SIGHUP that nohup ignores stays ignored.
  handle(SIGINT, on_signal);
  handle(SIGTERM, on_signal);
  if (!is_ignored(SIGHUP)) handle(SIGHUP, on_signal);
  handle(SIGALRM, on_alarm);
  pipe_default = !is_ignored(SIGPIPE);
  std::signal(SIGPIPE, SIG_IGN);
}

void before_exit(void (*act)()) {
  last_act = act;
}

int fd() {
  return event;
}
bool raised() {
  return caught != 0;
}
int exit_status() {
  return 128 + caught;
}
bool sigpipe_was_default() {
  return pipe_default;
}

void die_of_sigpipe() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

Session::Session() {
  has_session = true;
}

Session::~Session() {
  has_session = false;
}

Aside::Aside() {
  is_aside = true;
  std::signal(SIGQUIT, SIG_IGN);
}

Aside::~Aside() {
  std::signal(SIGQUIT, SIG_DFL);
  is_aside = false;
}

bool forget() {
  if (!has_session || caught != SIGINT) return false;
  alarm(0);
  grace_spent = false;
  grace_is_over = false;
  caught = 0;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = ::read(event, &count, sizeof count);
  return true;
}

Grace::Grace() {
  if (raised() && grace_spent) return;
  grace_spent = raised();
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = ::read(event, &count, sizeof count);
  grace_is_over = false;
  alarm(grace_seconds);
}

Grace::~Grace() {
  if (raised() && grace_spent) return;  // the clock runs on until the process ends
  alarm(0);
  std::uint64_t count = 0;
  if (!raised()) {
    [[maybe_unused]] const ssize_t drained = ::read(event, &count, sizeof count);
  }
}

}  // namespace nfsrdma::cli::interrupt
