// How libfuse's messages go to the kernel: as they are, but for the answer to FUSE_INIT.
//
// libfuse 3.14 lets a file system ask for FUSE_CAP_PARALLEL_DIROPS and leaves it out of its answer, so that
// the kernel would go on to send the lookups and listings of a directory one by one. It is put in here.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <cstddef>

namespace nfsrdma::fuse {

/// Between libfuse and the kernel's descriptor. The first message of a session is the answer to FUSE_INIT.
class SessionIo {
 public:
  /// For a session that has just been mounted, with its descriptor; what is received and sent then goes
  /// through here. `of` finds this in the session's user data.
  static void install(fuse_session* session, SessionIo& (*of)(void* userdata));

  ssize_t send(int fd, iovec* parts, int count);

 private:
  bool begun_ = false;
};

}  // namespace nfsrdma::fuse
