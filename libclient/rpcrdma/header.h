// The transport header of RPC-over-RDMA version 1 (RFC 8166 4.1 to 4.3, 4.5), which stands in front of every
// RPC message: plain structs with the RFC's names, decoded from untrusted bytes and encoded.
//
// One READ of 4096 bytes, as its two headers go over the wire:
//
//   Call, client to server                          Reply, server to client
//   12 34 56 78   rdma_xid, the RPC's own           12 34 56 78   the same
//   00 00 00 01   rdma_vers                         00 00 00 01
//   00 00 00 40   rdma_credit: 64 asked for         00 00 00 20   32 granted
//   00 00 00 00   RDMA_MSG: the RPC follows         00 00 00 00   RDMA_MSG
//   00 00 00 00   rdma_reads: nothing to fetch      00 00 00 00   always empty in a Reply
//   00 00 00 01   rdma_writes: a Write chunk        00 00 00 01   the chunk, echoed
//   00 00 00 01     of one segment:                 00 00 00 01
//   a1 b2 c3 d4       handle                        a1 b2 c3 d4
//   00 00 10 00       length: room for 4096         00 00 0f a0   length: 4000 were written (end of file)
//   00 00 7f 00       offset                        00 00 7f 00
//   12 34 50 00                                     12 34 50 00
//   00 00 00 00     no further Write chunk          00 00 00 00
//   00 00 00 00   rdma_reply: no Reply chunk        00 00 00 00
//   12 34 56 78   the RPC Call begins …             12 34 56 78   the RPC Reply begins …
//
// Between the two the server moved the 4000 bytes by RDMA Write to handle a1b2c3d4. The READ result in the
// Reply has its count, 4000, and neither data nor padding (3.4.4).
//
// Thread-safety: values. A rdma_msg that is reused keeps its storage, so that decoding one message after
// another does not allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/fabric.h"
#include "xdr/encoder.h"

namespace nfsrdma::rpcrdma {

inline constexpr std::uint32_t kRpcRdmaVersion = 1;

// ---- sizes, as sums of their parts (4.1.2) ----
inline constexpr std::size_t kWord = 4;
inline constexpr std::size_t kFixedFields = 4 * kWord;  // xid, vers, credit, proc
inline constexpr std::size_t kEmptyLists = 3 * kWord;   // reads, writes, reply: not present
// 4.5: a shorter message must not be parsed.
inline constexpr std::size_t kMinHeader = kFixedFields + kEmptyLists;
inline constexpr std::size_t kSegment = 4 * kWord;                     // HLOO
inline constexpr std::size_t kReadSegment = kWord + kWord + kSegment;  // 1 PHLOO
inline constexpr std::size_t kWriteChunkHead = kWord + kWord;          // 1, count
inline constexpr std::size_t kReplyChunkHead = kWord;  // count; its "present" is in kEmptyLists
inline constexpr std::size_t kErrVersMessage = kFixedFields + 3 * kWord;  // error code, low, high
inline constexpr std::size_t kErrChunkMessage = kFixedFields + kWord;     // error code
static_assert(kMinHeader == 28);                                          // 4.5
static_assert(kMinHeader + kWriteChunkHead + kSegment == 52);             // the READ above
static_assert(kErrVersMessage == 28 && kErrChunkMessage == 20);

enum class rdma_proc : std::uint32_t {
  RDMA_MSG = 0,
  RDMA_NOMSG = 1,
  RDMA_MSGP = 2,  // not to be used (4.6)
  RDMA_DONE = 3,  // not to be used (4.6)
  RDMA_ERROR = 4,
};

enum class rpc_rdma_errcode : std::uint32_t { ERR_VERS = 1, ERR_CHUNK = 2 };

using xdr_rdma_segment = fabric::RemoteSegment;

struct xdr_read_chunk {
  std::uint32_t position = 0;
  xdr_rdma_segment target;
  friend bool operator==(const xdr_read_chunk&, const xdr_read_chunk&) = default;
};

/// struct xdr_write_list: chunks of segments. Flat, so that reuse does not allocate.
class WriteList {
 public:
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] bool empty() const { return ends_.empty(); }
  [[nodiscard]] std::size_t segment_count() const { return segments_.size(); }
  [[nodiscard]] std::span<const xdr_rdma_segment> segments() const { return segments_; }
  [[nodiscard]] std::span<const xdr_rdma_segment> operator[](std::size_t chunk) const {
    const std::size_t begin = chunk == 0 ? 0 : ends_[chunk - 1];
    return std::span(segments_).subspan(begin, ends_[chunk] - begin);
  }
  /// Appends an empty chunk; add_segment() fills the last one.
  void add_chunk() { ends_.push_back(segments_.size()); }
  void add_segment(const xdr_rdma_segment& segment) {
    segments_.push_back(segment);
    ends_.back() = segments_.size();
  }
  void add_chunk(std::span<const xdr_rdma_segment> segments) {
    add_chunk();
    for (const xdr_rdma_segment& segment : segments) add_segment(segment);
  }
  void clear() {
    segments_.clear();
    ends_.clear();
  }
  friend bool operator==(const WriteList&, const WriteList&) = default;

 private:
  std::vector<xdr_rdma_segment> segments_;
  std::vector<std::size_t> ends_;  // the end of each chunk, as an index into segments_
};

/// struct rdma_msg with the fields of its rdma_body. `proc` decides which of the fields below it are used.
struct rdma_msg {
  std::uint32_t rdma_xid = 0;
  std::uint32_t rdma_vers = kRpcRdmaVersion;
  std::uint32_t rdma_credit = 0;
  rdma_proc proc = rdma_proc::RDMA_MSG;
  // RDMA_MSG, RDMA_NOMSG
  std::vector<xdr_read_chunk> rdma_reads;
  WriteList rdma_writes;
  bool has_rdma_reply = false;
  std::vector<xdr_rdma_segment> rdma_reply;
  // RDMA_ERROR
  rpc_rdma_errcode err = rpc_rdma_errcode::ERR_CHUNK;
  std::uint32_t rdma_vers_low = 0, rdma_vers_high = 0;  // used with ERR_VERS

  /// Resets all fields, and keeps the storage.
  void clear();
  friend bool operator==(const rdma_msg&, const rdma_msg&) = default;
};

/// Why a header could not be decoded. A requester then discards the message (4.5). A responder answers
/// bad_version with ERR_VERS, discards too_short, and answers the others with ERR_CHUNK.
enum class HeaderFault : std::uint8_t {
  none,
  too_short,    ///< under 28 bytes: even the xid cannot be trusted
  bad_version,  ///< only the fixed fields are filled in
  bad_proc,
  bad_list,   ///< a chunk list is cut short, has an impossible count, or a "present" that is neither 0 nor 1
  no_chunk,   ///< RDMA_NOMSG without a list that could hold its payload (4.5.2)
  bad_error,  ///< RDMA_ERROR with an unknown code, or cut short
};

struct Decoded {
  HeaderFault fault = HeaderFault::none;
  std::size_t size = 0;  ///< bytes of the header; the payload stream begins behind them
};

/// Decodes the header at the front of `message`. RDMA_MSGP and RDMA_DONE are recognised, and the rest of such
/// a message is not decoded.
Decoded decode(fabric::ConstBytes message, rdma_msg& out);

[[nodiscard]] std::size_t encoded_size(const rdma_msg& header);
void encode(const rdma_msg& header, xdr::Buffer& to);

/// Returns the length of a chunk: the sum of its segments' lengths (3.4.4).
[[nodiscard]] std::uint64_t chunk_length(std::span<const xdr_rdma_segment> chunk);

}  // namespace nfsrdma::rpcrdma
