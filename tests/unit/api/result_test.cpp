// Result and Error: values and errors, and what a program prints that uses a Result without looking.
#include "nfsrdma/result.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

namespace nfsrdma {
namespace {

Error refusal() {
  return {ErrorKind::server, EACCES, 13, "OPEN", "server:/f", "the server refused; check its exports"};
}

/// Runs `act` in a child process, which must end by abort(). Returns what the child wrote to stderr.
template <class Act>
std::string last_words(Act act) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    std::signal(SIGABRT, SIG_DFL);  // doctest has a handler
    ::dup2(ends[1], STDERR_FILENO);
    act();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string out;
  char part[256];
  for (ssize_t count = 0; (count = ::read(ends[0], part, sizeof part)) > 0;)
    out.append(part, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  return out;
}

TEST_CASE("result: a value or an error") {
  const Result<int> good = 7, bad = refusal();
  CHECK(good.has_value());
  CHECK(*good == 7);
  CHECK(good.value_or(1) == 7);
  CHECK_FALSE(bad.has_value());
  CHECK(bad.value_or(1) == 1);
  CHECK(bad.error().errno_value() == EACCES);
  CHECK(bad.error().status() == 13);
  CHECK(bad.error().text() == "server:/f: OPEN: the server refused; check its exports");
  CHECK(Status().has_value());
  CHECK_FALSE(Status(refusal()).has_value());
}

TEST_CASE("result: the value of a failed Result prints the error's text and aborts") {
  const std::string expected =
      "nfsrdma: a result without a value was used: server:/f: OPEN: the server refused; check its exports\n";
  CHECK(last_words([] { (void)Result<int>(refusal()).value(); }) == expected);
  CHECK(last_words([] { (void)*Result<std::string>(refusal()); }) == expected);
  CHECK(last_words([] {
          const Result<std::string> bad = refusal();
          (void)bad->size();
        }) == expected);
}

TEST_CASE("result: the error of a good Result prints that there is none and aborts") {
  CHECK(last_words([] { (void)Result<int>(1).error(); }) == "nfsrdma: value has no error\n");
  CHECK(last_words([] { (void)Status().error(); }) == "nfsrdma: value has no error\n");
}

}  // namespace
}  // namespace nfsrdma
