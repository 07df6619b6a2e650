#include "async/world.h"

#include <sys/epoll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <system_error>

#include "async/descriptor.h"

namespace nfsrdma::async {
namespace {

constexpr auto kNear = std::chrono::milliseconds(100);
constexpr auto kLongestWait = std::chrono::hours(24);

int wait_for(int epoll, std::span<epoll_event> events, const timespec* timeout) {
  // Timers of less than a millisecond matter (fabric/iwarp/gathering.h). Linux before 5.11 rounds them up.
  static std::atomic<bool> precise = true;
  if (precise) {
    const int count = ::epoll_pwait2(epoll, events.data(), static_cast<int>(events.size()), timeout, nullptr);
    // Older containers answer EPERM to system calls that they do not know.
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    precise = false;
  }
  constexpr long kMilli = 1000000;
  const long ms = timeout == nullptr ? -1 : timeout->tv_sec * 1000 + (timeout->tv_nsec + kMilli - 1) / kMilli;
  return ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), static_cast<int>(ms));
}

timespec timespec_of(Clock::duration time) {
  timespec out{};
  out.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  out.tv_nsec = (time % std::chrono::seconds(1)).count();
  return out;
}

class SystemWorld final : public World {
 public:
  SystemWorld() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_.is_valid()) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  }
  SystemWorld(const SystemWorld&) = delete;
  SystemWorld& operator=(const SystemWorld&) = delete;

  TimePoint now() override {
    const TimePoint now = Clock::now();
    seen_.store(now, std::memory_order_relaxed);
    return now;
  }

  LeaseTime lease_now() override {
    timespec time{};
    if (::clock_gettime(CLOCK_BOOTTIME, &time) != 0) std::abort();  // Linux has had it since 2.6.39
    return LeaseTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }

  std::int64_t wall_seconds() override { return std::time(nullptr); }

  void random(std::span<std::byte> out) override {
    constexpr std::size_t kNeverCutShort = 256;  // getrandom(2): requests of this size are never cut short
    while (!out.empty()) {
      const auto part = out.first(std::min(out.size(), kNeverCutShort));
      if (::getrandom(part.data(), part.size(), 0) != static_cast<ssize_t>(part.size())) std::abort();
      out = out.subspan(part.size());
    }
  }

  std::size_t wait(TimePoint until, std::span<Ready> ready) override {
    std::array<epoll_event, 64>
        events;  // NOLINT(cppcoreguidelines-pro-type-member-init): the kernel fills it
    timespec timeout{};
    if (until != TimePoint::min()) timeout = timespec_of(left(until));
    const int got = wait_for(epoll_.get(), std::span(events).first(std::min(events.size(), ready.size())),
                             until == TimePoint::max() ? nullptr : &timeout);
    const auto count = static_cast<std::size_t>(std::max(got, 0));
    for (std::size_t i = 0; i < count; ++i) ready[i] = {events[i].data.u64, events[i].events};
    return count;
  }

  void watch(int fd, std::uint32_t events, std::uint64_t tag) override {
    control(EPOLL_CTL_ADD, fd, events, tag);
  }
  void change(int fd, std::uint32_t events, std::uint64_t tag) override {
    control(EPOLL_CTL_MOD, fd, events, tag);
  }
  void unwatch(int fd) override { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  [[nodiscard]] int descriptor() const override { return epoll_.get(); }

 private:
  /// Returns the time left until `until`. If `until` is far away, the last reading of the clock is exact
  /// enough.
  Clock::duration left(TimePoint until) {
    TimePoint seen = seen_.load(std::memory_order_relaxed);
    if (until - seen < kNear) seen = now();
    return std::min<Clock::duration>(until - std::min(until, seen), kLongestWait);
  }
  void control(int operation, int fd, std::uint32_t events, std::uint64_t tag) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    [[maybe_unused]] const int rc = ::epoll_ctl(epoll_.get(), operation, fd, &event);
    assert(rc == 0 || !epoll_.is_valid());
  }

  const Descriptor epoll_;
  std::atomic<TimePoint> seen_ = Clock::now();
};

}  // namespace

void World::watch(int /*fd*/, std::uint32_t /*events*/, std::uint64_t /*tag*/) {
  std::abort();
}
void World::change(int /*fd*/, std::uint32_t /*events*/, std::uint64_t /*tag*/) {
  std::abort();
}
void World::unwatch(int /*fd*/) {
  std::abort();
}
int World::descriptor() const {
  std::abort();
}

std::unique_ptr<World> system_world() {
  return std::make_unique<SystemWorld>();
}

}  // namespace nfsrdma::async
