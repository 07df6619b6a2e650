#include "reply_sizing/nfs4_reply.h"

namespace nfsrdma::reply_sizing {
namespace {

using namespace nfs4;

template <class... Op>
consteval auto bounds_table(std::tuple<Op...>*) {
  std::array<xdr::Bounds, kOperations.size()> table{};
  table.fill({0, xdr::kUnbounded, xdr::kUnbounded, 0});
  ((table[Op::number - OP_ACCESS] = xdr::bounds<typename Op::Res>), ...);
  return table;
}
constexpr auto kBounds = bounds_table(static_cast<op::All*>(nullptr));

// A check of the header's worked example: SEQUENCE and a READ of 1 MiB.
constexpr ReplySize example() {
  ReplySize size = start();
  add<op::SEQUENCE>(size, {});
  add<op::READ>(size, {.count = 1048576});
  return size;
}
constexpr std::uint64_t kSequence = 4 + 4 + 16 + 5 * 4;  // number, status, session id, five words
static_assert(example().max_reduced == 24 + 12 + kSequence + 16);
static_assert(example().max_inline == example().max_reduced + 1048576);
static_assert(example().eligible_count == 1 && example().eligible[0] == 1048576);

// 18.10: a LOCK that is denied is larger than one that is granted.
static_assert(result_of_type<op::LOCK::Res>.max_inline == 4 + 8 + 8 + 4 + 8 + 4 + NFS4_OPAQUE_LIMIT);
static_assert(result_of_type<op::READLINK::Res>.max_inline == 4 + 4 + kLinktextMax);
static_assert(result_of_type<op::READLINK::Res>.max_reduced == 4 + 4);

}  // namespace

xdr::Bounds result_bounds(nfs_opnum4 number) {
  if (find_operation(number) == nullptr) return {0, xdr::kUnbounded, xdr::kUnbounded, 0};
  return kBounds[number - OP_ACCESS];
}

}  // namespace nfsrdma::reply_sizing
