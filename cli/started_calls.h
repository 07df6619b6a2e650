// Many calls by path at the same time, from one thread that waits for all of them.
//
// The results outlive the wait: a signal ends it, and the callbacks of calls that are still under way then find
// what they write to.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cli/inbox.h"
#include "cli/interrupt.h"
#include "cli/transfer.h"
#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// Calls `start(index, done)` for each index below `count`, and returns what `done` has heard. A call that has
/// not ended when a signal comes has interrupted() for its result.
template <class T = void, class Start>
std::vector<Result<T>> run_together(Client& client, std::size_t count, Start start) {
  struct Answer {
    std::size_t index;
    Result<T> result;
  };
  constexpr std::chrono::milliseconds most{200};
  const auto answers = std::make_shared<Inbox<Answer>>();
  std::vector<Result<T>> results(count, Result<T>(interrupted()));
  for (std::size_t i = 0; i < count; ++i) {
    start(i, [answers, i](Result<T> result) { answers->put({i, std::move(result)}); });
  }
  const std::array<int, 2> also{interrupt::fd(), answers->event_fd()};
  const std::size_t known = answers->event_fd() < 0 ? 1 : 2;
  for (std::size_t left = count; left != 0 && !interrupt::raised();) {
    std::vector<Answer> ended = answers->take();
    for (Answer& one : ended) results[one.index] = std::move(one.result);
    left -= ended.size();
    if (left != 0 && answers->empty()) client.wait(most, std::span(also).first(known));
  }
  return results;
}

}  // namespace nfsrdma::cli
