#include "reply_sizing/nfs2_reply.h"

namespace nfsrdma::reply_sizing {

// RFC 1094's structures, added up by hand.
static_assert(xdr::bounds<nfs2::fattr>.max == 17 * 4);
static_assert(result_of_type<nfs2::attrstat>.max_inline == 4 + 17 * 4);
static_assert(result_of_type<nfs2::diropres>.max_inline == 4 + 32 + 17 * 4);
static_assert(result_of_type<nfs2::statres>.max_inline == 4);
static_assert(result_of_type<nfs2::statfsres>.max_inline == 4 + 5 * 4);
static_assert(result_of_type<nfs2::readlinkres>.max_inline == 4 + 4 + 1024);
static_assert(result_of_type<nfs2::readlinkres>.max_reduced == 4 + 4);
static_assert(result2<nfs2::proc::READ>({.count = 8192}).max_inline == 4 + 17 * 4 + 4 + 8192);
static_assert(result2<nfs2::proc::READ>({.count = 8192}).max_reduced == 4 + 17 * 4 + 4);
static_assert(result2<nfs2::proc::READDIR>({.count = 8192}).max_inline == 12 + 8192);

}  // namespace nfsrdma::reply_sizing
