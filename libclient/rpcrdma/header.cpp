// Codec of the transport header; the layout is explained in header.h.
//
// Nothing is allocated on a peer's word: a segment is stored after its bytes have been seen, so that a
// message of n bytes cannot make more than n/16 of them.
#include "rpcrdma/header.h"

#include <cassert>

#include "xdr/decoder.h"

namespace nfsrdma::rpcrdma {
namespace {

using xdr::Decoder;

bool segment(Decoder& from, xdr_rdma_segment& out) {
  return from.u32(out.handle) && from.u32(out.length) && from.u64(out.offset);
}

/// The word in front of optional-data (RFC 4506 4.19).
bool present(Decoder& from, bool& out) {
  std::uint32_t word = 0;
  if (!from.u32(word) || word > 1) return false;
  out = word == 1;
  return true;
}

bool count_of_segments(Decoder& from, std::uint32_t& count) {
  return from.u32(count) && count <= from.remaining() / kSegment;
}

bool read_list(Decoder& from, rdma_msg& out) {
  bool more = false;
  while (present(from, more)) {
    if (!more) return true;
    xdr_read_chunk entry;
    if (!from.u32(entry.position) || !segment(from, entry.target)) return false;
    out.rdma_reads.push_back(entry);
  }
  return false;
}

bool write_list(Decoder& from, rdma_msg& out) {
  bool more = false;
  while (present(from, more)) {
    if (!more) return true;
    std::uint32_t count = 0;
    if (!count_of_segments(from, count)) return false;
    out.rdma_writes.add_chunk();
    for (; count != 0; --count) {
      xdr_rdma_segment one;
      if (!segment(from, one)) return false;
      out.rdma_writes.add_segment(one);
    }
  }
  return false;
}

bool reply_chunk(Decoder& from, rdma_msg& out) {
  if (!present(from, out.has_rdma_reply)) return false;
  if (!out.has_rdma_reply) return true;
  std::uint32_t count = 0;
  if (!count_of_segments(from, count)) return false;
  for (; count != 0; --count) {
    if (!segment(from, out.rdma_reply.emplace_back())) return false;
  }
  return true;
}

HeaderFault chunk_lists(Decoder& from, rdma_msg& out) {
  if (!read_list(from, out) || !write_list(from, out) || !reply_chunk(from, out))
    return HeaderFault::bad_list;
  const bool none = out.rdma_reads.empty() && out.rdma_writes.empty() && !out.has_rdma_reply;
  return out.proc == rdma_proc::RDMA_NOMSG && none ? HeaderFault::no_chunk : HeaderFault::none;
}

HeaderFault error_body(Decoder& from, rdma_msg& out) {
  std::uint32_t code = 0;
  if (!from.u32(code)) return HeaderFault::bad_error;
  out.err = static_cast<rpc_rdma_errcode>(code);
  switch (out.err) {
    case rpc_rdma_errcode::ERR_CHUNK:
      return HeaderFault::none;
    case rpc_rdma_errcode::ERR_VERS:
      return from.u32(out.rdma_vers_low) && from.u32(out.rdma_vers_high) ? HeaderFault::none
                                                                         : HeaderFault::bad_error;
  }
  return HeaderFault::bad_error;
}

HeaderFault body(Decoder& from, rdma_msg& out) {
  switch (out.proc) {
    case rdma_proc::RDMA_MSG:
    case rdma_proc::RDMA_NOMSG:
      return chunk_lists(from, out);
    case rdma_proc::RDMA_MSGP:
    case rdma_proc::RDMA_DONE:
      return HeaderFault::none;
    case rdma_proc::RDMA_ERROR:
      return error_body(from, out);
  }
  return HeaderFault::bad_proc;
}

/// Recognises the one short message that is accepted. RFC 8166 4.5 has a message of under 28 bytes discarded
/// unparsed. By the RFC's own XDR (4.1.2), however, an RDMA_ERROR with ERR_CHUNK is complete with 20 bytes,
/// and servers send it so (Linux does). If it were discarded, an RPC that the server refused would wait for
/// its time-out (4.5, T21).
bool is_short_err_chunk(fabric::ConstBytes message) {
  return message.size() == kErrChunkMessage &&
         xdr::load_u32(&message[3 * kWord]) == static_cast<std::uint32_t>(rdma_proc::RDMA_ERROR) &&
         xdr::load_u32(&message[4 * kWord]) == static_cast<std::uint32_t>(rpc_rdma_errcode::ERR_CHUNK);
}

std::byte* put(std::byte* at, std::uint32_t word) {
  xdr::store_u32(at, word);
  return at + kWord;
}

std::byte* put(std::byte* at, const xdr_rdma_segment& one) {
  at = put(put(at, one.handle), one.length);
  xdr::store_u64(at, one.offset);
  return at + 2 * kWord;
}

std::byte* put_chunk(std::byte* at, std::span<const xdr_rdma_segment> chunk) {
  at = put(at, static_cast<std::uint32_t>(chunk.size()));
  for (const xdr_rdma_segment& one : chunk) at = put(at, one);
  return at;
}

std::byte* put_lists(std::byte* at, const rdma_msg& header) {
  for (const xdr_read_chunk& entry : header.rdma_reads)
    at = put(put(put(at, 1), entry.position), entry.target);
  at = put(at, 0);
  for (std::size_t i = 0; i < header.rdma_writes.size(); ++i)
    at = put_chunk(put(at, 1), header.rdma_writes[i]);
  at = put(at, 0);
  at = put(at, header.has_rdma_reply ? 1 : 0);
  return header.has_rdma_reply ? put_chunk(at, header.rdma_reply) : at;
}

std::byte* put_error(std::byte* at, const rdma_msg& header) {
  at = put(at, static_cast<std::uint32_t>(header.err));
  if (header.err != rpc_rdma_errcode::ERR_VERS) return at;
  return put(put(at, header.rdma_vers_low), header.rdma_vers_high);
}

bool has_lists(rdma_proc proc) {
  return proc == rdma_proc::RDMA_MSG || proc == rdma_proc::RDMA_NOMSG;
}

/// Encodes a Call of the form that nearly all have: RDMA_MSG with one Write chunk of one segment, or with no
/// chunk. Returns false, and does nothing, for any other.
bool encode_usual(const rdma_msg& header, xdr::Buffer& to) {
  const std::size_t chunks = header.rdma_writes.size();
  if (header.proc != rdma_proc::RDMA_MSG || !header.rdma_reads.empty() || header.has_rdma_reply) return false;
  if (chunks > 1 || header.rdma_writes.segment_count() != chunks) return false;
  std::byte* at = to.extend(kMinHeader + chunks * (kWriteChunkHead + kSegment));
  at = put(put(put(at, header.rdma_xid), header.rdma_vers), header.rdma_credit);
  at = put(put(at, static_cast<std::uint32_t>(rdma_proc::RDMA_MSG)), 0);
  if (chunks == 1) at = put(put(put(at, 1), 1), header.rdma_writes.segments().front());
  put(put(at, 0), 0);
  return true;
}

/// Decodes a header of the form that nearly all Replies have: RDMA_MSG with one Write chunk of one segment,
/// or with no chunk. The result is that of the general code, for a third of the instructions. Returns false,
/// and changes nothing, for any other header.
bool decode_usual(fabric::ConstBytes message, rdma_msg& out, std::size_t& size) {
  constexpr std::size_t kOneChunk = kMinHeader + kWriteChunkHead + kSegment;
  if (message.size() < kMinHeader) return false;
  const auto word = [&message](std::size_t at) { return xdr::load_u32(message.data() + at * kWord); };
  constexpr std::size_t kXid = 0, kVers = 1, kCredit = 2, kProc = 3, kReads = 4, kWrites = 5;
  if (word(kVers) != kRpcRdmaVersion || word(kProc) != 0 || word(kReads) != 0 || word(kWrites) > 1)
    return false;
  std::size_t at = kWrites + 1;
  xdr_rdma_segment segment;
  const bool chunk = word(kWrites) == 1;
  if (chunk) {
    if (message.size() < kOneChunk || word(at) != 1) return false;
    segment = {word(at + 1), word(at + 2), xdr::load_u64(message.data() + (at + 3) * kWord)};
    at += 1 + kSegment / kWord;
    if (word(at++) != 0) return false;  // another chunk
  }
  if (word(at++) != 0) return false;  // a Reply chunk
  out.clear();
  out.rdma_xid = word(kXid);
  out.rdma_credit = word(kCredit);
  if (chunk) {
    out.rdma_writes.add_chunk();
    out.rdma_writes.add_segment(segment);
  }
  size = at * kWord;
  return true;
}

}  // namespace

void rdma_msg::clear() {
  rdma_xid = 0;
  rdma_vers = kRpcRdmaVersion;
  rdma_credit = 0;
  proc = rdma_proc::RDMA_MSG;
  rdma_reads.clear();
  rdma_writes.clear();
  has_rdma_reply = false;
  rdma_reply.clear();
  err = rpc_rdma_errcode::ERR_CHUNK;
  rdma_vers_low = rdma_vers_high = 0;
}

Decoded decode(fabric::ConstBytes message, rdma_msg& out) {
  if (std::size_t size = 0; decode_usual(message, out, size)) return {HeaderFault::none, size};
  out.clear();
  if (message.size() < kMinHeader && !is_short_err_chunk(message)) return {HeaderFault::too_short, 0};
  Decoder from(message);
  std::uint32_t proc = 0;
  from.u32(out.rdma_xid);
  from.u32(out.rdma_vers);
  from.u32(out.rdma_credit);
  from.u32(proc);
  out.proc = static_cast<rdma_proc>(proc);
  if (out.rdma_vers != kRpcRdmaVersion) return {HeaderFault::bad_version, 0};
  const HeaderFault fault = body(from, out);
  return {fault, fault == HeaderFault::none ? message.size() - from.remaining() : 0};
}

std::size_t encoded_size(const rdma_msg& header) {
  if (header.proc == rdma_proc::RDMA_ERROR) {
    return header.err == rpc_rdma_errcode::ERR_VERS ? kErrVersMessage : kErrChunkMessage;
  }
  if (!has_lists(header.proc)) return kFixedFields;
  return kMinHeader + header.rdma_reads.size() * kReadSegment + header.rdma_writes.size() * kWriteChunkHead +
         header.rdma_writes.segment_count() * kSegment +
         (header.has_rdma_reply ? kReplyChunkHead + header.rdma_reply.size() * kSegment : 0);
}

void encode(const rdma_msg& header, xdr::Buffer& to) {
  if (encode_usual(header, to)) return;
  const std::size_t size = encoded_size(header);
  std::byte* const begin = to.extend(size);
  std::byte* at = put(begin, header.rdma_xid);
  at = put(put(at, header.rdma_vers), header.rdma_credit);
  at = put(at, static_cast<std::uint32_t>(header.proc));
  if (has_lists(header.proc)) at = put_lists(at, header);
  if (header.proc == rdma_proc::RDMA_ERROR) at = put_error(at, header);
  assert(at == begin + size);
  static_cast<void>(at);
}

std::uint64_t chunk_length(std::span<const xdr_rdma_segment> chunk) {
  std::uint64_t total = 0;
  for (const xdr_rdma_segment& one : chunk) total += one.length;
  return total;
}

}  // namespace nfsrdma::rpcrdma
