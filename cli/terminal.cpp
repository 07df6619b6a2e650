// See terminal.h. What the handlers call is async-signal-safe: tcsetattr, write, sigaction, raise.
#include "cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>

#include "cli/interrupt.h"

namespace nfsrdma::cli {

bool write_to_terminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

namespace {

constexpr std::string_view second_screen = "\x1b[?1049h\x1b[?25l", first_screen = "\x1b[?25h\x1b[?1049l";
constexpr std::array stopping{SIGTSTP, SIGQUIT};

termios before{}, during{};           // set before the handlers are installed
bool has_keys = false;                // standard input is a terminal, too
std::atomic<bool> is_active = false;  // the second screen is shown

/// In the background, tcsetattr would stop the process by SIGTTOU.
void set_keys(const termios& to) {
  if (has_keys && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp()) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &to);
}

void enter() {
  set_keys(during);
  write_to_terminal(second_screen);
  is_active = true;
}

void leave() {
  if (!is_active.exchange(false)) return;
  write_to_terminal(first_screen);
  set_keys(before);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

/// Lets the signal have its usual effect on a terminal that is as it was. After a stop, goes on here.
void on_stop(int number) {
  const int saved = errno;
  leave();
  handle(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  std::raise(number);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  handle(number, on_stop);
  enter();
  errno = saved;
}

}  // namespace

Screen::Screen() {
  has_keys = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before) == 0;
  during = before;
  during.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  during.c_cc[VMIN] = 1;
  during.c_cc[VTIME] = 0;
  interrupt::before_exit(leave);
  for (const int number : stopping) handle(number, on_stop);
  enter();
}

Screen::~Screen() {
  for (const int number : stopping) handle(number, SIG_DFL);
  leave();
  interrupt::before_exit(nullptr);
}

bool Screen::show(std::string_view text) const {
  // Each line is cleared behind its end, and so is all below the last, so that nothing flickers.
  std::string out = "\x1b[H";
  for (const char c : text) {
    if (c == '\n') out += "\x1b[K";
    out += c;
    if (c == '\n') out += '\r';
  }
  return write_to_terminal(out + "\x1b[J");
}

char Screen::key(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  std::array<pollfd, 2> ready{pollfd{has_keys ? STDIN_FILENO : -1, POLLIN, 0},
                              pollfd{interrupt::fd(), POLLIN, 0}};
  const auto wait = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  char key = 0;
  if (::poll(ready.data(), ready.size(), wait) <= 0 || ready[0].revents == 0) return 0;
  const ssize_t got = ::read(STDIN_FILENO, &key, 1);
  if (got == 0) has_keys = false;  // the terminal is gone; its SIGHUP follows
  return got == 1 ? key : '\0';
}

Screen::Size Screen::size() {
  winsize size{};
  Size out;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return out;
  if (size.ws_row != 0) out.lines = size.ws_row;
  if (size.ws_col != 0) out.columns = size.ws_col;
  return out;
}

}  // namespace nfsrdma::cli
