// Descriptors of the library, and what a fork(2) does to them.
//
// A child of fork(2) has a copy of every object and of every descriptor of its parent, and none of its other threads. The
// copies of the descriptors lead to the same sockets, epoll instances and eventfds: whatever the child does to one of
// these it does to its parent. So the copies are closed in the child before fork(2) returns there, and an object that a
// child has inherited refuses to work (Birth).
//
// fork(2) alone is noticed. vfork(2) and posix_spawn(3) leave nothing to be noticed, since exec(2) closes all of this; a
// process that is made by a bare clone(2) is not noticed.
//
// Thread-safety: Birth from any thread; a Descriptor is its owner's.
#pragma once

#include <atomic>
#include <utility>

namespace nfsrdma::async {

namespace detail {
/// Increases in the child of each fork(2).
extern std::atomic<unsigned> forks;
}  // namespace detail

/// The process that an object was made in.
class Birth {
 public:
  /// The object was made by a process that this one was forked from.
  [[nodiscard]] bool is_inherited() const { return detail::forks.load(std::memory_order_relaxed) != forks_; }

 private:
  unsigned forks_ = detail::forks.load(std::memory_order_relaxed);
};

/// Owns a descriptor, which a child of fork(2) does not have.
class Descriptor {
 public:
  Descriptor() = default;
  /// -1 is none.
  explicit Descriptor(int fd);
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)), birth_(other.birth_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(birth_, other.birth_);
    return *this;
  }
  ~Descriptor() { reset(); }

  /// -1 in a child of fork(2) as well: the number may be another file's there.
  [[nodiscard]] int get() const { return birth_.is_inherited() ? -1 : fd_; }
  [[nodiscard]] bool is_valid() const { return get() >= 0; }
  /// Closes it; in a child of fork(2), where that has been done, nothing.
  void reset();

 private:
  int fd_ = -1;
  Birth birth_;
};

}  // namespace nfsrdma::async
