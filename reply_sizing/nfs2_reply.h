// The size of the largest Reply to a procedure of NFSv2. Like nfs3_reply.h, with RFC 1094's types.
//
// Pure functions; any thread.
#pragma once

#include "reply_sizing/reply_size.h"
#include "wire/nfs2/procedures.h"

namespace nfsrdma::reply_sizing {

/// The result of READ: attributes, and at most `count` bytes (RFC 1094 2.2.7).
constexpr ResultSize largest_result(const nfs2::readargs& args) {
  const std::uint64_t reduced = 4 + xdr::bounds<nfs2::fattr>.max + 4;
  return {reduced + xdr::padded(args.count), reduced, true, args.count, 0};
}

/// The result of READDIR. "count" is the size of the "directory information" (RFC 1094 2.2.17). Some servers
/// do not count the rest of the result, so it is added here.
constexpr ResultSize largest_result(const nfs2::readdirargs& args) {
  constexpr std::uint64_t kStatusEndAndEof = 4 + 4 + 4;
  const std::uint64_t size = kStatusEndAndEof + xdr::padded(args.count);
  return {size, size, false, 0, 0};
}

/// The largest result of a procedure called with these arguments.
template <class P>
constexpr ResultSize result2(const typename P::Args& args) {
  if constexpr (requires { largest_result(args); }) {
    return largest_result(args);
  } else {
    return result_of_type<typename P::Res>;
  }
}

}  // namespace nfsrdma::reply_sizing
