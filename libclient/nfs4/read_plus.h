// What a READ_PLUS answers, put together in the caller's memory (RFC 7862 15.10, RFC 8267 4.1.1). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nfs4/types/ops.h"

namespace nfsrdma::nfs4 {

struct Filled {
  std::size_t count = 0;    ///< bytes from the beginning of the memory
  std::uint64_t holes = 0;  ///< of these, bytes in holes
  std::uint64_t hole_ends =
      0;  ///< end of the hole that the last byte is in, as far as the server tells; 0: that is data
};
/// Puts what the result says into `data`, which begins at `offset`. The first element with data may stand at
/// the beginning of `data` whatever its offset is: its Write chunk does. None for a result that contradicts
/// itself.
[[nodiscard]] std::optional<Filled> put_together(const read_plus_res4& result, std::span<std::byte> data,
                                                 std::uint64_t offset);

/// The length of the data that may have come by the Write chunk: the first element's that has data. 0: none has.
[[nodiscard]] std::size_t first_data_of(const read_plus_res4& result);

/// Whether `data` has a run of zeros of 64 KiB, which a server that reports holes would hardly have sent.
[[nodiscard]] bool has_long_zeros(std::span<const std::byte> data);

}  // namespace nfsrdma::nfs4
