// A file descriptor that has one owner.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace nfsrdma::cli {

/// Closes a descriptor on scope exit; -1 stands for none. `borrowed` descriptors (stdin, stdout) stay open.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1, bool borrowed = false) : fd_(fd), borrowed_(borrowed) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)), borrowed_(other.borrowed_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(borrowed_, other.borrowed_);
    return *this;
  }
  ~Descriptor() { close(); }
  [[nodiscard]] int get() const { return fd_; }
  /// Closes the descriptor. Returns 0 or an errno.
  int close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || borrowed_ || ::close(fd) == 0 ? 0 : errno;
  }

 private:
  int fd_;
  bool borrowed_;
};

}  // namespace nfsrdma::cli
