// TCP sockets as the iWARP connection needs them: a few system calls. Errors are returned as errno.
//
// A Socket owns its descriptor. Everything is non-blocking and close-on-exec; no function here waits.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "async/descriptor.h"

namespace nfsrdma::fabric::iwarp {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : descriptor_(fd) {}

  /// Opens a TCP socket, with TCP_NODELAY and keepalive. Returns an invalid one, with errno set, if the
  /// system has none.
  [[nodiscard]] static Socket open(int family);
  /// Sets the options of open() on an accepted socket.
  void set_options() const;

  [[nodiscard]] bool valid() const { return descriptor_.is_valid(); }
  [[nodiscard]] int fd() const { return descriptor_.get(); }
  void reset() { descriptor_.reset(); }

  /// Returns the number of octets, or -1 with errno, like the system calls (EAGAIN if the call would wait).
  /// Interrupted calls are repeated.
  [[nodiscard]] ssize_t receive(std::span<iovec> into) const;
  /// Like receive(), but leaves the octets in the socket.
  [[nodiscard]] ssize_t peek(std::span<iovec> into) const;
  /// Discards octets that were peeked at.
  void skip(std::size_t count) const;
  /// Sets SO_RCVLOWAT: the socket is reported readable once this many octets have arrived, or the end. A read
  /// itself does not wait for them.
  void set_low_water(std::size_t octets) const;
  [[nodiscard]] ssize_t send(std::span<iovec> from) const;

  /// Returns the error of a non-blocking connect() that has ended; 0 for success.
  [[nodiscard]] int take_error() const;
  /// Returns the path's effective maximum segment size.
  [[nodiscard]] std::optional<std::size_t> segment_size() const;

 private:
  async::Descriptor descriptor_;
};

}  // namespace nfsrdma::fabric::iwarp
