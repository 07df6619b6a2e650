// Watches the descriptor by which a program ends what it waits for (nfsrdma_options_set_interrupt).
//
//     Event ended(loop);
//     const InterruptWatch watch(loop, interrupt, ended);
//     loop.run(until(ended, deadline, [&] { return is_done || watch.is_raised(); }));
//
// Confined to the loop's thread.
#pragma once

#include <poll.h>

#include "async/event.h"
#include "async/loop.h"

namespace nfsrdma::async {

class InterruptWatch {
 public:
  /// Notifies `event` when the descriptor is readable. A `descriptor` of -1 is never readable.
  InterruptWatch(Loop& loop, int descriptor, Event& event) : loop_(loop), fd_(descriptor) {
    if (fd_ >= 0) loop_.watch(fd_, POLLIN, [&event](std::uint32_t) { event.notify_all(); });
  }
  ~InterruptWatch() {
    if (fd_ >= 0) loop_.unwatch(fd_);
  }
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  /// Asks the descriptor itself, because what blocks this thread ends without a turn of the loop.
  [[nodiscard]] bool is_raised() const {
    pollfd one{fd_, POLLIN, 0};
    return fd_ >= 0 && ::poll(&one, 1, 0) > 0;
  }

 private:
  Loop& loop_;
  const int fd_;
};

}  // namespace nfsrdma::async
