// What the requests of a mount tell of the way to the server (fs/pace.h), against ways of known rate and length on
// virtual time.
#include "fs/pace.h"

#include <doctest/doctest.h>

#include <deque>
#include <limits>

#include "fs/read_window.h"
#include "support/virtual_world.h"

namespace nfsrdma::fs {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRequest = 1U << 20;
constexpr async::TimePoint kStart(1h);

/// A server that sends `rate` bytes in a second, one answer behind the other, each `trip` later. A reader has as much
/// under way as twice of what is measured, and two requests, as a ReadWindow has it.
struct Path {
  Path(double r, Pace::Duration t) : rate(r), trip(t) {}

  double rate;
  Pace::Duration trip;
  async::TimePoint now = kStart;
  Pace pace{kRequest};
  std::size_t most = std::numeric_limits<std::size_t>::max();  // bytes under way
  struct Read {
    async::TimePoint begun, ends;
  };
  std::deque<Read> under_way;
  async::TimePoint free_at = now;
  std::size_t got = 0;

  [[nodiscard]] std::size_t window() const {
    const std::size_t wanted = 2 * (pace.product() + kRequest);
    return pace.looks() ? kRequest : std::min({wanted, most, ReadWindow::kMostOfOne});
  }
  void read_for(Pace::Duration time) {
    got = 0;
    const auto each =
        std::chrono::duration_cast<Pace::Duration>(std::chrono::duration<double>(kRequest / rate));
    for (const async::TimePoint end = now + time; now < end;) {
      while (under_way.empty() || (under_way.size() + 1) * kRequest <= window()) {
        free_at = std::max(free_at, now) + each;
        under_way.push_back({now, free_at + trip});
        pace.began(kRequest, now);
      }
      const Read first = under_way.front();
      under_way.pop_front();
      now = std::max(now, first.ends);
      got += kRequest;
      pace.ended(kRequest, kRequest, first.begun, now);
    }
  }
  /// Nobody asks for anything any more.
  void drain() {
    for (; !under_way.empty(); under_way.pop_front()) {
      now = std::max(now, under_way.front().ends);
      pace.ended(kRequest, kRequest, under_way.front().begun, now);
    }
  }
  [[nodiscard]] double used(Pace::Duration time) const {
    return static_cast<double>(got) / (rate * std::chrono::duration<double>(time).count());
  }
};

bool near(double found, double expected, double part = 0.05) {
  return found > expected * (1 - part) && found < expected * (1 + part);
}
double seconds(Pace::Duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

TEST_CASE("pace: nothing is known at first, and nothing is divided by it") {
  Pace pace(kRequest);
  CHECK(pace.bandwidth() == 0);
  CHECK(pace.delay() == 0s);
  CHECK(pace.product() == 0);
  CHECK(pace.expected(kRequest) == 0s);
  CHECK_FALSE(pace.looks());
}

TEST_CASE("pace: a far way is filled within some round trips, and known then") {
  Path path(100e6, 50ms);
  path.read_for(500ms);
  path.read_for(5s);
  CHECK(path.used(5s) > 0.95);
  CHECK(near(path.pace.bandwidth(), 100e6));
  CHECK(near(seconds(path.pace.delay()), 0.05));
  CHECK(near(static_cast<double>(path.pace.product()), 5e6, 0.1));
  CHECK(near(seconds(path.pace.expected(4 * kRequest)), 0.05 + 4 * kRequest / 100e6));
}

TEST_CASE("pace: a near way takes next to nothing") {
  Path path(2e9, 100us);
  path.read_for(5s);
  CHECK(path.used(5s) > 0.95);
  CHECK(near(path.pace.bandwidth(), 2e9));
  CHECK(path.pace.product() < kRequest / 2);
  CHECK(path.window() < 3 * kRequest);
}

TEST_CASE("pace: one request at a time is a bandwidth of its own, and no delay") {
  Path path(100e6, 50ms);
  path.most = kRequest;
  path.read_for(5s);
  CHECK(near(path.pace.bandwidth(), kRequest / (0.05 + kRequest / 100e6)));
  CHECK(path.pace.product() < kRequest / 10);
}

TEST_CASE("pace: a way that becomes longer or slower is known in minutes") {
  Path path(200e6, 10ms);
  path.read_for(5s);
  REQUIRE(near(static_cast<double>(path.pace.product()), 2e6, 0.15));
  SUBCASE("longer") {
    path.trip = 40ms;
    path.read_for(5min);
    path.read_for(10s);
    CHECK(path.used(10s) > 0.95);
    CHECK(near(seconds(path.pace.delay()), 0.04, 0.2));
    CHECK(near(static_cast<double>(path.pace.product()), 8e6, 0.25));
  }
  SUBCASE("slower") {
    path.rate = 20e6;
    path.read_for(1min);
    CHECK(near(path.pace.bandwidth(), 200e6));  // it may come back
    path.read_for(5min);
    CHECK(near(path.pace.bandwidth(), 20e6));
    CHECK(path.window() < 3 * kRequest);
  }
}

TEST_CASE("pace: who reads on and on looks at the way now and then, and takes no queue of his for it") {
  Path path(100e6, 50ms);
  path.read_for(1h);
  CHECK(near(seconds(path.pace.delay()), 0.05));
  CHECK(path.window() < 14 * kRequest);
  path.read_for(30min);
  CHECK(path.used(30min) > 0.98);
}

TEST_CASE("pace: a look that others do not let happen ends") {
  Pace pace(kRequest);
  async::TimePoint now = kStart;
  bool looked = false;
  for (int i = 0; i < 8; ++i) pace.began(kRequest, now);
  for (; now < kStart + Pace::kForget + 5s; now += 10ms) {
    pace.began(kRequest, now);
    pace.ended(kRequest, kRequest, now - 80ms, now);
    looked = looked || pace.looks();
  }
  CHECK(looked);
  CHECK_FALSE(pace.looks());
}

TEST_CASE("pace: a burst out of a cache counts for minutes, and not for longer") {
  Path path(50e6, 1ms);
  path.read_for(5s);
  path.rate = 1e9;
  path.read_for(1s);
  CHECK(near(path.pace.bandwidth(), 1e9, 0.1));
  path.rate = 50e6;
  path.read_for(2 * Pace::kForget + 10s);
  CHECK(near(path.pace.bandwidth(), 50e6));
}

TEST_CASE("pace: answers that are found in one turn, behind a pause of ours, are not a faster way") {
  Path path(100e6, 10ms);
  path.read_for(5s);
  const double before = path.pace.bandwidth();
  for (int i = 0; i < 20; ++i) {
    path.now += 100ms;  // whatever has ended meanwhile ends now
    path.read_for(200ms);
  }
  CHECK(path.pace.bandwidth() <= before * 1.05);
}

TEST_CASE("pace: a server that stands still tells nothing") {
  Path path(100e6, 10ms);
  path.read_for(5s);
  const double bandwidth = path.pace.bandwidth();
  const auto delay = path.pace.delay();
  for (auto& read : path.under_way) read.ends += 30s;
  path.free_at += 30s;
  path.read_for(35s);
  CHECK(near(path.pace.bandwidth(), bandwidth));
  CHECK(path.pace.delay() == delay);
  Pace failing(kRequest);
  failing.began(kRequest, kStart);
  failing.ended(kRequest, 0, kStart, kStart + 1s);
  CHECK(failing.bandwidth() == 0);
  CHECK(failing.delay() == 0s);
}

TEST_CASE("pace: an idle mount forgets nothing, and the pause is no slow spell") {
  Path path(100e6, 50ms);
  path.read_for(5s);
  path.drain();
  const auto product = path.pace.product();
  path.now += 24h;
  CHECK(path.pace.product() == product);
  path.read_for(30s);
  CHECK(path.used(30s) > 0.9);
  CHECK(near(path.pace.bandwidth(), 100e6));
}

TEST_CASE("pace: whatever it is told, what it says is bounded") {
  constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();
  const auto check = [](const Pace& pace) {
    CHECK(pace.bandwidth() >= 0);
    CHECK(pace.bandwidth() <= 1e12);
    CHECK(pace.delay() >= 0s);
    CHECK(pace.delay() <= 1h);
    CHECK(pace.product() <= 1'000'000'000'000);
    CHECK(pace.expected(kHuge) <= 1h);
  };
  Pace pace(kRequest);
  SUBCASE("all in no time") {
    pace.began(kHuge, kStart);
    pace.ended(kHuge, kHuge, kStart, kStart);
  }
  SUBCASE("before it was asked for") {
    pace.began(kRequest, kStart);
    pace.ended(kRequest, kRequest, kStart + 1h, kStart);
  }
  SUBCASE("more than was asked for, and never begun") {
    pace.ended(1, kHuge, kStart, kStart + 1us);
  }
  SUBCASE("a byte in years") {
    pace.began(1, kStart);
    pace.ended(1, 1, kStart, kStart + 24h * 365 * 100);
    pace.began(kRequest, kStart);
    pace.ended(kRequest, kRequest, kStart, kStart + 24h * 365 * 100);
  }
  SUBCASE("nothing at all") {
    pace.began(0, kStart);
    pace.ended(0, 0, kStart, kStart + 1s);
  }
  check(pace);
  pace.began(kRequest, kStart + 1s);
  pace.ended(kRequest, kRequest, kStart + 1s, kStart + 2s);
  check(pace);
}

// ---- what follows for reading ahead ----

namespace {

struct Ahead final : ReadWindow::Reader {
  Ahead(ReadWindow& all, std::size_t size) : Reader(all), window(all) {
    join();
    if (!window.make_room(size, *this)) return;
    window.hold(size);
    has = size;
  }
  ~Ahead() override { Ahead::drop_ahead(); }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  void drop_ahead() override { window.let_go(std::exchange(has, 0)); }
  [[nodiscard]] bool is_waited_for() const override { return waited_for; }
  void read() { join(); }

  ReadWindow& window;
  std::size_t has = 0;
  bool waited_for = false;
};

struct Windows {
  testing::VirtualWorld world;
  async::Loop loop{world};
  ReadWindow window{loop, kRequest, 8 * kRequest};

  void pass(async::Clock::duration time) {
    const auto until = loop.now() + time;
    while (loop.now() < until) loop.turn(until);
  }
  /// `count` READs at once, one answer behind the other.
  void read(int count, Pace::Duration trip, Pace::Duration each) {
    const auto begun = loop.now();
    for (int i = 0; i < count; ++i) window.began(kRequest);
    pass(trip);
    for (int i = 0; i < count; ++i) {
      pass(each);
      window.ended(kRequest, kRequest, begun);
    }
  }
};

}  // namespace

TEST_CASE("read window: two requests, then what the way holds, and no more than its bound") {
  Windows w;
  CHECK(w.window.window().bytes == 2 * kRequest);
  CHECK(w.window.window().why == Window::Why::first);
  w.read(1, 100us, 500us);
  CHECK(w.window.window().bytes < 3 * kRequest);
  CHECK(w.window.window().why == Window::Why::requests);
  Windows far;
  for (int i = 0; i < 3; ++i) far.read(6, 50ms, 10ms);
  CHECK(far.window.window().bytes > 4 * kRequest);
  CHECK(far.window.window().why == Window::Why::product);
  for (int i = 0; i < 3; ++i) far.read(100, 500ms, 1ms);
  CHECK(far.window.window().bytes == ReadWindow::kMostOfOne);
  CHECK(far.window.window().why == Window::Why::memory);
  CHECK(far.window.share() == 8 * kRequest);
}

TEST_CASE("read window: readers share what there is, and those who pause make room") {
  Windows w;
  std::optional<Ahead> first(std::in_place, w.window, 4 * kRequest);
  std::optional<Ahead> second(std::in_place, w.window, 4 * kRequest);
  CHECK(w.window.held() == 8 * kRequest);
  CHECK(w.window.share() == 2 * kRequest);
  for (int i = 0; i < 3; ++i) w.read(100, 500ms, 1ms);
  first->read();
  second->read();
  CHECK(w.window.share() == 4 * kRequest);
  // Both have just read.
  const Ahead late(w.window, kRequest);
  CHECK(late.has == 0);
  CHECK(w.window.held() == 8 * kRequest);
  w.pass(ReadWindow::kPause);
  SUBCASE("the one that paused for longest") {
    second->read();
    const Ahead third(w.window, kRequest);
    CHECK(third.has == kRequest);
    CHECK(first->has == 0);
    CHECK(second->has == 4 * kRequest);
  }
  SUBCASE("not one that waits for the server") {
    first->waited_for = second->waited_for = true;
    const Ahead third(w.window, kRequest);
    CHECK(third.has == 0);
    CHECK(first->has == 4 * kRequest);
  }
  SUBCASE("one that has gone") {
    first.reset();
    CHECK(w.window.held() == 4 * kRequest);
    CHECK(w.window.readers() == 2);
  }
}

TEST_CASE("read window: what nobody reads for some seconds is dropped") {
  Windows w;
  Ahead idle(w.window, kRequest), waits(w.window, kRequest);
  waits.waited_for = true;
  w.pass(ReadWindow::kIdle - 1s);
  CHECK(idle.has == kRequest);
  w.pass(2s);
  CHECK(idle.has == 0);
  CHECK(waits.has == kRequest);
  CHECK(w.window.readers() == 1);
  waits.waited_for = false;
  w.pass(2 * ReadWindow::kIdle);
  CHECK(w.window.held() == 0);
  CHECK(w.window.readers() == 0);
}

}  // namespace nfsrdma::fs
