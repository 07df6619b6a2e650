// What a READ_PLUS answers, put together in the caller's memory (RFC 7862 15.10, RFC 8267 4.1.1). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nfs4/types/ops.h"

namespace nfsrdma::nfs4 {

/// Puts what the result says into `data`, which begins at `offset`. The first element with data may stand at
/// the beginning of `data` whatever its offset is: its Write chunk does. False for a result that contradicts
/// itself. `count`: how far `data` is filled.
[[nodiscard]] bool put_together(const read_plus_res4& result, std::span<std::byte> data, std::uint64_t offset,
                                std::size_t& count);

}  // namespace nfsrdma::nfs4
