// NFSACL version 2: as in wire/nfs3/acl.h, but with NFSv2's handles, attributes and statuses.
//
// Thread-safety: values without shared state.
#pragma once

#include "wire/nfs2/procedures.h"
#include "wire/nfs3/acl.h"

namespace nfsrdma::nfs2 {

inline constexpr std::uint32_t NFSACL_V2 = 2;

struct GETACL2args {
  fhandle object{};
  std::uint32_t mask = 0;
};
struct GETACL2resok {
  fattr attributes{};
  nfs3::secattr acl{};
};
using GETACL2res = ok_or_status<GETACL2resok>;

struct SETACL2args {
  fhandle object{};
  nfs3::secattr acl{};
};

namespace proc {

struct GETACL : nfs3::proc::AclBase<NFSACL_V2, 1, GETACL2args, GETACL2res> {
  static constexpr const char* name = "GETACL";
};
struct SETACL : nfs3::proc::AclBase<NFSACL_V2, 2, SETACL2args, attrstat> {
  static constexpr const char* name = "SETACL";
};

}  // namespace proc

}  // namespace nfsrdma::nfs2
