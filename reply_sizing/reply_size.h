// How large the Reply to a Call may be: what all versions have in common. nfs4_reply.h and nfs3_reply.h say what
// each operation or procedure brings.
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

/// Results of one Reply that may travel by themselves. Further ones are counted as inline, which is always
/// allowed: they have no Write chunk (RFC 8267 4.3).
inline constexpr std::size_t kMaxEligible = 16;

struct ReplySize {
  std::uint64_t max_inline = 0;   ///< all results in the stream
  std::uint64_t max_reduced = 0;  ///< the eligible results taken out
  std::uint64_t beyond = 0;       ///< what results without a bound of their own may add to both, rarely
  std::array<std::uint64_t, kMaxEligible> eligible{};  ///< the largest length of each, in the Reply's order
  std::size_t eligible_count = 0;

  [[nodiscard]] std::span<const std::uint64_t> eligible_results() const {
    return std::span(eligible).first(eligible_count);
  }
};

/// xid, REPLY, MSG_ACCEPTED, a verifier's flavor and length, SUCCESS (RFC 5531 9), the verifier's body empty.
inline constexpr std::uint64_t kRpcReplyHeader = 6 * 4;

/// The largest result of one operation or procedure, its status included.
struct ResultSize {
  std::uint64_t max_inline = 0;
  std::uint64_t max_reduced = 0;
  bool eligible = false;         ///< has a result that a Write chunk may carry
  std::uint64_t max_length = 0;  ///< of that result
  std::uint64_t beyond = 0;      ///< see ReplySize
};

/// The largest result of the type, whatever was asked for.
template <class Res>
inline constexpr ResultSize result_of_type = [] {
  constexpr xdr::Bounds type = xdr::bounds<Res>;
  static_assert(type.max != xdr::kUnbounded, "a result without a bound needs a rule of its own");
  static_assert(type.ddp_items <= 1, "an operation has one Write chunk");
  // The length and its padding are all that reducing takes out.
  return ResultSize{type.max, type.max_reduced, type.ddp_items == 1, type.max - type.max_reduced, 0};
}();

/// A Reply without results. `rpc_header`: kRpcReplyHeader and the padded body of the largest verifier that the
/// security flavour may bring.
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

/// Provides for the rare ones, too.
constexpr void go_beyond(ReplySize& reply) {
  grow(reply, reply.beyond);
  reply.beyond = 0;
}

/// No Reply is above that, whatever its results say.
constexpr void bound(ReplySize& reply, std::uint64_t most) {
  reply.max_inline = std::min(reply.max_inline, most);
  reply.max_reduced = std::min(reply.max_reduced, most);
}

}  // namespace nfsrdma::reply_sizing
