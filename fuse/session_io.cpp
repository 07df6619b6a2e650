#include "fuse/session_io.h"

#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

namespace nfsrdma::fuse {
namespace {

SessionIo& (*io_of)(void* userdata) = nullptr;  // the same for all sessions

}  // namespace

void SessionIo::install(fuse_session* session, SessionIo& (*of)(void* userdata)) {
  io_of = of;
  fuse_custom_io io{};
  io.writev = [](int fd, iovec* parts, int count, void* userdata) {
    return io_of(userdata).send(fd, parts, count);
  };
  io.read = [](int fd, void* memory, std::size_t size, void*) { return ::read(fd, memory, size); };
  // Without memory for it, libfuse goes on as before.
  (void)fuse_session_custom_io(session, &io, fuse_session_fd(session));
}

ssize_t SessionIo::send(int fd, iovec* parts, int count) {
  // An answer that is an error has no body.
  const bool answers_init = !std::exchange(begun_, true) && count == 2;
  if (!answers_init || parts[1].iov_len < sizeof(fuse_init_out)) return ::writev(fd, parts, count);
  fuse_init_out body{};
  std::memcpy(&body, parts[1].iov_base, sizeof body);
  // The kernel passes over what it does not know.
  body.flags |= FUSE_PARALLEL_DIROPS;
  const std::array<iovec, 2> both{parts[0], iovec{&body, sizeof body}};
  return ::writev(fd, both.data(), static_cast<int>(both.size()));
}

}  // namespace nfsrdma::fuse
