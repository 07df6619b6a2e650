// Decides what a Call must offer so that its largest possible Reply has room (RFC 8166 3.4.6, 4.3.2, 4.3.3).
//
// Three plans; the first that suffices is used:
//   1. Nothing. The largest Reply, with all results in it, fits a Receive.
//   2. Write chunks: one for each result in order, an empty one for a result that is wanted inline (4.3.2.3).
//      If no result would get memory, there is no Write list.
//   3. In addition a Reply chunk, exactly if the rest of the stream may still be too large (4.3.3).
//      The server echoes the Write list in its Reply, so offering one makes the Reply's header larger.
//
// The code that writes transport headers supplies their sizes (rpcrdma/marshal.cpp). Pure: no memory is
// touched here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nfsrdma::reply_sizing {

/// The bound of one DDP-eligible result. Lists of bounds are in the order of the results.
struct ResultBound {
  std::uint64_t max_length = 0;
  bool wanted_inline = false;
  std::size_t segments = 1;  ///< how many segments the fabric needs at most to expose max_length bytes
  /// Returns whether memory would be offered for this result.
  [[nodiscard]] bool wants_memory() const { return !wanted_inline && max_length != 0; }
};

/// The size of the largest RPC Reply, from its xid on, with header and verifier (8.2.2.2).
struct ReplyBounds {
  std::uint64_t max_inline = 0;   ///< all results in the stream
  std::uint64_t max_reduced = 0;  ///< without the results that are not wanted inline
  std::span<const ResultBound> results;
};

/// The sizes of a transport header: without chunks, and what a Write chunk and each of its segments add.
struct HeaderSizes {
  std::uint64_t least = 0, write_chunk = 0, segment = 0;
};

struct ReplyPlan {
  bool write_list = false;        ///< offer one Write chunk for each result
  std::uint64_t reply_chunk = 0;  ///< the length of the Reply chunk to offer; 0: none
};

[[nodiscard]] ReplyPlan plan_reply(const ReplyBounds& bounds, std::uint32_t reply_threshold,
                                   const HeaderSizes& header);

/// Returns how many bytes the Write list adds to the header of the Call and of the Reply.
[[nodiscard]] std::uint64_t write_list_size(std::span<const ResultBound> results, const HeaderSizes& header);

}  // namespace nfsrdma::reply_sizing
