// Private to the requester: makes the bytes of a Call for the limits of a connection (RFC
// 8166 3.4, 3.5, 4.3).
//
// The forms of a Call, tried in this order; the first whose Send fits the call threshold is taken:
//   1. RDMA_MSG with everything in it (3.5.1).
//   2. RDMA_MSG, its DDP-eligible items moved to Read chunks (3.5.2).
//   3. RDMA_NOMSG: what is left of form 2 goes into a Position Zero Read chunk over a private copy (3.5.3).
//   4. RDMA_NOMSG: the whole message goes there. It names fewer segments than form 3.
// Of a message whose items may not travel by themselves (Seal::covers_data()), in place of 2 and 3:
//   5. RDMA_NOMSG: a Position Zero Read chunk that names the stream, from a copy in one page, and the items where they
//      stand, in their order.
// Each carries what its Reply needs: a Write list, a Reply chunk (reply_sizing/plan.h).
//
// Whether a form fits is settled by sizes alone, with as many segments as the fabric could need at most;
// memory is exposed only for the form that was chosen. On failure (4.5.4) what had been exposed by then
// stands in Rpc::exposed, for the caller to revoke.
#pragma once

#include <cstdint>
#include <string>

#include "rpcrdma/rpc.h"

namespace nfsrdma::rpcrdma {

/// A Reply chunk, and the copy behind a Long Call, are private memory: a bound that was computed wrong must
/// not take all there is.
inline constexpr std::uint64_t kLargestCopy = 256U << 20;

/// The message with its items and their padding put back: unreduced_size() bytes.
void write_whole(const xdr::Message& message, std::byte* to);

/// Fills in `rpc`'s header, bytes, exposed memory and copies.
[[nodiscard]] Status marshal(Rpc& rpc, const Facts& limits, std::uint32_t credits, Exposer& memory,
                             const std::string& peer);

}  // namespace nfsrdma::rpcrdma
