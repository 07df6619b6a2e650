// Private to the requester: is this message the Reply of that RPC, and does it keep to what was offered?
//
// What becomes of an answer with a fault, and the row of tests/conformance/rows.txt:
//
//   fault                                                  fate           found by          row
//   it has under 28 bytes                                  discarded      decode()          T19
//   its header has another version, an unknown procedure,
//   lists that cannot be decoded, or RDMA_NOMSG and none   discarded      decode()          T20
//   RDMA_MSGP, RDMA_DONE                                   discarded      sort()            T22
//   it has no xid of ours, or another one behind its
//   header, or is no RPC Reply                             discarded      sort()            T23
//   a Read list                                            ends its RPC   reply_fault()     T18
//   a Write list or Reply chunk that was not offered so    ends its RPC   reply_fault()     T12 T17
//   it is shorter than any RPC Reply                       ends its RPC   reply_fault()
//   another xid in the Reply chunk                         ends its RPC   complete()        T23
//   a result in the wrong place, or not of the length of
//   its Write chunk                                        ends its RPC   xdr::Decoder      T12 T25
//
// Discarded: RFC 8166 4.5 demands it of errors in the transport header. Such a message does not show whose answer it is,
// so its RPC waits on for the real one, up to its own deadline.
//
// Ends its RPC: the header can be read, and its xid is that of an RPC that waits for its answer. The server has answered
// and will not do so again, so that waiting would only make a caller learn later, and cost a healthy connection (silence
// replaces it). RFC 8166 has no word for what a header says wrongly of the memory that was offered; it demands the end
// with a permanent error for results in the wrong place (6.1).
//
// A grant of credits is taken only from an answer in which neither its header nor, in a Reply chunk, its xid is wrong.
// Results are decoded later, by the layer above, and say nothing about credits.
#pragma once

#include <cstdint>

#include "rpcrdma/header.h"

namespace nfsrdma::rpcrdma {

/// The least that an RPC Reply can be: xid, type, MSG_DENIED, AUTH_ERROR, auth_stat (RFC 5531 9).
inline constexpr std::size_t kMinRpcReply = 5 * kWord;

enum class Sort : std::uint8_t {
  reply,
  error,          ///< RDMA_ERROR
  backward_call,  ///< RFC 8167: see backward.h
  foreign,        ///< its RPC header bears another xid, or is none (4.2.1)
  obsolete,       ///< RDMA_MSGP, RDMA_DONE (4.6)
};

/// `payload`: what follows the header. `offered`: what went out with the xid of `header`, if that is out.
[[nodiscard]] Sort sort(const rdma_msg& header, fabric::ConstBytes payload, const rdma_msg* offered);

/// Whether `message` begins as the RPC Reply with this xid.
[[nodiscard]] bool is_rpc_reply(fabric::ConstBytes message, std::uint32_t xid);

/// Why the Reply cannot be, for people; nullptr if it can. `offered`: the header of its Call. `inline_size`: bytes
/// behind its own.
[[nodiscard]] const char* reply_fault(const rdma_msg& offered, const rdma_msg& returned,
                                      std::size_t inline_size);

}  // namespace nfsrdma::rpcrdma
