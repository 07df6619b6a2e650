// The result of a READ_PLUS, put together in the caller's memory (RFC 7862 15.10, RFC 8267 4.1.1). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/nfs4/ops.h"

namespace nfsrdma::nfs4 {

struct Filled {
  std::size_t count = 0;    ///< bytes filled, from the beginning of the memory
  std::uint64_t holes = 0;  ///< number of these bytes that are in holes
  /// End of the hole that the last byte is in, as far as the server reports it; 0: the last byte is data.
  std::uint64_t hole_ends = 0;
};
/// Puts the elements of the result into `data`, whose first byte is at `offset` in the file. The Write chunk
/// may have placed the first element with data at the beginning of `data`, whatever its offset is. Returns
/// none if the result contradicts itself.
[[nodiscard]] std::optional<Filled> put_together(const read_plus_res4& result, std::span<std::byte> data,
                                                 std::uint64_t offset);

/// Returns the length of the first element with data, which may have come by the Write chunk; 0 if there is
/// none.
[[nodiscard]] std::size_t first_data_of(const read_plus_res4& result);

/// Whether `data` has a run of zeros of 64 KiB, which a server that reports holes would hardly have sent.
[[nodiscard]] bool has_long_zeros(std::span<const std::byte> data);

}  // namespace nfsrdma::nfs4
