// Which signals end a thread that waits for a mount, and how a thread that a signal ends is recognized.
#include "fuse/thread_fate.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>

namespace nfsrdma::fuse {
namespace {

std::string status_text(std::uint64_t own, std::uint64_t shared, std::uint64_t blocked, std::uint64_t ignored,
                        std::uint64_t caught, int tracer = 0, const char* state = "S (sleeping)") {
  const auto hex = [](std::uint64_t value) {
    char out[20];
    std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value));
    return std::string(out);
  };
  return "Name:\tSigPnd: x\nState:\t" + std::string(state) + "\nTracerPid:\t" + std::to_string(tracer) +
         "\nSigQ:\t1/3\nSigPnd:\t" + hex(own) + "\nShdPnd:\t" + hex(shared) + "\nSigBlk:\t" + hex(blocked) +
         "\nSigIgn:\t" + hex(ignored) + "\nSigCgt:\t" + hex(caught) + "\n";
}
constexpr std::uint64_t bit(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

}  // namespace

TEST_CASE("F7 which signals end a thread that waits") {
  CHECK_FALSE(has_fatal_signal(status_text(0, 0, 0, 0, 0)));
  CHECK(has_fatal_signal(status_text(bit(SIGKILL), 0, 0, 0, 0)));
  CHECK(has_fatal_signal(status_text(0, bit(SIGKILL), ~0ULL, 0, 0, 77)));
  CHECK(has_fatal_signal(status_text(0, bit(SIGQUIT), 0, 0, 0)));                   // dumps core
  CHECK(has_fatal_signal(status_text(0, bit(40), 0, 0, 0)));                        // a realtime signal
  CHECK_FALSE(has_fatal_signal(status_text(0, bit(SIGTERM), 0, 0, bit(SIGTERM))));  // has a handler
  CHECK_FALSE(has_fatal_signal(status_text(0, bit(SIGTERM), bit(SIGTERM), 0, 0)));
  CHECK_FALSE(has_fatal_signal(status_text(0, bit(SIGTERM), 0, bit(SIGTERM), 0)));
  CHECK_FALSE(has_fatal_signal(status_text(bit(SIGTERM), 0, 0, 0, 0, 77)));  // a debugger's
  for (const int harmless : {SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH}) {
    CHECK_FALSE(has_fatal_signal(status_text(0, bit(harmless), 0, 0, 0)));
  }
  CHECK(has_fatal_signal(status_text(0, 0, 0, 0, 0, 0, "Z (zombie)")));
  CHECK_FALSE(has_fatal_signal(""));
  CHECK_FALSE(has_fatal_signal("SigPnd"));
}

TEST_CASE("F7 a thread on its way out because of a signal is one that was killed") {
  const auto stat = [](unsigned flags, int code) {
    std::string out = "12 (a )b 4) S";
    for (int i = 4; i <= 52; ++i)
      out += " " + std::to_string(i == 9 ? flags : i == 52 ? static_cast<unsigned>(code) : 1U);
    return out + "\n";
  };
  CHECK(dies_of_signal(stat(0x400004, SIGKILL)));
  CHECK(dies_of_signal(stat(0x4, 0x80 | SIGSEGV)));
  CHECK_FALSE(dies_of_signal(stat(0x400000, SIGKILL)));
  CHECK_FALSE(dies_of_signal(stat(0x4, 1 << 8)));  // exit(1)
  CHECK_FALSE(dies_of_signal("12 (x) S 1 2 3"));
  CHECK_FALSE(dies_of_signal(""));
  CHECK(fate_of(::getpid()) == Fate::goes_on);
  CHECK(fate_of(0) == Fate::unknown);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(fate_of(child) == Fate::ends);
  CHECK(::waitpid(child, nullptr, 0) == child);
}

}  // namespace nfsrdma::fuse
