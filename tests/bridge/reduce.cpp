#include "bridge/reduce.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace nfsrdma::bridge {
namespace {

using rpcrdma::chunk_length;
using rpcrdma::rpc_rdma_errcode;

/// Writes `data` into the segments, in order, and appends them as returned: with what went into each.
void fill(std::span<const RemoteSegment> chunk, std::span<const ConstBytes> pieces,
          std::vector<RemoteWrite>& writes, std::vector<RemoteSegment>& returned) {
  std::size_t next = 0, done = 0;
  for (RemoteSegment segment : chunk) {
    std::uint32_t used = 0;
    while (used < segment.length && next < pieces.size()) {
      const ConstBytes rest = pieces[next].subspan(done);
      const auto length =
          static_cast<std::uint32_t>(std::min<std::size_t>(rest.size(), segment.length - used));
      if (length != 0)
        writes.push_back({rest.first(length), {segment.handle, length, segment.offset + used}});
      used += length;
      done += length;
      if (done == pieces[next].size()) {
        ++next;
        done = 0;
      }
    }
    segment.length = used;
    returned.push_back(segment);
  }
}

ReplyPlan refused(const Offer& offer, const Limits& limits, const char* why) {
  ReplyPlan plan;
  plan.header =
      error_header(offer.xid, rpcrdma::kRpcRdmaVersion, limits.credits, rpc_rdma_errcode::ERR_CHUNK);
  plan.why = why;
  return plan;
}

/// Takes the eligible results out of the stream. False: a chunk is too small for its result.
bool reduce(const Offer& offer, ConstBytes reply, bool may, ReplyPlan& plan) {
  const auto eligible =
      may ? find_eligible(offer.route, reply, offer.writes.size()) : std::vector<Eligible>{};
  std::size_t from = 0;
  for (std::size_t i = 0; i < offer.writes.size(); ++i) {
    const std::span<const RemoteSegment> chunk = offer.writes[i];
    std::vector<RemoteSegment> returned;
    const bool used = i < eligible.size() && eligible[i].present && chunk_length(chunk) != 0;
    std::vector<ConstBytes> data;
    if (used) {
      const Eligible& item = eligible[i];
      if (item.length > chunk_length(chunk)) return false;
      data.push_back(reply.subspan(item.at, item.length));
      plan.payload.push_back(reply.subspan(from, item.at - from));
      from = item.at + xdr::padded(item.length);
      if (!plan.reduced_count) plan.reduced_count = item.at - rpcrdma::kWord;
    }
    fill(chunk, data, plan.writes, returned);
    plan.header.rdma_writes.add_chunk(returned);
  }
  plan.payload.push_back(reply.subspan(from));
  return true;
}

}  // namespace

Offer offer_of(const rdma_msg& header, const Route& route) {
  Offer offer{header.rdma_xid, route, header.rdma_writes, header.has_rdma_reply, header.rdma_reply, {}};
  if (!header.rdma_reply.empty()) offer.a_handle = header.rdma_reply.front().handle;
  if (!header.rdma_writes.segments().empty()) offer.a_handle = header.rdma_writes.segments().front().handle;
  if (!offer.a_handle && !header.rdma_reads.empty()) offer.a_handle = header.rdma_reads.front().target.handle;
  return offer;
}

std::size_t ReplyPlan::payload_size() const {
  std::size_t total = 0;
  for (const ConstBytes piece : payload) total += piece.size();
  return total;
}

xdr::Buffer ReplyPlan::compose() const {
  xdr::Buffer out;
  rpcrdma::encode(header, out);
  if (header.proc != rdma_proc::RDMA_MSG) return out;
  for (const ConstBytes piece : payload) {
    if (!piece.empty()) std::memcpy(out.extend(piece.size()), piece.data(), piece.size());
  }
  return out;
}

ReplyPlan plan_reply(const Offer& offer, ConstBytes reply, const Limits& limits) {
  ReplyPlan plan;
  plan.header.rdma_xid = offer.xid;
  plan.header.rdma_credit = limits.credits;
  if (limits.invalidate) plan.invalidate = offer.a_handle;
  // RFC 8267 3 and 4.1: the server's answer to too small a chunk.
  if (!reduce(offer, reply, limits.reduce, plan))
    return refused(offer, limits, "a Write chunk is too small for its result");

  // RFC 8166 4.3.3: the Reply chunk is returned in any case, with what was written into it.
  plan.header.has_rdma_reply = offer.has_reply_chunk;
  plan.header.rdma_reply = offer.reply_chunk;
  for (RemoteSegment& one : plan.header.rdma_reply) one.length = 0;
  if (rpcrdma::encoded_size(plan.header) + plan.payload_size() <= limits.reply_threshold) return plan;

  if (chunk_length(offer.reply_chunk) < plan.payload_size())
    return refused(offer, limits, "no Reply chunk, or too small a one, for its Reply");
  plan.header.proc = rdma_proc::RDMA_NOMSG;
  plan.header.rdma_reply.clear();
  fill(offer.reply_chunk, plan.payload, plan.writes, plan.header.rdma_reply);
  return plan;
}

rdma_msg error_header(std::uint32_t xid, std::uint32_t version, std::uint32_t credits,
                      rpc_rdma_errcode code) {
  rdma_msg header;
  header.rdma_xid = xid;
  header.rdma_vers = version;
  header.rdma_credit = credits;
  header.proc = rdma_proc::RDMA_ERROR;
  header.err = code;
  header.rdma_vers_low = header.rdma_vers_high = rpcrdma::kRpcRdmaVersion;
  return header;
}

}  // namespace nfsrdma::bridge
