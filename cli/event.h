// A descriptor by which one thread wakes another that waits in poll(2).
//
// Thread-safety: signal() from any thread and from handlers of signals, clear() from the thread that waits.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "cli/descriptor.h"

namespace nfsrdma::cli {

class Event {
 public:
  /// On failure fd() is negative, and errno says why.
  Event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Makes the descriptor readable until clear().
  void signal() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t count = ::write(fd(), &one, sizeof one);
  }
  /// Returns whether the descriptor was readable.
  bool clear() const {
    std::uint64_t count = 0;
    // The descriptor has EFD_NONBLOCK.
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    return ::read(fd(), &count, sizeof count) == sizeof count;
  }

 private:
  const Descriptor fd_;
};

}  // namespace nfsrdma::cli
