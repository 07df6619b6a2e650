#include "bridge/call.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "xdr/decoder.h"

namespace nfsrdma::bridge {
namespace {

using rpcrdma::HeaderFault;
using rpcrdma::xdr_read_chunk;

/// What the Read chunks with a position are put into: the inline part, or the Position Zero Read chunk. Taken
/// from its beginning on, piece by piece.
class Base {
 public:
  explicit Base(ConstBytes inline_part) : inline_(inline_part), left_(inline_part.size()) {}
  explicit Base(std::vector<RemoteSegment> remote)
      : remote_(std::move(remote)), left_(rpcrdma::chunk_length(remote_)) {}

  [[nodiscard]] std::uint64_t left() const { return left_; }

  /// Puts the next `count` bytes at the end of the plan's record; no more than left().
  void take(std::size_t count, CallPlan& plan) {
    left_ -= count;
    const std::size_t at = plan.record.size();
    std::byte* const to = plan.record.extend(count);
    if (remote_.empty()) {
      if (count != 0) std::memcpy(to, inline_.data(), count);
      inline_ = inline_.subspan(count);
      return;
    }
    for (std::size_t done = 0; done < count;) {
      RemoteSegment& from = remote_[next_];
      const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(from.length, count - done));
      if (length != 0) plan.fetches.push_back({at + done, {from.handle, length, from.offset}});
      from.length -= length;
      from.offset += length;
      if (from.length == 0) ++next_;
      done += length;
    }
  }

 private:
  ConstBytes inline_;
  std::vector<RemoteSegment> remote_;
  std::size_t next_ = 0;
  std::uint64_t left_;
};

CallPlan refused(CallPlan plan, const char* why) {
  plan.verdict = Verdict::err_chunk;
  plan.why = why;
  return plan;
}

/// Appends one Read chunk and its padding.
void take_chunk(std::span<const xdr_read_chunk> chunk, CallPlan& plan) {
  for (const xdr_read_chunk& one : chunk) {
    if (one.target.length == 0) continue;
    plan.fetches.push_back({plan.record.size(), one.target});
    plan.record.extend(one.target.length);
  }
  const std::size_t pad = xdr::padding(plan.record.size() - kRecordMark);
  if (pad != 0) std::memset(plan.record.extend(pad), 0, pad);
}

/// Lays the record out. Null, or what is wrong with the Read list.
const char* lay_out(Base base, std::span<const xdr_read_chunk> reads, CallPlan& plan) {
  for (std::size_t i = 0; i < reads.size();) {
    const std::uint32_t position = reads[i].position;
    const std::size_t here = plan.record.size() - kRecordMark;
    // 3.4.5: XDR items begin at multiples of four.
    if (position % xdr::padded(1) != 0) return "a Read chunk's position is no multiple of four";
    if (position < here) return "Read chunks overlap";
    if (position - here > base.left()) return "a Read chunk's position is past the end of the message";
    base.take(position - here, plan);
    const auto begin = reads.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end =
        std::find_if(begin, reads.end(), [&](const auto& one) { return one.position != position; });
    take_chunk({begin, end}, plan);
    i = static_cast<std::size_t>(end - reads.begin());
  }
  base.take(static_cast<std::size_t>(base.left()), plan);
  return nullptr;
}

/// The chunk list's total, with room for the padding of each.
std::uint64_t fetched_length(const rdma_msg& header) {
  std::uint64_t total = 0;
  for (const xdr_read_chunk& one : header.rdma_reads) total += xdr::padded(one.target.length);
  return total;
}

CallPlan plan_message(CallPlan plan, ConstBytes payload, std::size_t max_call) {
  auto& reads = plan.header.rdma_reads;
  if (payload.size() + fetched_length(plan.header) > max_call)
    return refused(std::move(plan), "it is too large");
  // By position, those of one position in their order. Not stable_sort: clang finds something deprecated in
  // g++'s.
  for (auto at = reads.begin(); at != reads.end(); ++at) {
    const auto place =
        std::ranges::upper_bound(reads.begin(), at, at->position, {}, &xdr_read_chunk::position);
    std::rotate(place, at, at + 1);
  }
  const auto first = std::ranges::find_if(reads, [](const auto& one) { return one.position != 0; });
  std::vector<RemoteSegment> zero;
  for (auto at = reads.begin(); at != first; ++at) zero.push_back(at->target);

  const bool is_long = plan.header.proc == rdma_proc::RDMA_NOMSG;
  if (is_long && zero.empty())
    return refused(std::move(plan), "RDMA_NOMSG without a Position Zero Read chunk");
  if (!is_long && !zero.empty()) return refused(std::move(plan), "RDMA_MSG with a Position Zero Read chunk");

  plan.record.extend(kRecordMark);
  Base base = is_long ? Base(std::move(zero)) : Base(payload);
  if (const char* fault = lay_out(std::move(base), {first, reads.end()}, plan))
    return refused(std::move(plan), fault);
  if (plan.message().size() < 2 * rpcrdma::kWord) return refused(std::move(plan), "it has no RPC header");
  xdr::store_u32(plan.record.data(), kLastFragment | static_cast<std::uint32_t>(plan.message().size()));

  const bool reply = !is_long && xdr::load_u32(&payload[rpcrdma::kWord]) == kReply;
  if (!reply) {
    plan.verdict = Verdict::call;
    return plan;
  }
  // RFC 8166 4.5: errors in a Reply are not answered.
  const bool sound = plan.fetches.empty() && xdr::load_u32(payload.data()) == plan.header.rdma_xid;
  plan.verdict = sound ? Verdict::backward_reply : Verdict::discard;
  if (!sound) plan.why = "a backward Reply with a Read list, or another xid";
  return plan;
}

}  // namespace

CallPlan plan_call(ConstBytes received, std::size_t max_call) {
  CallPlan plan;
  const rpcrdma::Decoded decoded = rpcrdma::decode(received, plan.header);
  switch (decoded.fault) {
    case HeaderFault::none:
      break;
    case HeaderFault::too_short:
      plan.why = "it is shorter than any transport header";
      return plan;
    case HeaderFault::bad_version:
      plan.verdict = Verdict::err_vers;
      return plan;
    case HeaderFault::bad_error:
      plan.why = "an RDMA_ERROR that cannot be decoded";
      return plan;
    case HeaderFault::bad_proc:
    case HeaderFault::bad_list:
    case HeaderFault::no_chunk:
      return refused(std::move(plan), "its transport header cannot be decoded");
  }
  switch (plan.header.proc) {
    case rdma_proc::RDMA_MSG:
      if (received.size() - decoded.size < 2 * rpcrdma::kWord)
        return refused(std::move(plan), "it has no RPC header");
      [[fallthrough]];
    case rdma_proc::RDMA_NOMSG:
      return plan_message(std::move(plan), received.subspan(decoded.size), max_call);
    case rdma_proc::RDMA_ERROR:
      plan.verdict = Verdict::backward_error;
      return plan;
    case rdma_proc::RDMA_MSGP:
    case rdma_proc::RDMA_DONE:
      break;
  }
  plan.why = "RDMA_MSGP and RDMA_DONE are not to be used (RFC 8166 4.6)";
  return plan;
}

std::optional<Route> route_of(ConstBytes message, std::uint32_t xid) {
  constexpr std::uint64_t kMaxAuthBytes = 400;  // RFC 5531 8.2
  constexpr std::uint32_t kRpcsecGss = 6, kServiceNone = 1;
  xdr::Decoder in(message);
  std::uint32_t own_xid = 0, type = 0, rpc = 0, flavor = 0;
  Route route;
  ConstBytes credential;
  if (!in.u32(own_xid) || !in.u32(type) || !in.u32(rpc) || !in.u32(route.program) || !in.u32(route.version) ||
      !in.u32(route.procedure) || !in.u32(flavor) || !in.opaque(kMaxAuthBytes, credential)) {
    return std::nullopt;
  }
  if (own_xid != xid || type != kCall) return std::nullopt;
  route.may_reduce = true;
  if (flavor == kRpcsecGss) {
    // RFC 2203 5: version, procedure, sequence number, service.
    xdr::Decoder gss(credential);
    std::uint32_t version = 0, procedure = 0, sequence = 0, service = 0;
    route.may_reduce = gss.u32(version) && gss.u32(procedure) && gss.u32(sequence) && gss.u32(service) &&
                       procedure == 0 && service == kServiceNone;
  }
  return route;
}

}  // namespace nfsrdma::bridge
