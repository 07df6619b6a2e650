// From a name to addresses.
#include "connect/resolve.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>

#include "async/wakeup.h"
#include "fabric/address.h"
#include "support/loopback.h"
#include "support/nfs_fixture.h"
#include "support/silent_helpers.h"
#include "support/skipped.h"

namespace nfsrdma::connect {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kAnyPort = 20049;

async::TimePoint soon() {
  return async::Clock::now() + 30s;
}

/// Lets this thread take a signal again and again, for as long as one lives: the next one when it has taken the last.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction taken{};
    taken.sa_handler = [](int) { ++count_; };
    REQUIRE(::sigaction(SIGUSR2, &taken, &before_) == 0);
    thread_ = std::thread([this, whom = ::pthread_self()] {
      while (!ends_) {
        const unsigned before = count_;
        ::pthread_kill(whom, SIGUSR2);
        while (count_ == before && !ends_) std::this_thread::yield();
      }
    });
  }
  ~SignalStorm() {
    ends_ = true;
    thread_.join();
    (void)std::signal(SIGUSR2, SIG_IGN);  // what is still pending goes with that
    ::sigaction(SIGUSR2, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

 private:
  static inline std::atomic<unsigned> count_{0};  // of signals taken
  struct sigaction before_{};
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("resolve: addresses in numbers, of both families, with the port") {
  for (const char* text : {"127.0.0.1", "::1"}) {  // "::1" also where the machine has no IPv6 address
    CAPTURE(text);
    auto found = resolve(text, kAnyPort, soon(), -1);
    REQUIRE(found);
    REQUIRE(found->size() == 1);
    const rpc::Address& address = found->front();
    const bool six = std::strchr(text, ':') != nullptr;
    CHECK(address.storage.ss_family == (six ? AF_INET6 : AF_INET));
    CHECK(address.length == (six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)));
    CHECK(fabric::port_of(address.storage) == kAnyPort);
    CHECK(fabric::host_text(address.storage) == text);
  }
}

TEST_CASE("resolve: a signal that the program takes meanwhile ends nothing") {
  const SignalStorm storm;
  std::optional<Error> failed;
  for (int i = 0; i < 300 && !failed; ++i) {
    auto found = resolve("127.0.0.1", kAnyPort, soon(), -1);
    if (!found) failed = found.error();
  }
  const std::string text = failed ? failed->text() : "";
  CHECK(text.empty());
}

TEST_CASE("resolve: an interrupt ends it, and is told from a name service that does not answer") {
  const async::Wakeup interrupt;
  interrupt.set();
  const SignalStorm storm;
  int ended = 0;
  for (int i = 0; i < 100; ++i) {
    const auto found = resolve("127.0.0.1", kAnyPort, soon(), interrupt.descriptor());
    if (found) continue;  // it was faster
    ++ended;
    REQUIRE(found.error().kind() == ErrorKind::cancelled);
    REQUIRE(found.error().errno_value() == EINTR);
  }
  CHECK(ended > 0);
}

TEST_CASE("resolve: however far away the deadline is") {
  CHECK(resolve("127.0.0.1", kAnyPort, async::TimePoint::max(), -1));
  CHECK(resolve("127.0.0.1", kAnyPort, async::Clock::now() + std::chrono::hours(24 * 50), -1));
}

}  // namespace nfsrdma::connect
