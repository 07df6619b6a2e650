// A server's Reply, turned into what goes to the RDMA client: which results are written into its Write
// chunks, what stands in the Send, or what is written into its Reply chunk. Pure: no I/O.
//
// Which results are DDP-eligible is the upper layer binding's (RFC 8267): READ data and READLINK path of
// NFSv2 and v3; READ, READLINK and READ_PLUS data of v4. To find them in a COMPOUND, every result before them
// is decoded with the client's own types; behind an operation without types nothing is reduced.
//
// Ownership: a ReplyPlan's pieces point into the Reply that it was made of.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bridge/call.h"

namespace nfsrdma::bridge {

/// An operation whose result may have a DDP-eligible item.
struct Eligible {
  bool present = false;  ///< false: it failed, or its result is of another kind
  std::size_t at = 0;    ///< where the item's bytes begin in the RPC Reply; its count stands in front
  std::size_t length = 0;
  friend bool operator==(const Eligible&, const Eligible&) = default;
};

/// The operations of a Reply that could have eligible items, in order, `most` at most. Write chunk n belongs
/// to the n-th of them (RFC 8267 4.3), whether it has an item or not.
[[nodiscard]] std::vector<Eligible> find_eligible(const Route& route, ConstBytes reply, std::size_t most);

/// Where the result of the COMPOUND's READ_PLUS begins, behind its number; none where there is no such result.
[[nodiscard]] std::optional<std::size_t> find_read_plus(const Route& route, ConstBytes reply);

/// What is needed of a Call until its Reply has been sent.
struct Offer {
  std::uint32_t xid = 0;
  Route route;
  rpcrdma::WriteList writes;
  bool has_reply_chunk = false;
  std::vector<RemoteSegment> reply_chunk;
  std::optional<std::uint32_t> a_handle;  ///< one of the Call's, to be invalidated with the Reply
};
[[nodiscard]] Offer offer_of(const rdma_msg& header, const Route& route);

/// One RDMA Write, done before the Send.
struct RemoteWrite {
  ConstBytes local;
  RemoteSegment remote;
};

struct ReplyPlan {
  rdma_msg header;
  std::vector<RemoteWrite> writes;
  std::vector<ConstBytes> payload;           ///< of RDMA_MSG, behind the header
  std::optional<std::size_t> reduced_count;  ///< where in the payload the first reduced item's count stands
  std::optional<std::uint32_t> invalidate;   ///< this handle, with the Send
  const char* why = "";                      ///< for the log, where it is an RDMA_ERROR
  [[nodiscard]] std::size_t payload_size() const;
  /// The message to send.
  [[nodiscard]] xdr::Buffer compose() const;
};

struct Limits {
  std::uint32_t reply_threshold = 1024;  ///< bytes, the transport header included (RFC 8166 3.3.2)
  std::uint32_t credits = 1;             ///< to grant
  bool invalidate = false;               ///< remote invalidation was agreed (RFC 8797)
  bool reduce = true;                    ///< false: leaves results inline against RFC 8166 4.3.2, as a fault
};

[[nodiscard]] ReplyPlan plan_reply(const Offer& offer, ConstBytes reply, const Limits& limits);

/// RDMA_ERROR, ERR_CHUNK or ERR_VERS (RFC 8166 4.5). `version`: that of the failing message.
[[nodiscard]] rdma_msg error_header(std::uint32_t xid, std::uint32_t version, std::uint32_t credits,
                                    rpcrdma::rpc_rdma_errcode code);

}  // namespace nfsrdma::bridge
