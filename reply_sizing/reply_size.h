// The size of the largest Reply to a Call: the part that all versions share. nfs4_reply.h and nfs3_reply.h
// compute the size of each operation's or procedure's result.
//
//     ReplySize size = begin(rpc_header);
//     grow(size, result_of_type<GETATTR3res>);
//
// Pure functions and values; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "xdr/xdr.h"

namespace nfsrdma::reply_sizing {

/// The largest number of results of one Reply that get a Write chunk. Further ones are counted as inline,
/// which is always allowed, because they have no Write chunk (RFC 8267 4.3).
inline constexpr std::size_t kMaxEligible = 16;

struct ReplySize {
  std::uint64_t max_inline = 0;   ///< all results in the stream
  std::uint64_t max_reduced = 0;  ///< the eligible results taken out
  /// The size that results without a bound of their own may add to both, in rare cases.
  std::uint64_t beyond = 0;
  std::array<std::uint64_t, kMaxEligible> eligible{};  ///< the largest length of each, in the Reply's order
  std::size_t eligible_count = 0;

  [[nodiscard]] std::span<const std::uint64_t> eligible_results() const {
    return std::span(eligible).first(eligible_count);
  }
};

/// Size of xid, REPLY, MSG_ACCEPTED, a verifier's flavor and length, SUCCESS (RFC 5531 9), with an empty
/// verifier body.
inline constexpr std::uint64_t kRpcReplyHeader = 6 * 4;

/// The largest result of one operation or procedure, its status included.
struct ResultSize {
  std::uint64_t max_inline = 0;
  std::uint64_t max_reduced = 0;
  bool eligible = false;         ///< has a result that a Write chunk may carry
  std::uint64_t max_length = 0;  ///< largest length of that result
  std::uint64_t beyond = 0;      ///< see ReplySize
};

/// The largest result of the type, for any arguments.
template <class Res>
inline constexpr ResultSize result_of_type = [] {
  constexpr xdr::Bounds type = xdr::bounds<Res>;
  static_assert(type.max != xdr::kUnbounded, "a result without a bound needs a rule of its own");
  static_assert(type.ddp_items <= 1, "an operation has one Write chunk");
  // Reducing takes out only the item's bytes and their padding.
  return ResultSize{type.max, type.max_reduced, type.ddp_items == 1, type.max - type.max_reduced, 0};
}();

/// Returns the size of a Reply without results. `rpc_header` is kRpcReplyHeader and the padded body of the
/// largest verifier that the security flavour may use.
constexpr ReplySize begin(std::uint64_t rpc_header = kRpcReplyHeader) {
  return {.max_inline = rpc_header, .max_reduced = rpc_header};
}

constexpr void grow(ReplySize& reply, std::uint64_t bytes) {
  reply.max_inline = xdr::sum(reply.max_inline, bytes);
  reply.max_reduced = xdr::sum(reply.max_reduced, bytes);
}

constexpr void grow(ReplySize& reply, const ResultSize& result) {
  const bool own_chunk = result.eligible && reply.eligible_count < kMaxEligible;
  reply.max_inline = xdr::sum(reply.max_inline, result.max_inline);
  reply.max_reduced = xdr::sum(reply.max_reduced, own_chunk ? result.max_reduced : result.max_inline);
  reply.beyond = xdr::sum(reply.beyond, result.beyond);
  if (own_chunk) reply.eligible[reply.eligible_count++] = result.max_length;
}

/// Provides for `beyond`, too: for the rare results that exceed their provided size.
constexpr void go_beyond(ReplySize& reply) {
  grow(reply, reply.beyond);
  reply.beyond = 0;
}

/// Limits the size to `most`, which no Reply exceeds, whatever its results are.
constexpr void bound(ReplySize& reply, std::uint64_t most) {
  reply.max_inline = std::min(reply.max_inline, most);
  reply.max_reduced = std::min(reply.max_reduced, most);
}

}  // namespace nfsrdma::reply_sizing
