// What a connection tells its owner, written down; and a loop of the system's world that runs until something is so.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "async/loop.h"
#include "fabric/fabric.h"

namespace nfsrdma::testing {

struct Recorder : fabric::Handler {
  void on_established(const fabric::Established& e) override {
    established = e;
    if (then) then();
  }
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> handle) override {
    const fabric::ConstBytes m = buffer.message();
    messages.emplace_back(m.begin(), m.end());
    invalidated = handle;
    if (on_message) on_message();
  }
  void on_completed(std::uint64_t cookie) override { completed.push_back(cookie); }
  void on_closed(const Error& why) override {
    CHECK_FALSE(closed);
    closed = why;
    if (on_end) on_end();
  }
  /// The work with that cookie is done, once.
  [[nodiscard]] bool has(std::uint64_t cookie) const { return std::ranges::count(completed, cookie) == 1; }
  std::optional<fabric::Established> established;
  std::optional<std::uint32_t> invalidated;
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::uint64_t> completed;
  std::optional<Error> closed;
  std::function<void()> then, on_message, on_end;
};

/// False: it is not in time.
inline bool runs_until(async::Loop& loop, const std::function<bool()>& done,
                       async::Clock::duration patience = std::chrono::seconds(10)) {
  const auto latest = loop.now() + patience;
  loop.end_turn();
  bool is_done = done();
  while (!is_done && loop.now() < latest) {
    loop.turn(latest);
    is_done = done();
  }
  return is_done;
}

}  // namespace nfsrdma::testing
