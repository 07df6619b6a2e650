// Private to the requester: makes the bytes of a Call within the limits of a connection (RFC 8166 3.4, 3.5,
// 4.3).
//
// The forms of a Call, tried in this order; the first whose Send fits the call threshold is taken:
//   1. RDMA_MSG with everything in it (3.5.1).
//   2. RDMA_MSG, its DDP-eligible items moved to Read chunks (3.5.2).
//   3. RDMA_NOMSG: the rest of form 2 goes into a Position Zero Read chunk over a private copy (3.5.3).
//   4. RDMA_NOMSG: the whole message goes into that chunk. It names fewer segments than form 3.
// If the items of a message may not travel by themselves (Seal::covers_data()), form 5 replaces 2 and 3:
//   5. RDMA_NOMSG: a Position Zero Read chunk that names, in their order, the parts of the stream (copied
//      into one page) and the items (where they are in memory).
// Each form also carries what its Reply needs: a Write list, a Reply chunk (reply_sizing/plan.h).
//
// Sizes alone decide whether a form fits, counting as many segments as the fabric could need at most. Memory
// is exposed only for the chosen form. On failure (4.5.4), the memory that was already exposed is in
// Rpc::exposed, for the caller to revoke.
#pragma once

#include <cstdint>
#include <string>

#include "rpcrdma/rpc.h"

namespace nfsrdma::rpcrdma {

/// The largest size of a Reply chunk, and of the copy behind a Long Call. Both are private memory, and a
/// bound that was computed wrong must not use up all memory.
inline constexpr std::uint64_t kLargestCopy = 256U << 20;

/// Writes the message with its items and their padding in their places: unreduced_size() bytes.
void write_whole(const xdr::Message& message, std::byte* to);

/// Fills in `rpc`'s header, bytes, exposed memory and copies.
[[nodiscard]] Status marshal(Rpc& rpc, const Facts& limits, std::uint32_t credits, Exposer& memory,
                             const std::string& peer);

}  // namespace nfsrdma::rpcrdma
