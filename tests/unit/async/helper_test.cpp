// Work on other threads, and what they put into a mailbox.
#include "async/helper.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "async/mailbox.h"

namespace nfsrdma::async {
namespace {

using namespace std::chrono_literals;

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

}  // namespace

TEST_CASE("async: letters arrive in their order, and their descriptor is readable while there are any") {
  Mailbox<int> mailbox;
  std::vector<int> letters, taken;
  mailbox.give(letters);
  CHECK_FALSE(is_readable(mailbox.descriptor()));
  for (int round = 0; round < 3; ++round) {
    letters = {1, 2};
    mailbox.give(letters);
    CHECK(letters.empty());
    letters = {3};
    mailbox.give(letters);
    CHECK(letters.empty());
    CHECK(is_readable(mailbox.descriptor()));
    mailbox.take(taken);
    CHECK(taken == std::vector<int>{1, 2, 3});
    CHECK_FALSE(is_readable(mailbox.descriptor()));
    taken.clear();
    mailbox.take(taken);
    CHECK(taken.empty());
  }
}

namespace {

bool is_blocked(int signal) {
  sigset_t now;
  sigemptyset(&now);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, signal) == 1;
}

}  // namespace

TEST_CASE("async: a helper takes none of the program's signals, and its maker goes on taking them") {
  Loop loop;
  const bool before = is_blocked(SIGTERM);
  const std::function<int()> work = [] { return is_blocked(SIGTERM) && is_blocked(SIGINT) ? 1 : 2; };
  CHECK(loop.run(on_helper<int>(loop, loop.now() + 30s, work)) == std::optional(1));
  CHECK(is_blocked(SIGTERM) == before);
}

TEST_CASE("async: work that does not end in time is left behind, with all that it uses") {
  Loop loop;
  std::promise<int> gate;
  const auto ended = std::make_shared<std::promise<void>>();
  const auto end = ended->get_future();
  const std::function<int()> work = [open = gate.get_future().share(), ended] {
    const int out = open.get();
    ended->set_value();
    return out;
  };
  CHECK_FALSE(loop.run(on_helper<int>(loop, loop.now() + 5ms, work)));
  CHECK(loop.next_timer() == TimePoint::max());
  CHECK_FALSE(loop.turn(TimePoint::min()));
  gate.set_value(7);
  CHECK(end.wait_for(30s) == std::future_status::ready);
  CHECK_FALSE(loop.turn(TimePoint::min()));  // its result is nobody's
}

}  // namespace nfsrdma::async
