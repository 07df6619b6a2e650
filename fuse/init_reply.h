// What libfuse before 3.16.3 never passes on to the kernel, whatever its `want` says (libfuse issue 884): it
// is put into the answer to FUSE_INIT as that leaves.
//
// With FUSE_PARALLEL_DIROPS the kernel sends the lookups and listings of a directory beside each other. With
// FUSE_HANDLE_KILLPRIV it leaves set-id bits of a file that is written to the server, which clears them when
// somebody writes who may not keep them. Without it the kernel sends a chmod in the writer's name first, and
// whoever does not own the file is refused. FUSE_HANDLE_KILLPRIV_V2 says the same of capabilities: without it the
// kernel asks for security.capability before each write, a request more for each.
//
//     InitReply init;
//     init.look(request);      // each that comes, until answered() is true
//     init.complete(reply);    // each that leaves
//
// No I/O. Confined to the loop's thread.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace nfsrdma::fuse {

class InitReply {
 public:
  /// `request`: as it came from the kernel.
  void look(std::span<const std::byte> request);
  /// The same reply, or the one to send instead, which stands in here.
  std::span<const iovec> complete(std::span<const iovec> reply);
  [[nodiscard]] bool answered() const { return answered_; }

 private:
  std::optional<std::uint64_t> unique_;  // of the FUSE_INIT that wants an answer
  std::uint32_t wanted_ = 0;             // of what the kernel offered
  bool answered_ = false;
  std::array<std::byte, 256> bytes_{};
  iovec whole_{};
};

}  // namespace nfsrdma::fuse
