// TCP sockets as the iWARP connection needs them: the few system calls, with their errors left as errno.
//
// A Socket owns its descriptor. Everything is non-blocking and close-on-exec; nothing here waits.
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

  /// A fresh TCP socket, without delay and with keepalive; invalid, with errno, when the system has none.
  [[nodiscard]] static Socket open(int family);
  /// Sets the same options on an accepted one.
  void set_options() const;

  [[nodiscard]] bool valid() const { return descriptor_.is_valid(); }
  [[nodiscard]] int fd() const { return descriptor_.get(); }
  void reset() { descriptor_.reset(); }

  /// Like the system calls: octets, or -1 with errno (EAGAIN where it would wait). Interruptions are retried.
  [[nodiscard]] ssize_t receive(std::span<iovec> into) const;
  /// The same, and leaves it there.
  [[nodiscard]] ssize_t peek(std::span<iovec> into) const;
  /// Takes octets that were peeked at out of the socket.
  void skip(std::size_t count) const;
  /// Readiness is told of once this many octets are there, or the end is. The reads themselves do not wait for them.
  void set_low_water(std::size_t octets) const;
  [[nodiscard]] ssize_t send(std::span<iovec> from) const;

  /// The error that a non-blocking connect() ended with; 0 for success.
  [[nodiscard]] int take_error() const;
  /// The path's effective maximum segment size.
  [[nodiscard]] std::optional<std::size_t> segment_size() const;

 private:
  async::Descriptor descriptor_;
};

}  // namespace nfsrdma::fabric::iwarp
