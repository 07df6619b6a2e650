// A descriptor that one thread makes readable to end the poll() of another.
//
// set() may be called from any thread and from a signal handler; descriptor() stays readable until clear().
//
// The constructor throws std::system_error if no descriptor is left. Code that makes a Wakeup while the
// program runs must catch this, and use a slower way or return an error to its caller, because an exception
// that escapes from a Task ends the program.
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

#include "async/descriptor.h"

namespace nfsrdma::async {

class Wakeup {
 public:
  Wakeup() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_.is_valid()) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  [[nodiscard]] int descriptor() const { return fd_.get(); }
  void set() const { (void)::eventfd_write(fd_.get(), 1); }
  void clear() const {
    eventfd_t count = 0;
    (void)::eventfd_read(fd_.get(), &count);
  }

 private:
  Descriptor fd_;
};

}  // namespace nfsrdma::async
