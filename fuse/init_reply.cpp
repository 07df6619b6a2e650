#include "fuse/init_reply.h"

#include <linux/fuse.h>

#include <algorithm>
#include <cstring>

namespace nfsrdma::fuse {
namespace {

/// Copies the object that begins at `at`. Returns false if the bytes end before the object does.
template <class T>
bool take(std::span<const std::byte> from, std::size_t at, T& out) {
  if (from.size() < at + sizeof out) return false;
  std::memcpy(&out, from.data() + at, sizeof out);
  return true;
}

}  // namespace

void InitReply::look(std::span<const std::byte> request) {
  fuse_in_header header{};
  std::uint32_t offered = 0;
  if (answered_ || !take(request, 0, header) || header.opcode != FUSE_INIT) return;
  if (!take(request, sizeof header + offsetof(fuse_init_in, flags), offered)) return;
  wanted_ = offered & (FUSE_HANDLE_KILLPRIV | FUSE_HANDLE_KILLPRIV_V2 | FUSE_PARALLEL_DIROPS);
  if (wanted_ != 0) unique_ = header.unique;
}

std::span<const iovec> InitReply::complete(std::span<const iovec> reply) {
  if (answered_ || !unique_) return reply;
  std::size_t size = 0;
  for (const iovec& piece : reply) {
    if (piece.iov_len > bytes_.size() - size) return reply;
    std::copy_n(static_cast<const std::byte*>(piece.iov_base), piece.iov_len, bytes_.data() + size);
    size += piece.iov_len;
  }
  const auto all = std::span(bytes_).first(size);
  constexpr std::size_t kFlags = sizeof(fuse_out_header) + offsetof(fuse_init_out, flags);
  fuse_out_header header{};
  std::uint32_t flags = 0;
  if (!take(all, 0, header) || header.unique != *unique_ || header.error != 0 || !take(all, kFlags, flags)) {
    return reply;
  }
  // An answer with another major version, which asks for another FUSE_INIT, ends behind the versions and does
  // not get here.
  flags |= wanted_;
  std::memcpy(bytes_.data() + kFlags, &flags, sizeof flags);
  answered_ = true;
  whole_ = {bytes_.data(), size};
  return {&whole_, 1};
}

}  // namespace nfsrdma::fuse
