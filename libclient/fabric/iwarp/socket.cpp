#include "fabric/iwarp/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace nfsrdma::fabric::iwarp {
namespace {

// A peer that vanishes is noticed after half a minute, whether the connection is idle or not.
constexpr int keepalive_idle_s = 15;
constexpr int keepalive_interval_s = 5;
constexpr int keepalive_probes = 3;
constexpr int user_timeout_ms = 1000 * (keepalive_idle_s + keepalive_probes * keepalive_interval_s);

void set(int fd, int level, int name, int value) {
  // Ignore a failure, because the connection works without the option, only less well.
  (void)::setsockopt(fd, level, name, &value, sizeof value);
}

ssize_t receive_message(int fd, std::span<iovec> into, int flags) {
  msghdr message{};
  message.msg_iov = into.data();
  message.msg_iovlen = into.size();
  ssize_t count;
  do {
    count = ::recvmsg(fd, &message, flags);
  } while (count < 0 && errno == EINTR);
  return count;
}

/// The size of nowhere().
constexpr std::size_t kNowhere = 1U << 20;

/// Returns memory for calls that discard octets. They do not touch it, but valgrind checks that it exists.
void* nowhere() {
  static void* const memory =
      ::mmap(nullptr, kNowhere, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED ? memory : nullptr;
}

}  // namespace

Socket Socket::open(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (socket.valid()) socket.set_options();
  return socket;
}

void Socket::set_options() const {
  set(fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd(), IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_s);
  set(fd(), IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_s);
  set(fd(), IPPROTO_TCP, TCP_KEEPCNT, keepalive_probes);
  set(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms);
}

ssize_t Socket::receive(std::span<iovec> into) const {
  return receive_message(fd(), into, MSG_DONTWAIT);
}

ssize_t Socket::peek(std::span<iovec> into) const {
  return receive_message(fd(), into, MSG_DONTWAIT | MSG_PEEK);
}

void Socket::skip(std::size_t count) const {
  // tcp(7): MSG_TRUNC discards the octets. A direct system call, because the sanitizers' recv() would treat
  // the memory as a buffer that is written.
  while (count != 0) {
    const long skipped = ::syscall(SYS_recvfrom, fd(), nowhere(), std::min(count, kNowhere),
                                   MSG_DONTWAIT | MSG_TRUNC, nullptr, nullptr);
    if (skipped <= 0) return;
    count -= static_cast<std::size_t>(skipped);
  }
}

void Socket::set_low_water(std::size_t octets) const {
  set(fd(), SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(octets));
}

ssize_t Socket::send(std::span<iovec> from) const {
  msghdr message{};
  message.msg_iov = from.data();
  message.msg_iovlen = from.size();
  ssize_t count;
  do {
    count = ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  return count;
}

int Socket::take_error() const {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::optional<std::size_t> Socket::segment_size() const {
  int mss = 0;
  socklen_t size = sizeof mss;
  if (::getsockopt(fd(), IPPROTO_TCP, TCP_MAXSEG, &mss, &size) != 0 || mss <= 0) return std::nullopt;
  return static_cast<std::size_t>(mss);
}

}  // namespace nfsrdma::fabric::iwarp
