#include "reply_sizing/plan.h"

#include <algorithm>

#include "xdr/xdr.h"

namespace nfsrdma::reply_sizing {
namespace {

/// 3.5.3: a Reply chunk holds the payload stream with its round-up padding.
constexpr std::uint64_t rounded_up(std::uint64_t length) {
  return xdr::sum(length, 3) & ~std::uint64_t{3};
}

}  // namespace

std::uint64_t write_list_size(std::span<const ResultBound> results, const HeaderSizes& header) {
  std::uint64_t size = 0;
  for (const ResultBound& result : results) {
    size += header.write_chunk + (result.wants_memory() ? result.segments * header.segment : 0);
  }
  return size;
}

ReplyPlan plan_reply(const ReplyBounds& bounds, std::uint32_t reply_threshold, const HeaderSizes& header) {
  if (xdr::sum(bounds.max_inline, header.least) <= reply_threshold) return {};
  ReplyPlan plan;
  plan.write_list = std::ranges::any_of(bounds.results, &ResultBound::wants_memory);
  const std::uint64_t message = plan.write_list ? bounds.max_reduced : bounds.max_inline;
  const std::uint64_t list = plan.write_list ? write_list_size(bounds.results, header) : 0;
  if (xdr::sum(message, header.least + list) > reply_threshold) plan.reply_chunk = rounded_up(message);
  return plan;
}

}  // namespace nfsrdma::reply_sizing
