// NFSACL version 3: POSIX access control lists next to NFSv3, on its connections (RFC 8267 3). No RFC
// describes the program; numbers and order are those of Solaris and Linux.
//
// A count precedes each list, and equals the list's own length. The tags of a default list carry
// NFS_ACL_DEFAULT. On the wire a list has a mask, and so at least four entries: if it has none, a mask with
// the permissions of the owning group is added.
//
// Thread-safety: values without shared state.
#pragma once

#include "wire/nfs3/types.h"
#include "xdr/procedure.h"

namespace nfsrdma::nfs3 {

inline constexpr std::uint32_t NFSACL_PROGRAM = 100227;
inline constexpr std::uint32_t NFSACL_V3 = 3;

/// Bits of the masks in requests and answers: the parts that are asked for, and those that are present.
inline constexpr std::uint32_t NA_ACL = 0x1;
inline constexpr std::uint32_t NA_ACLCNT = 0x2;
inline constexpr std::uint32_t NA_DFACL = 0x4;
inline constexpr std::uint32_t NA_DFACLCNT = 0x8;
inline constexpr std::uint32_t NFS_ACL_DEFAULT = 0x1000;

/// Linux allows 1024 entries. Two lists of this length make an answer of 768 KiB.
inline constexpr std::uint64_t kAclEntriesMax = 32768;

struct aclent {
  std::uint32_t tag = 0;
  std::uint32_t id = 0;
  std::uint32_t perm = 0;
};
using aclents = xdr::Array<aclent, kAclEntriesMax>;
struct secattr {
  std::uint32_t mask = 0;
  std::uint32_t aclcnt = 0;
  aclents acl{};
  std::uint32_t dfaclcnt = 0;
  aclents dfacl{};
};

struct GETACL3args {
  nfs_fh3 object{};
  std::uint32_t mask = 0;
};
struct GETACL3resok {
  post_op_attr obj_attributes{};
  secattr acl{};
};
using GETACL3res = ok_or_fail<GETACL3resok, post_op_attr>;

struct SETACL3args {
  nfs_fh3 object{};
  secattr acl{};
};
struct SETACL3resok {
  post_op_attr obj_attributes{};
};
using SETACL3res = ok_or_fail<SETACL3resok, post_op_attr>;

namespace proc {

template <std::uint32_t Version, std::uint32_t Number, class Args, class Res>
struct AclBase : xdr::Procedure<NFSACL_PROGRAM, Version, Number, Args, Res> {
  static constexpr bool idempotent = true;
};
struct GETACL : AclBase<NFSACL_V3, 1, GETACL3args, GETACL3res> {
  static constexpr const char* name = "GETACL";
};
struct SETACL : AclBase<NFSACL_V3, 2, SETACL3args, SETACL3res> {
  static constexpr const char* name = "SETACL";
};

}  // namespace proc

}  // namespace nfsrdma::nfs3
