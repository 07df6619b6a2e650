// co_await until(event, deadline, done) waits until done() returns true. done() is called again whenever the
// event is notified. The result is false if the deadline came first.
//
// Confined to the loop's thread. Does not wait if done() returns true at first. `event`, and everything that
// done() uses, must outlive the wait.
#pragma once

#include <utility>

#include "async/event.h"
#include "async/soon.h"

namespace nfsrdma::async {

template <class Done>
Task<bool> wait_until_done(Event& event, TimePoint deadline, Done done) {
  while (!done()) {
    const bool in_time = co_await event.wait_until(deadline);
    if (!in_time) co_return false;
  }
  co_return true;
}

template <class Done>
Soon<bool> until(Event& event, TimePoint deadline, Done done) {
  if (done()) return true;
  return wait_until_done(event, deadline, std::move(done));
}

}  // namespace nfsrdma::async
