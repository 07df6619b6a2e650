// The size of the largest Reply to a procedure of NFSv3 (RFC 8267 2.6, 3; rows U3, U4).
//
// A Reply is  RPC header | status | the result for that status.  The larger of a success and a failure
// counts. The size is the bound of the result's type (xdr::bounds), unless the arguments give a smaller
// bound. Only READ's data and READLINK's text may travel in a Write chunk (RFC 8267 3).
//
//     ReplySize size = begin();
//     grow(size, result<proc::READ>({file, 0, 1048576}));
//     → size.max_inline 1,048,704   size.max_reduced 128   one eligible result of at most 1,048,576
//
// Pure functions; any thread.
#pragma once

#include "reply_sizing/reply_size.h"
#include "wire/nfs3/procedures.h"

namespace nfsrdma::reply_sizing {

/// The result of a failed procedure that returns the attributes of one object.
inline constexpr std::uint64_t kFailure3 = 4 + xdr::bounds<nfs3::post_op_fail>.max;

/// The result of READ: attributes, count, eof, and at most `count` bytes (RFC 1813 3.3.6).
constexpr ResultSize largest_result(const nfs3::READ3args& args) {
  constexpr std::uint64_t kCountEofAndLength = 4 + 4 + 4;
  const std::uint64_t reduced = 4 + xdr::bounds<nfs3::post_op_attr>.max + kCountEofAndLength;
  return {reduced + xdr::padded(args.count), reduced, true, args.count};
}

/// "count" and "maxcount" cover the READDIR3resok and READDIRPLUS3resok with their XDR overhead, that is
/// without the status (RFC 1813 3.3.16, 3.3.17; RFC 8267 3.1.2).
constexpr ResultSize largest_listing(std::uint32_t count) {
  const std::uint64_t size = std::max<std::uint64_t>(4 + (count & ~std::uint64_t{3}), kFailure3);
  return {size, size, false, 0};
}
constexpr ResultSize largest_result(const nfs3::READDIR3args& args) {
  return largest_listing(args.count);
}
constexpr ResultSize largest_result(const nfs3::READDIRPLUS3args& args) {
  return largest_listing(args.maxcount);
}

/// The size that is first provided for the Reply to a procedure of NFSACL: 32 KiB at least (RFC 8267 3.1.2).
inline constexpr std::uint64_t kAclReply = 32U << 10;
/// Returns the type's bound, or `most` octets if that is less.
template <class P>
constexpr ResultSize acl_result(std::uint64_t most) {
  const std::uint64_t size = std::min(xdr::bounds<typename P::Res>.max, most);
  return {size, size, false, 0};
}

/// Returns the largest result of a procedure called with these arguments.
template <class P>
constexpr ResultSize result(const typename P::Args& args) {
  if constexpr (requires { largest_result(args); }) {
    return largest_result(args);
  } else {
    return result_of_type<typename P::Res>;
  }
}

}  // namespace nfsrdma::reply_sizing
