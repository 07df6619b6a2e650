// The descriptors of the library, and their treatment across fork(2).
//
// A child of fork(2) has a copy of every object and of every descriptor of its parent, but only one thread.
// The copied descriptors refer to the same sockets, epoll instances and eventfds: an operation of the child
// on one of these affects its parent. So the copies are closed in the child before fork(2) returns there, and
// an object that a child has inherited refuses to work (Birth).
//
// Only fork(2) is noticed. After vfork(2) and posix_spawn(3) nothing needs to be noticed, because exec(2)
// closes all of these descriptors. A process made by a bare clone(2) is not noticed.
//
// Thread-safety: a Birth may be used from any thread; a Descriptor belongs to its owner's thread.
#pragma once

#include <atomic>
#include <string_view>
#include <utility>

namespace nfsrdma::async {

namespace detail {
/// Increases in the child of each fork(2).
extern std::atomic<unsigned> forks;
}  // namespace detail

/// The process that an object was made in.
class Birth {
 public:
  /// Returns whether the object was made by a process that this one was forked from.
  [[nodiscard]] bool is_inherited() const { return detail::forks.load(std::memory_order_relaxed) != forks_; }

 private:
  unsigned forks_ = detail::forks.load(std::memory_order_relaxed);
};

/// Owns a descriptor, which a child of fork(2) does not inherit.
class Descriptor {
 public:
  Descriptor() = default;
  /// `fd` may be -1: no descriptor.
  explicit Descriptor(int fd);
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)), birth_(other.birth_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(birth_, other.birth_);
    return *this;
  }
  ~Descriptor() { reset(); }

  /// Returns the descriptor. Returns -1 in a child of fork(2), where the number may belong to another file.
  [[nodiscard]] int get() const { return birth_.is_inherited() ? -1 : fd_; }
  [[nodiscard]] bool is_valid() const { return get() >= 0; }
  /// Closes the descriptor. Does nothing in a child of fork(2), where it is closed already.
  void reset();

 private:
  int fd_ = -1;
  Birth birth_;
};

/// Writes all of the text, in as many steps as it takes. Returns 0 or an errno.
int write_all(int fd, std::string_view text);

}  // namespace nfsrdma::async
