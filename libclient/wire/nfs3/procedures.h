// The 22 procedures of NFSv3 (RFC 1813 3): number, types, and whether a second execution is harmless.
#pragma once

#include <string_view>
#include <tuple>

#include "wire/nfs3/types.h"
#include "xdr/procedure.h"

namespace nfsrdma::nfs3 {

namespace proc {

/// `Idempotent`: a second execution leads to the same state and the same answer. For other procedures the
/// second answer may be a failure that the first execution has caused (RFC 1813 4.8: EXIST for the caller's
/// own MKDIR).
template <std::uint32_t Number, class Args, class Res, bool Idempotent>
struct Base : xdr::Procedure<NFS_PROGRAM, NFS_V3, Number, Args, Res> {
  static constexpr bool idempotent = Idempotent;
};
template <std::uint32_t Number, class Args, class Res>
using Same = Base<Number, Args, Res, true>;
template <std::uint32_t Number, class Args, class Res>
using Once = Base<Number, Args, Res, false>;

// clang-format off
struct NULL3 : Same<0, xdr::Void, xdr::Void> { static constexpr const char* name = "NULL"; };
struct GETATTR : Same<1, GETATTR3args, GETATTR3res> { static constexpr const char* name = "GETATTR"; };
struct SETATTR : Once<2, SETATTR3args, SETATTR3res> { static constexpr const char* name = "SETATTR"; };
struct LOOKUP : Same<3, LOOKUP3args, LOOKUP3res> { static constexpr const char* name = "LOOKUP"; };
struct ACCESS : Same<4, ACCESS3args, ACCESS3res> { static constexpr const char* name = "ACCESS"; };
struct READLINK : Same<5, READLINK3args, READLINK3res> { static constexpr const char* name = "READLINK"; };
struct READ : Same<6, READ3args, READ3res> { static constexpr const char* name = "READ"; };
struct WRITE : Same<7, WRITE3args, WRITE3res> { static constexpr const char* name = "WRITE"; };
struct CREATE : Once<8, CREATE3args, CREATE3res> { static constexpr const char* name = "CREATE"; };
struct MKDIR : Once<9, MKDIR3args, MKDIR3res> { static constexpr const char* name = "MKDIR"; };
struct SYMLINK : Once<10, SYMLINK3args, SYMLINK3res> { static constexpr const char* name = "SYMLINK"; };
struct MKNOD : Once<11, MKNOD3args, MKNOD3res> { static constexpr const char* name = "MKNOD"; };
struct REMOVE : Once<12, REMOVE3args, REMOVE3res> { static constexpr const char* name = "REMOVE"; };
struct RMDIR : Once<13, RMDIR3args, RMDIR3res> { static constexpr const char* name = "RMDIR"; };
struct RENAME : Once<14, RENAME3args, RENAME3res> { static constexpr const char* name = "RENAME"; };
struct LINK : Once<15, LINK3args, LINK3res> { static constexpr const char* name = "LINK"; };
struct READDIR : Same<16, READDIR3args, READDIR3res> { static constexpr const char* name = "READDIR"; };
struct READDIRPLUS : Same<17, READDIRPLUS3args, READDIRPLUS3res> { static constexpr const char* name = "READDIRPLUS"; };
struct FSSTAT : Same<18, FSSTAT3args, FSSTAT3res> { static constexpr const char* name = "FSSTAT"; };
struct FSINFO : Same<19, FSINFO3args, FSINFO3res> { static constexpr const char* name = "FSINFO"; };
struct PATHCONF : Same<20, PATHCONF3args, PATHCONF3res> { static constexpr const char* name = "PATHCONF"; };
struct COMMIT : Same<21, COMMIT3args, COMMIT3res> { static constexpr const char* name = "COMMIT"; };
// clang-format on

/// All procedures, in the order of their numbers.
using All =
    std::tuple<NULL3, GETATTR, SETATTR, LOOKUP, ACCESS, READLINK, READ, WRITE, CREATE, MKDIR, SYMLINK, MKNOD,
               REMOVE, RMDIR, RENAME, LINK, READDIR, READDIRPLUS, FSSTAT, FSINFO, PATHCONF, COMMIT>;
static_assert(std::tuple_size_v<All> == 22);

}  // namespace proc

}  // namespace nfsrdma::nfs3
