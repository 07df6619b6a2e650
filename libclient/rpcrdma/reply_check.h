// Private to the requester: is this message the Reply of that RPC, and does it keep to what was offered?
//
// Two kinds of wrong. What is not recognisably the Reply of an RPC is discarded, and the RPC lives on (4.2.1,
// 4.5): sort() tells. What is, and claims things about the offered memory that cannot be, ends the RPC: its
// Reply has come, there will be no other, and it cannot be trusted (3.4.6, 4.3): check_chunks() tells.
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

/// What is wrong with the chunk lists of a Reply, for people; nullptr if nothing is.
[[nodiscard]] const char* check_chunks(const rdma_msg& offered, const rdma_msg& returned);

}  // namespace nfsrdma::rpcrdma
