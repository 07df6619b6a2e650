#include "trace/format/assembly.h"

#include <algorithm>
#include <array>

#include "xdr/encoder.h"

namespace nfsrdma::trace {

using rpcrdma::rdma_msg;

Whole::Whole(const rdma_msg& header, std::size_t limit) : limit_(rpcrdma::kMinHeader + limit) {
  rdma_msg plain;
  plain.rdma_xid = header.rdma_xid;
  plain.rdma_credit = header.rdma_credit;
  xdr::Buffer encoded;
  rpcrdma::encode(plain, encoded);
  bytes_.assign(encoded.bytes().begin(), encoded.bytes().end());
}

void Whole::add(ConstBytes known, std::uint64_t size) {
  const std::size_t room = gap_ ? 0 : limit_ - bytes_.size();
  const ConstBytes kept = known.first(std::min({known.size(), room, static_cast<std::size_t>(size)}));
  bytes_.insert(bytes_.end(), kept.begin(), kept.end());
  missing_ += size - kept.size();
  gap_ = gap_ || kept.size() < size;
}

/// The position of a Read chunk is that in the message with all chunks in their places.
Whole whole_call(const rdma_msg& header, ConstBytes inline_part, std::size_t limit,
                 const MemoryOf& memory_of) {
  Whole out(header, limit);
  std::uint64_t at = 0;
  const auto take_inline = [&](std::uint64_t count) {
    const ConstBytes piece = inline_part.first(std::min<std::uint64_t>(count, inline_part.size()));
    out.add(piece, piece.size());
    inline_part = inline_part.subspan(piece.size());
    at += piece.size();
  };
  for (const rpcrdma::xdr_read_chunk& chunk : header.rdma_reads) {
    if (chunk.position > at) take_inline(chunk.position - at);
    out.add(memory_of(chunk.target), chunk.target.length);
    at += chunk.target.length;
  }
  // The fill bytes of an XDR item are not in its chunk. A Position Zero Read chunk is no item.
  constexpr std::array<std::byte, 3> kFill{};
  const std::size_t fill = xdr::padding(at);
  const bool is_item = !header.rdma_reads.empty() && header.rdma_reads.back().position != 0;
  if (is_item && fill != 0) out.add(ConstBytes(kFill).first(fill), fill);
  take_inline(inline_part.size());
  return out;
}

Whole whole_reply(const rdma_msg& header, std::size_t limit, const MemoryOf& memory_of) {
  Whole out(header, limit);
  for (const fabric::RemoteSegment& segment : header.rdma_reply) out.add(memory_of(segment), segment.length);
  return out;
}

std::vector<fabric::RemoteSegment> segments_of(std::span<const rpcrdma::xdr_read_chunk> list) {
  std::vector<fabric::RemoteSegment> out;
  out.reserve(list.size());
  for (const rpcrdma::xdr_read_chunk& chunk : list) out.push_back(chunk.target);
  return out;
}

}  // namespace nfsrdma::trace
