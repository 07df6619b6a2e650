// How many bytes may be on their way to the server (fs/write_window.h), against ways of known rate and
// length.
#include "fs/write_window.h"

#include <doctest/doctest.h>

#include <deque>

namespace nfsrdma::fs {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSize = 1U << 20;

/// A way to a server that takes `rate` bytes in a second, one WRITE behind the other, and whose answers take
/// `trip` besides. A writer keeps it as full as the window allows.
struct Way {
  Way(double r, WriteWindow::Duration t) : rate(r), trip(t) {}

  double rate;
  WriteWindow::Duration trip;
  async::TimePoint now = async::TimePoint(1h);
  WriteWindow window{kSize};
  struct Write {
    async::TimePoint begun, ends;
    bool full;
  };
  std::deque<Write> under_way;
  async::TimePoint free_at = now;  // the server
  std::size_t taken = 0;
  WriteWindow::Duration longest{0};

  void write_for(WriteWindow::Duration time) {
    taken = 0;
    longest = {};
    const async::TimePoint end = now + time;
    const std::chrono::duration<double> each(kSize / rate);
    while (now < end) {
      while (under_way.empty() || (under_way.size() + 1) * kSize <= window.bytes()) {
        free_at = std::max(free_at, now) + std::chrono::duration_cast<WriteWindow::Duration>(each);
        const bool full = (under_way.size() + 1) * kSize > window.bytes() / 2;
        under_way.push_back({now, free_at + trip, full});
        window.began(kSize, now);
      }
      const Write first = under_way.front();
      under_way.pop_front();
      now = first.ends;
      taken += kSize;
      longest = std::max(longest, now - first.begun);
      window.ended(kSize, first.full, now - first.begun, now);
    }
  }
  [[nodiscard]] double used(WriteWindow::Duration time) const {
    return static_cast<double>(taken) / (rate * std::chrono::duration<double>(time).count());
  }
};

}  // namespace

TEST_CASE("write window: keeps any way busy, and the queue short") {
  struct Row {
    double rate;
    WriteWindow::Duration trip;
    WriteWindow::Duration most;
  };
  for (const Row& row : {Row{50e6, 100us, 80ms}, Row{12.5e6, 100us, 200ms}, Row{3e9, 50us, 50ms},
                         Row{100e6, 100ms, 160ms}, Row{125e6, 30ms, 90ms}, Row{1e9, 1ms, 50ms}}) {
    CAPTURE(row.rate);
    CAPTURE(std::chrono::duration<double>(row.trip).count());
    Way way(row.rate, row.trip);
    way.write_for(3s);
    way.write_for(10s);
    CHECK(way.used(10s) > 0.95);
    CHECK(way.longest < row.most);
  }
}

TEST_CASE("write window: grows no further than is used") {
  WriteWindow window{kSize};
  const auto write = [&](bool full, async::TimePoint at) {
    window.began(kSize, at);
    window.ended(kSize, full, 1ms, at + 1ms);
  };
  for (int i = 0; i < 1000; ++i) write(false, async::TimePoint(1h) + i * 1ms);
  CHECK(window.bytes() == WriteWindow::kFirst);
  CHECK(window.window().why == Window::Why::first);
  for (int i = 0; i < 1000; ++i) write(true, async::TimePoint(2h) + i * 1ms);
  CHECK(window.window().why == Window::Why::memory);
  CHECK(window.bytes() == WriteWindow::kMost);
}

TEST_CASE("write window: a way that becomes slower, quicker, longer") {
  Way way(1e9, 1ms);
  way.write_for(5s);
  way.rate = 50e6;
  way.write_for(2s);
  way.write_for(10s);
  CHECK(way.used(10s) > 0.95);
  CHECK(way.longest < 80ms);
  way.rate = 1e9;
  way.write_for(1s);
  way.write_for(10s);
  CHECK(way.used(10s) > 0.95);

  // A longer way looks like a queue for some minutes, and is then known.
  way.trip = 100ms;
  way.rate = 100e6;
  way.write_for(2s);
  CHECK(way.window.bytes() == 2 * kSize);
  way.write_for(11min);
  way.write_for(10s);
  CHECK(way.used(10s) > 0.95);
}

TEST_CASE("write window: one long stall costs half, once for all that it held up") {
  WriteWindow window{kSize};
  for (int i = 0; i < 100; ++i) window.ended(kSize, true, 1ms, async::TimePoint(1h) + i * 1ms);
  REQUIRE(window.bytes() == WriteWindow::kMost);
  for (int i = 0; i < 32; ++i) window.ended(kSize, true, 3s + i * 1ms, async::TimePoint(1h) + 4s + i * 1ms);
  CHECK(window.bytes() == WriteWindow::kMost / 2);
}

}  // namespace nfsrdma::fs
