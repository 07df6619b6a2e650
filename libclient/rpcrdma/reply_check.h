// Private to the requester: checks whether a message is the Reply of an RPC, and whether it keeps to the
// chunks that were offered.
//
// The fate of an answer with a fault, and the row of tests/conformance/rows.txt:
//
//   fault                                                  fate           found by          row
//   it has under 28 bytes                                  discarded      decode()          T19
//   its header has another version, an unknown procedure,
//   lists that cannot be decoded, or RDMA_NOMSG and none   discarded      decode()          T20
//   RDMA_MSGP, RDMA_DONE                                   discarded      kind_of()         T22
//   it has no xid of ours, or another one behind its
//   header, or is no RPC Reply                             discarded      kind_of()         T23
//   a Read list                                            ends its RPC   reply_fault()     T18
//   a Write list or Reply chunk that was not offered so,
//   or with more bytes than were offered                   ends its RPC   reply_fault()     T12 T17
//   it is shorter than any RPC Reply                       ends its RPC   reply_fault()
//   another xid in the Reply chunk                         ends its RPC   complete()        T23
//   a result in the wrong place, or not of the length of
//   its Write chunk                                        ends its RPC   xdr::Decoder      T12 T25
//
// Discarded: RFC 8166 4.5 demands it for errors in the transport header. Such a message does not show which
// RPC it answers, so the RPC continues to wait for the real answer, up to its own deadline.
//
// Ends its RPC: the header can be read, and its xid is that of an RPC that waits for its answer. The server
// has answered and will not do so again. Waiting would only make the caller learn later, and would cost a
// healthy connection, because silence replaces it. RFC 8166 does not say what to do if a header describes the
// offered memory wrongly; for results in the wrong place it demands that the RPC ends with a permanent error
// (6.1).
//
// A grant of credits is taken only from an answer in which neither the header nor, in a Reply chunk, the xid
// is wrong. Results are decoded later, by the layer above, and do not affect credits.
#pragma once

#include <cstdint>

#include "rpcrdma/header.h"

namespace nfsrdma::rpcrdma {

/// The size of the smallest RPC Reply: xid, type, MSG_DENIED, AUTH_ERROR, auth_stat (RFC 5531 9).
inline constexpr std::size_t kMinRpcReply = 5 * kWord;

enum class MessageKind : std::uint8_t {
  reply,
  error,          ///< RDMA_ERROR
  backward_call,  ///< a backward Call (RFC 8167): see backward.h
  foreign,        ///< its RPC header has another xid, or it has no RPC header (4.2.1)
  obsolete,       ///< RDMA_MSGP, RDMA_DONE (4.6)
};

/// Classifies a message. `payload` is the part behind the header. `offered` is the header that was sent with
/// the xid of `header`, if an RPC with it is in flight.
[[nodiscard]] MessageKind kind_of(const rdma_msg& header, fabric::ConstBytes payload,
                                  const rdma_msg* offered);

/// Returns whether `message` begins as the RPC Reply with this xid.
[[nodiscard]] bool is_rpc_reply(fabric::ConstBytes message, std::uint32_t xid);

/// Returns what is wrong with the Reply, as text for people; nullptr if nothing is. `offered` is the header
/// of its Call, `inline_size` the number of bytes behind the Reply's own header.
[[nodiscard]] const char* reply_fault(const rdma_msg& offered, const rdma_msg& returned,
                                      std::size_t inline_size);

}  // namespace nfsrdma::rpcrdma
