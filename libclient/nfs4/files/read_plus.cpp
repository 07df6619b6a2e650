#include "nfs4/files/read_plus.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace nfsrdma::nfs4 {
namespace {

struct Piece {
  std::uint64_t begin = 0, length = 0;
  bool hole = false;
  xdr::ConstBytes bytes;
};

/// Lists the elements of the result. Returns false for an element of a kind that was not asked for.
bool list(const read_plus_res4& result, std::vector<Piece>& pieces) {
  for (const read_plus_content& content : result.rpr_contents.value) {
    if (const data4* some = content.get<NFS4_CONTENT_DATA>()) {
      pieces.push_back({some->d_offset, some->d_data.data.size(), false, some->d_data.data});
    } else if (const data_info4* hole = content.get<NFS4_CONTENT_HOLE>()) {
      pieces.push_back({hole->di_offset, hole->di_length, true, {}});
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Filled> put_together(const read_plus_res4& result, std::span<std::byte> data,
                                   std::uint64_t offset) {
  std::vector<Piece> pieces;
  if (!list(result, pieces)) return std::nullopt;
  Filled out;
  // Holes within `data`. Zeros are written last, because data may first have to be moved away from where a
  // hole is.
  std::vector<std::span<std::byte>> zeros;
  std::size_t filled = 0;
  for (const Piece& piece : pieces) {
    if (piece.length == 0) {
      if (piece.begin != offset + filled) return std::nullopt;
      continue;
    }
    const std::uint64_t next = offset + filled;
    const std::uint64_t end = piece.begin + piece.length;
    // RFC 7862 15.10.3: elements are in order, and a hole may begin before and end behind the range that was
    // asked for. A hole may therefore reach back over bytes that an earlier element has filled. Those bytes
    // stay as they are.
    if (end < piece.begin || end < next) return std::nullopt;
    if (piece.hole ? piece.begin > next : piece.begin != next) return std::nullopt;
    const std::span<std::byte> rest = data.subspan(filled);
    if (!piece.hole && piece.length > rest.size()) return std::nullopt;
    const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(end - next, rest.size()));
    if (here != 0) out.hole_ends = piece.hole ? end : 0;
    if (piece.hole) {
      zeros.push_back(rest.first(here));
      out.holes += here;
    } else {
      std::memmove(rest.data(), piece.bytes.data(), here);
    }
    filled += here;
  }
  for (const std::span<std::byte> one : zeros) std::ranges::fill(one, std::byte{0});
  out.count = filled;
  return out;
}

std::size_t first_data_of(const read_plus_res4& result) {
  for (const read_plus_content& content : result.rpr_contents.value) {
    if (const data4* some = content.get<NFS4_CONTENT_DATA>()) return some->d_data.data.size();
  }
  return 0;
}

bool has_long_zeros(std::span<const std::byte> data) {
  constexpr std::size_t kBlock = 4096, kLong = 64U << 10;
  std::size_t run = 0;
  for (; data.size() >= kBlock && run < kLong; data = data.subspan(kBlock)) {
    const bool zeros = std::ranges::all_of(data.first(kBlock), [](std::byte b) { return b == std::byte{0}; });
    run = zeros ? run + kBlock : 0;
  }
  return run >= kLong;
}

}  // namespace nfsrdma::nfs4
