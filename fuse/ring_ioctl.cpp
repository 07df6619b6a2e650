#include "fuse/ring_ioctl.h"

#include <cerrno>
#include <cstring>

namespace nfsrdma::fuse {
namespace {

/// Answers with the argument as `handle(asked)` has changed it. `handle` returns an errno, or 0.
template <class Asked, class Handle>
void answer_ioctl(fuse_req_t raw, const void* in, std::size_t in_size, std::size_t out_size, Handle handle) {
  Asked asked{};
  if (in_size != sizeof asked || out_size < sizeof asked) {
    fuse_reply_err(raw, EINVAL);
    return;
  }
  std::memcpy(&asked, in, sizeof asked);
  if (const int code = handle(asked); code != 0) {
    fuse_reply_err(raw, code);
  } else {
    fuse_reply_ioctl(raw, 0, &asked, sizeof asked);
  }
}

}  // namespace

void op_ring_ioctl(fuse_req_t raw, fuse_ino_t /*inode*/, unsigned command, void* /*argument*/,
                   fuse_file_info* info, unsigned flags, const void* in, std::size_t in_size,
                   std::size_t out_size) {
  Mount& mount = *static_cast<Mount*>(fuse_req_userdata(raw));
  const auto file = (flags & FUSE_IOCTL_DIR) != 0 ? nullptr : mount.file(info->fh);
  if (!file || mount.ring_door() == nullptr) {
    fuse_reply_err(raw, ENOTTY);
    return;
  }
  switch (command) {
    case RING_OPEN:
      return answer_ioctl<ring_open>(raw, in, in_size, out_size, [&](ring_open& asked) {
        return mount.ring_door()->open(fuse_req_ctx(raw)->uid, asked);
      });
    case RING_ATTACH:
      return answer_ioctl<ring_attach>(raw, in, in_size, out_size, [&](ring_attach& asked) {
        return mount.ring_door()->attach(asked, file);
      });
    default:
      fuse_reply_err(raw, ENOTTY);
  }
}

}  // namespace nfsrdma::fuse
