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
#include <cstdint>
#include <string>

#include "cli/event.h"
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

using interrupt::handle;

constexpr std::string_view second_screen = "\x1b[?1049h\x1b[?25l", first_screen = "\x1b[?25h\x1b[?1049l";
constexpr std::array stopping{SIGTSTP, SIGQUIT};

termios before{}, during{};
bool has_keys = false;                // standard input is a terminal, too
bool is_screen = false;               // false: a Prompt
std::atomic<bool> is_active = false;  // the terminal has the state of the Screen or the Prompt

void set_keys(const termios& to) {
  if (has_keys) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &to);
}

/// Signalled while the screen must be drawn again. Made by the first call, which is not a handler's.
const Event& redraw() {
  static const Event event;
  return event;
}

/// In the background, this stops the process by SIGTTOU until it has the terminal.
void enter() {
  set_keys(during);
  if (is_screen) write_to_terminal(second_screen);
  is_active = true;
  redraw().signal();
}

/// In the background, the terminal is another program's, and is left as it is.
void leave() {
  if (!is_active.exchange(false)) return;
  if (is_screen) write_to_terminal(first_screen);
  if (!has_keys || ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) return;
  set_keys(before);
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
  if (!is_active) enter();  // SIGCONT may have been discarded
  errno = saved;
}

/// Other programs may have changed the terminal while this one was stopped.
void on_continue(int /*number*/) {
  const int saved = errno;
  enter();
  errno = saved;
}

void on_resize(int /*number*/) {
  const int saved = errno;
  redraw().signal();
  errno = saved;
}

void begin(bool draws) {
  (void)redraw();  // before a handler can signal it
  is_screen = draws;
  has_keys = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before) == 0;
  during = before;
  interrupt::before_exit(leave);
  for (const int number : stopping) handle(number, on_stop);
  handle(SIGCONT, on_continue);
  handle(SIGWINCH, on_resize);
}

void end() {
  for (const int number : stopping) handle(number, SIG_DFL);
  handle(SIGCONT, SIG_DFL);
  handle(SIGWINCH, SIG_DFL);
  leave();
  interrupt::before_exit(nullptr);
  must_draw_again();  // the next Screen or Prompt begins with nothing to draw
}

}  // namespace

int redraw_fd() {
  return redraw().fd();
}

bool must_draw_again() {
  return redraw().clear();
}

Screen::Screen() {
  begin(true);
  during.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  during.c_cc[VMIN] = 1;
  during.c_cc[VTIME] = 0;
  enter();
  must_draw_again();  // the first show() comes anyway
}

Screen::~Screen() {
  end();
}

Prompt::Prompt() {
  begin(false);
  is_active = true;
}

Prompt::~Prompt() {
  end();
}

void Prompt::note_state() {
  if (has_keys) ::tcgetattr(STDIN_FILENO, &during);
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
  std::array<pollfd, 3> ready{pollfd{has_keys ? STDIN_FILENO : -1, POLLIN, 0},
                              pollfd{interrupt::fd(), POLLIN, 0}, pollfd{redraw_fd(), POLLIN, 0}};
  const auto wait = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  char key = 0;
  if (::poll(ready.data(), ready.size(), wait) <= 0 || ready[0].revents == 0)
    return must_draw_again() ? '\f' : '\0';
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
