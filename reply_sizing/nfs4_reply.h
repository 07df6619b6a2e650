// The size of the largest Reply to a COMPOUND of NFSv4.1 or 4.2 (RFC 8267 2.6, 4.2; rows U3, U6, U9).
//
// A Reply is  RPC header | COMPOUND status, tag, count | for each operation: its number, its result.  The
// largest Reply is the sum of the largest results: a COMPOUND that fails ends earlier, and a failure's result
// counts only if it is the larger one (LOCK's denied owner). A result's largest size is the bound of its type
// (xdr::bounds), unless the arguments give a smaller bound; the overloads of largest_result() below compute
// such bounds.
//
//     ReplySize size = start(24, tag.size());
//     add<op::SEQUENCE>(size, sequence);
//     add<op::READ>(size, {stateid, offset, 1048576});
//     bound(size, session.ca_maxresponsesize);
//     → size.max_inline 1,048,672   size.max_reduced 96   one eligible result of at most 1,048,576
//
// If an RPC layer refuses the Call, its answer has at most 32 bytes (PROG_MISMATCH), less than any
// COMPOUND's.
//
// Adding an operation is a few additions of numbers that the compiler knows, without an allocation. Pure
// functions and values; any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reply_sizing/reply_size.h"
#include "wire/nfs4/attributes.h"
#include "wire/nfs4/ops.h"

namespace nfsrdma::reply_sizing {

/// Size of an nfsstat4, which the COMPOUND and every result begin with.
inline constexpr std::uint64_t kStatus = 4;

/// Returns the size of a Reply without results. `rpc_header` is the size of everything before the COMPOUND:
/// kRpcReplyHeader and the padded body of the largest verifier that the security flavour may use.
/// `tag_length` is the length of the COMPOUND's tag, which the server returns (RFC 8881 16.2.3).
constexpr ReplySize start(std::uint64_t rpc_header = kRpcReplyHeader, std::uint64_t tag_length = 0) {
  constexpr std::uint64_t kTagLength = 4;
  constexpr std::uint64_t kCount = 4;
  ReplySize size = begin(rpc_header);
  grow(size, kStatus + kTagLength + xdr::padded(tag_length) + kCount);
  return size;
}

// ---- results that their arguments bound ----
// Each of these is the status and the data that follow NFS4_OK; the void of a failure is smaller.

/// The result of READ: eof, then at most `count` bytes (RFC 8881 18.22.3).
constexpr ResultSize largest_result(const nfs4::READ4args& args) {
  constexpr std::uint64_t kEofAndLength = 4 + 4;
  const std::uint64_t reduced = kStatus + kEofAndLength;
  return {reduced + xdr::padded(args.count), reduced, true, args.count};
}

/// The result of READ_PLUS: at most two elements, and at most `rpa_count` bytes in both together (RFC 7862
/// 15.10.3, RFC 8267 4.1.1). Inline, the largest is a hole and then all the data. Reduced, only the first
/// data element is taken out, so the largest is a data element of length 0 and then all the data. If
/// `rpa_count` is very small, two holes are larger.
constexpr ResultSize largest_result(const nfs4::READ_PLUS4args& args) {
  constexpr std::uint64_t kEofAndCount = 4 + 4;
  constexpr std::uint64_t kData = 4 + 8 + 4;  // discriminant, offset, length
  constexpr std::uint64_t kHole = 4 + 8 + 8;  // discriminant, offset, length
  static_assert(nfs4::kReadPlusElements == 2);
  const std::uint64_t fixed = kStatus + kEofAndCount;
  const std::uint64_t data = xdr::padded(args.rpa_count);
  const std::uint64_t holes = kHole + kHole;
  return {fixed + std::max(holes, kHole + kData + data), fixed + std::max(holes, kData + kData + data), true,
          args.rpa_count};
}

/// The result of READDIR. "maxcount" covers the READDIR4resok with its XDR overhead, but not the status (RFC
/// 8881 18.23.3). The smallest READDIR4resok (verifier, end of list, eof) needs 16 bytes; with less only a
/// failure is possible.
constexpr ResultSize largest_result(const nfs4::READDIR4args& args) {
  constexpr std::uint64_t kSmallest = nfs4::NFS4_VERIFIER_SIZE + 4 + 4;
  const std::uint64_t body = args.maxcount < kSmallest ? 0 : args.maxcount & ~std::uint64_t{3};
  return {kStatus + body, kStatus + body, false, 0};
}

/// The result of LISTXATTRS, bounded like that of READDIR. The smallest LISTXATTRS4resok has a cookie, a
/// count of names and eof (RFC 8276 8.4.3.3).
constexpr ResultSize largest_result(const nfs4::LISTXATTRS4args& args) {
  constexpr std::uint64_t kSmallest = 8 + 4 + 4;
  const std::uint64_t body = args.lxa_maxcount < kSmallest ? 0 : args.lxa_maxcount & ~std::uint64_t{3};
  return {kStatus + body, kStatus + body, false, 0};
}

/// The size provided for an ACL: enough for more than 250 entries with long names.
inline constexpr std::uint64_t kAclRoom = 32U << 10;

/// The result of GETATTR: the attributes that were asked for and no others (RFC 8881 18.7.3). The bitmap in
/// front of them may have zero words at its end, so its full size counts. An ACL has no bound of its own:
/// kAclRoom is provided for it, and the rest, up to the bound of attrlist4, goes into `beyond` (RFC 8267
/// 4.2.1).
inline ResultSize largest_result(const nfs4::GETATTR4args& args) {
  constexpr std::uint64_t kLength = 4;
  const bool acl = nfs4::has_bit(args.attr_request, nfs4::FATTR4_ACL);
  const std::uint64_t values = acl ? kAclRoom : nfs4::max_attr_size(args.attr_request);
  const std::uint64_t size = xdr::sum(kStatus + xdr::bounds<nfs4::bitmap4>.max + kLength, values);
  return {size, size, false, 0, acl ? nfs4::kAttrlistMax - kAclRoom : 0};
}

/// The result of TEST_STATEID: a status for each stateid (RFC 8881 18.48.3).
inline ResultSize largest_result(const nfs4::TEST_STATEID4args& args) {
  const std::uint64_t size = kStatus + 4 + 4 * std::uint64_t{args.ts_stateids.value.size()};
  return {size, size, false, 0};
}

// ---- any operation ----

/// Returns the largest result of Op for these arguments: by its own rule if there is one, else the bound of
/// its type.
template <class Op>
constexpr ResultSize result_size(const typename Op::Args& args) {
  if constexpr (requires { largest_result(args); }) {
    return largest_result(args);
  } else {
    return result_of_type<typename Op::Res>;
  }
}

constexpr void add(ReplySize& reply, const ResultSize& result) {
  constexpr std::uint64_t kNumber = 4;
  grow(reply, kNumber);
  grow(reply, result);
}

/// Adds one operation's result to the Reply.
template <class Op>
constexpr void add(ReplySize& reply, const typename Op::Args& args) {
  add(reply, result_size<Op>(args));
}

// ---- the bounds of the types, for a look-up by number ----

/// Returns the bounds of an operation's result by its type alone. An operation that has no types here gets
/// min 0 and max kUnbounded.
xdr::Bounds result_bounds(nfs4::nfs_opnum4 number);

}  // namespace nfsrdma::reply_sizing
