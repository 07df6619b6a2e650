// Adds flags to the answer to FUSE_INIT that libfuse before 3.16.3 never passes on to the kernel, whatever
// its `want` says (libfuse issue 884). The bytes of the answer are changed as it is sent.
//
// - FUSE_PARALLEL_DIROPS: the kernel sends the lookups and listings of one directory concurrently.
// - FUSE_HANDLE_KILLPRIV: the kernel leaves the set-id bits of a file that is written to the server, which
//   clears them if the writer may not keep them. Without this flag the kernel first sends a chmod on behalf
//   of the writer, and a writer who does not own the file is refused.
// - FUSE_HANDLE_KILLPRIV_V2: says the same of capabilities. Without this flag the kernel asks for
//   security.capability before each write, which is one request more for each.
//
//     InitReply init;
//     init.look(request);      // each request that arrives, until answered() is true
//     init.complete(reply);    // each reply that is sent
//
// No I/O. Confined to the loop's thread, but for complete(): once FUSE_INIT is answered nothing changes any more, and any thread
// may call it.
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
  /// `request` holds the bytes as they came from the kernel.
  void look(std::span<const std::byte> request);
  /// Returns the reply to send: `reply` itself, or a changed copy that is kept in this object.
  std::span<const iovec> complete(std::span<const iovec> reply);
  [[nodiscard]] bool answered() const { return answered_; }

 private:
  std::optional<std::uint64_t> unique_;  // number of the FUSE_INIT that is to be answered
  std::uint32_t wanted_ = 0;             // flags to add, of those that the kernel offered
  bool answered_ = false;
  std::array<std::byte, 256> bytes_{};
  iovec whole_{};
};

}  // namespace nfsrdma::fuse
