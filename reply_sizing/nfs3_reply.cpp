#include "reply_sizing/nfs3_reply.h"

namespace nfsrdma::reply_sizing {

using namespace nfs3;

// RFC 1813's structures, added up by hand.
constexpr std::uint64_t kFattr = 5 * 4 + 2 * 8 + 2 * 4 + 2 * 8 + 3 * 8;
constexpr std::uint64_t kPostOp = 4 + kFattr;
constexpr std::uint64_t kWcc = (4 + 8 + 2 * 8) + kPostOp;
static_assert(kFattr == 84);
static_assert(result_of_type<GETATTR3res>.max_inline == 4 + kFattr);
static_assert(result_of_type<SETATTR3res>.max_inline == 4 + kWcc);
static_assert(result_of_type<LOOKUP3res>.max_inline == 4 + (4 + NFS3_FHSIZE) + 2 * kPostOp);
static_assert(result_of_type<CREATE3res>.max_inline == 4 + (4 + 4 + NFS3_FHSIZE) + kPostOp + kWcc);
static_assert(result_of_type<RENAME3res>.max_inline == 4 + 2 * kWcc);
static_assert(result_of_type<READLINK3res>.max_inline == 4 + kPostOp + 4 + kPathMax);
static_assert(result_of_type<READLINK3res>.max_reduced == 4 + kPostOp + 4);
static_assert(result<proc::READ>({.count = 1048576}).max_inline == 4 + kPostOp + 12 + 1048576);
static_assert(result<proc::READ>({.count = 1048573}).max_inline == 4 + kPostOp + 12 + 1048576);
static_assert(result<proc::READ>({.count = 1048576}).max_reduced == 4 + kPostOp + 12);
static_assert(result<proc::READDIR>({.count = 4096}).max_inline == 4 + 4096);
static_assert(result<proc::READDIRPLUS>({.dircount = 0, .maxcount = 65536}).max_inline == 4 + 65536);
static_assert(result<proc::READDIR>({.count = 1}).max_inline == 4 + kPostOp, "a failure is larger");

}  // namespace nfsrdma::reply_sizing
