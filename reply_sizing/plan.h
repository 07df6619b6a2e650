// What a Call must offer so that its largest possible Reply has somewhere to go (RFC
// 8166 3.4.6, 4.3.2, 4.3.3).
//
// Three ways, the first that suffices:
//   1. Nothing. The largest Reply, all results in it, fits a Receive.
//   2. Write chunks: one for each result in order, an empty one for a result that is wanted inline (4.3.2.3).
//      Where no result would get memory, no Write list.
//   3. Beside them a Reply chunk, exactly when what then still comes in the stream may be too large (4.3.3).
//      The server echoes the Write list in its Reply, so offering one makes the Reply's header larger.
//
// How long a transport header is on the wire, who writes headers says (rpcrdma/marshal.cpp). Pure: no memory
// is touched here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nfsrdma::reply_sizing {

/// One DDP-eligible result, in the order of the results.
struct ResultBound {
  std::uint64_t max_length = 0;
  bool wanted_inline = false;
  std::size_t segments = 1;  ///< how many the fabric needs at most to expose max_length bytes
  /// Whether memory would be offered for it.
  [[nodiscard]] bool wants_memory() const { return !wanted_inline && max_length != 0; }
};

/// The largest RPC Reply, from its xid on, header and verifier included (8.2.2.2).
struct ReplyBounds {
  std::uint64_t max_inline = 0;   ///< all results in the stream
  std::uint64_t max_reduced = 0;  ///< without the results that are not wanted inline
  std::span<const ResultBound> results;
};

/// Of a transport header: without chunks, and what a Write chunk and each of its segments adds.
struct HeaderSizes {
  std::uint64_t least = 0, write_chunk = 0, segment = 0;
};

struct ReplyPlan {
  bool write_list = false;        ///< offer one Write chunk for each result
  std::uint64_t reply_chunk = 0;  ///< the length of the Reply chunk to offer; 0: none
};

[[nodiscard]] ReplyPlan plan_reply(const ReplyBounds& bounds, std::uint32_t reply_threshold,
                                   const HeaderSizes& header);

/// The bytes that such a Write list adds to the header of the Call and of the Reply.
[[nodiscard]] std::uint64_t write_list_size(std::span<const ResultBound> results, const HeaderSizes& header);

}  // namespace nfsrdma::reply_sizing
