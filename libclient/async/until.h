// co_await until(event, deadline, done) waits until done() returns true. done() is called again whenever the
// event is notified. The result is false if the deadline came first.
//
// Confined to the loop's thread. Does not wait if done() returns true at first. `event`, and everything that
// done() uses, must outlive the task.
#pragma once

#include "async/event.h"
#include "async/task.h"

namespace nfsrdma::async {

template <class Done>
Task<bool> until(Event& event, TimePoint deadline, Done done) {
  while (!done()) {
    const bool in_time = co_await event.wait_until(deadline);
    if (!in_time) co_return false;
  }
  co_return true;
}

}  // namespace nfsrdma::async
