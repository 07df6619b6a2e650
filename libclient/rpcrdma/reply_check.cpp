#include "rpcrdma/reply_check.h"

#include "xdr/encoder.h"

namespace nfsrdma::rpcrdma {
namespace {

constexpr std::uint32_t kRpcCall = 0;  // RFC 5531 9, msg_type
constexpr std::uint32_t kRpcReply = 1;

enum class ChunkFault : std::uint8_t { none, other_segments, too_long, gap };

/// Compares a returned chunk with the offered one. 3.4.6: it must have the same segments, none longer than
/// offered, filled in order without a gap.
ChunkFault compare(std::span<const xdr_rdma_segment> offered, std::span<const xdr_rdma_segment> returned) {
  if (offered.size() != returned.size()) return ChunkFault::other_segments;
  bool ended = false;
  for (std::size_t i = 0; i < offered.size(); ++i) {
    const xdr_rdma_segment& was = offered[i];
    const xdr_rdma_segment& is = returned[i];
    if (is.handle != was.handle || is.offset != was.offset) return ChunkFault::other_segments;
    if (is.length > was.length) return ChunkFault::too_long;
    if (ended && is.length != 0) return ChunkFault::gap;
    ended = is.length < was.length;
  }
  return ChunkFault::none;
}

const char* write_chunk_text(ChunkFault fault) {
  switch (fault) {
    case ChunkFault::none:
      return nullptr;
    case ChunkFault::other_segments:
      return "its Write list is not the one that was offered";
    case ChunkFault::too_long:
      return "it claims more bytes in a Write chunk than fit there";
    case ChunkFault::gap:
      return "it claims to have left a gap in a Write chunk";
  }
  return nullptr;
}

const char* reply_chunk_text(ChunkFault fault) {
  switch (fault) {
    case ChunkFault::none:
      return nullptr;
    case ChunkFault::other_segments:
      return "its Reply chunk is not the one that was offered";
    case ChunkFault::too_long:
      return "it claims more bytes in the Reply chunk than fit there";
    case ChunkFault::gap:
      return "it claims to have left a gap in the Reply chunk";
  }
  return nullptr;
}

bool returns_reply_chunk(const rdma_msg& header, const rdma_msg* offered) {
  return offered != nullptr && offered->has_rdma_reply && header.has_rdma_reply &&
         compare(offered->rdma_reply, header.rdma_reply) != ChunkFault::other_segments;
}

const char* check_reply_chunk(const rdma_msg& offered, const rdma_msg& returned) {
  if (returned.proc == rdma_proc::RDMA_MSG && !returned.has_rdma_reply) return nullptr;
  if (const char* text = reply_chunk_text(compare(offered.rdma_reply, returned.rdma_reply))) return text;
  if (returned.proc == rdma_proc::RDMA_NOMSG && chunk_length(returned.rdma_reply) < kMinRpcReply) {
    return "its Reply chunk holds less than the smallest RPC reply";
  }
  return nullptr;
}

}  // namespace

bool is_rpc_reply(fabric::ConstBytes message, std::uint32_t xid) {
  return message.size() >= 2 * kWord && xdr::load_u32(message.data()) == xid &&
         xdr::load_u32(&message[kWord]) == kRpcReply;
}

MessageKind kind_of(const rdma_msg& header, fabric::ConstBytes payload, const rdma_msg* offered) {
  switch (header.proc) {
    case rdma_proc::RDMA_MSGP:
    case rdma_proc::RDMA_DONE:
      return MessageKind::obsolete;
    case rdma_proc::RDMA_ERROR:
      return MessageKind::error;
    case rdma_proc::RDMA_NOMSG:
      // Only a Call has its payload in a Position Zero Read chunk. One xid may be in use in both directions
      // (RFC 8167 2.4), so this message says nothing about our RPC, unless it returns our Reply chunk.
      return header.rdma_reads.empty() || returns_reply_chunk(header, offered) ? MessageKind::reply
                                                                               : MessageKind::backward_call;
    case rdma_proc::RDMA_MSG:
      break;
  }
  if (is_rpc_reply(payload, header.rdma_xid)) return MessageKind::reply;
  const bool call = payload.size() >= 2 * kWord && xdr::load_u32(&payload[kWord]) == kRpcCall;
  return call ? MessageKind::backward_call : MessageKind::foreign;
}

const char* reply_fault(const rdma_msg& offered, const rdma_msg& returned, std::size_t inline_size) {
  if (!returned.rdma_reads.empty()) return "it has a Read list, which no reply may have";  // 4.3.1
  if (returned.rdma_writes.size() != offered.rdma_writes.size())
    return write_chunk_text(ChunkFault::other_segments);
  for (std::size_t i = 0; i < offered.rdma_writes.size(); ++i) {
    // In RFC 8166 (4.3.2.2) an unused chunk has its segments, all of length 0. In the binding it may have no
    // segment at all (RFC 8267 4.3, "an empty Write chunk"). Both say that nothing was placed.
    if (returned.rdma_writes[i].empty()) continue;
    if (const char* text = write_chunk_text(compare(offered.rdma_writes[i], returned.rdma_writes[i])))
      return text;
  }
  if (const char* text = check_reply_chunk(offered, returned)) return text;
  const bool is_short = returned.proc == rdma_proc::RDMA_MSG && inline_size < kMinRpcReply;
  return is_short ? "it is shorter than any RPC reply" : nullptr;
}

}  // namespace nfsrdma::rpcrdma
