// Arguments and results of the operations on files and directories that NFSv4.1 has from 4.0 (RFC 8881 18),
// including those on open files and locks. XXX4args and XXX4res are encoded behind the operation's number. An
// operation without arguments has xdr::Void. Operations on sessions are in ops_session.h.
#pragma once

#include "wire/nfs4/base.h"

namespace nfsrdma::nfs4 {

/// The usual result: a value if the status is NFS4_OK, else nothing.
template <class T>
using ok_or_status = xdr::Union<nfsstat4, xdr::On<NFS4_OK, T>, xdr::Otherwise<>>;

// ---- ACCESS (18.1) ----
inline constexpr std::uint32_t ACCESS4_READ = 0x01;
inline constexpr std::uint32_t ACCESS4_LOOKUP = 0x02;
inline constexpr std::uint32_t ACCESS4_MODIFY = 0x04;
inline constexpr std::uint32_t ACCESS4_EXTEND = 0x08;
inline constexpr std::uint32_t ACCESS4_DELETE = 0x10;
inline constexpr std::uint32_t ACCESS4_EXECUTE = 0x20;
/// Bits of RFC 8276 8.5.
inline constexpr std::uint32_t ACCESS4_XAREAD = 0x40;
inline constexpr std::uint32_t ACCESS4_XAWRITE = 0x80;
inline constexpr std::uint32_t ACCESS4_XALIST = 0x100;

struct ACCESS4args {
  std::uint32_t access = 0;
};
struct ACCESS4resok {
  std::uint32_t supported = 0;
  std::uint32_t access = 0;
};
using ACCESS4res = ok_or_status<ACCESS4resok>;

// ---- CLOSE (18.2) ----
struct CLOSE4args {
  seqid4 seqid = 0;
  stateid4 open_stateid{};
};
using CLOSE4res = ok_or_status<stateid4>;

// ---- COMMIT (18.3) ----
struct COMMIT4args {
  offset4 offset = 0;
  count4 count = 0;
};
struct COMMIT4resok {
  verifier4 writeverf{};
};
using COMMIT4res = ok_or_status<COMMIT4resok>;

// ---- CREATE (18.4): everything but regular files ----
using createtype4 =
    xdr::Union<nfs_ftype4, xdr::On<NF4DIR>, xdr::On<NF4LNK, linktext4>, xdr::On<NF4BLK, specdata4>,
               xdr::On<NF4CHR, specdata4>, xdr::On<NF4SOCK>, xdr::On<NF4FIFO>, xdr::Otherwise<>>;
struct CREATE4args {
  createtype4 objtype{};
  component4 objname{};
  fattr4 createattrs{};
};
struct CREATE4resok {
  change_info4 cinfo{};
  bitmap4 attrset{};
};
using CREATE4res = ok_or_status<CREATE4resok>;

// ---- DELEGRETURN (18.6) ----
struct DELEGRETURN4args {
  stateid4 deleg_stateid{};
};
struct DELEGRETURN4res {
  nfsstat4 status = NFS4_OK;
};

// ---- GETATTR (18.7) ----
struct GETATTR4args {
  bitmap4 attr_request{};
};
struct GETATTR4resok {
  fattr4 obj_attributes{};
};
using GETATTR4res = ok_or_status<GETATTR4resok>;

// ---- GETFH (18.8) ----
struct GETFH4resok {
  nfs_fh4 object{};
};
using GETFH4res = ok_or_status<GETFH4resok>;

// ---- LINK (18.9) ----
struct LINK4args {
  component4 newname{};
};
struct LINK4resok {
  change_info4 cinfo{};
};
using LINK4res = ok_or_status<LINK4resok>;

// ---- LOCK, LOCKT, LOCKU (18.10 to 18.12) ----
enum nfs_lock_type4 : std::uint32_t { READ_LT = 1, WRITE_LT = 2, READW_LT = 3, WRITEW_LT = 4 };

struct open_to_lock_owner4 {
  seqid4 open_seqid = 0;
  stateid4 open_stateid{};
  seqid4 lock_seqid = 0;
  lock_owner4 lock_owner{};
};
struct exist_lock_owner4 {
  stateid4 lock_stateid{};
  seqid4 lock_seqid = 0;
};
using locker4 = xdr::Union<bool, xdr::On<true, open_to_lock_owner4>, xdr::On<false, exist_lock_owner4>>;

struct LOCK4args {
  nfs_lock_type4 locktype = READ_LT;
  bool reclaim = false;
  offset4 offset = 0;
  length4 length = 0;
  locker4 locker{};
};
struct LOCK4denied {
  offset4 offset = 0;
  length4 length = 0;
  nfs_lock_type4 locktype = READ_LT;
  lock_owner4 owner{};
};
struct LOCK4resok {
  stateid4 lock_stateid{};
};
using LOCK4res = xdr::Union<nfsstat4, xdr::On<NFS4_OK, LOCK4resok>, xdr::On<NFS4ERR_DENIED, LOCK4denied>,
                            xdr::Otherwise<>>;

struct LOCKT4args {
  nfs_lock_type4 locktype = READ_LT;
  offset4 offset = 0;
  length4 length = 0;
  lock_owner4 owner{};
};
using LOCKT4res =
    xdr::Union<nfsstat4, xdr::On<NFS4_OK>, xdr::On<NFS4ERR_DENIED, LOCK4denied>, xdr::Otherwise<>>;

struct LOCKU4args {
  nfs_lock_type4 locktype = READ_LT;
  seqid4 seqid = 0;
  stateid4 lock_stateid{};
  offset4 offset = 0;
  length4 length = 0;
};
using LOCKU4res = ok_or_status<stateid4>;

// ---- LOOKUP, LOOKUPP (18.13, 18.14) ----
struct LOOKUP4args {
  component4 objname{};
};
struct LOOKUP4res {
  nfsstat4 status = NFS4_OK;
};
struct LOOKUPP4res {
  nfsstat4 status = NFS4_OK;
};

// ---- OPEN (18.16) ----
enum createmode4 : std::uint32_t { UNCHECKED4 = 0, GUARDED4 = 1, EXCLUSIVE4 = 2, EXCLUSIVE4_1 = 3 };
struct creatverfattr {
  verifier4 cva_verf{};
  fattr4 cva_attrs{};
};
using createhow4 = xdr::Union<createmode4, xdr::On<UNCHECKED4, fattr4>, xdr::On<GUARDED4, fattr4>,
                              xdr::On<EXCLUSIVE4, verifier4>, xdr::On<EXCLUSIVE4_1, creatverfattr>>;

enum opentype4 : std::uint32_t { OPEN4_NOCREATE = 0, OPEN4_CREATE = 1 };
using openflag4 =
    xdr::Union<opentype4, xdr::On<OPEN4_NOCREATE>, xdr::On<OPEN4_CREATE, createhow4>, xdr::Otherwise<>>;

inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_READ = 0x00000001;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WRITE = 0x00000002;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_BOTH = 0x00000003;
inline constexpr std::uint32_t OPEN4_SHARE_DENY_NONE = 0x00000000;
inline constexpr std::uint32_t OPEN4_SHARE_DENY_READ = 0x00000001;
inline constexpr std::uint32_t OPEN4_SHARE_DENY_WRITE = 0x00000002;
inline constexpr std::uint32_t OPEN4_SHARE_DENY_BOTH = 0x00000003;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_DELEG_MASK = 0xff00;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE = 0x0000;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_READ_DELEG = 0x0100;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG = 0x0200;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_ANY_DELEG = 0x0300;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_NO_DELEG = 0x0400;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_CANCEL = 0x0500;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL = 0x10000;
inline constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED = 0x20000;

enum open_delegation_type4 : std::uint32_t {
  OPEN_DELEGATE_NONE = 0,
  OPEN_DELEGATE_READ = 1,
  OPEN_DELEGATE_WRITE = 2,
  OPEN_DELEGATE_NONE_EXT = 3,
};

enum open_claim_type4 : std::uint32_t {
  CLAIM_NULL = 0,
  CLAIM_PREVIOUS = 1,
  CLAIM_DELEGATE_CUR = 2,
  CLAIM_DELEGATE_PREV = 3,
  CLAIM_FH = 4,
  CLAIM_DELEG_CUR_FH = 5,
  CLAIM_DELEG_PREV_FH = 6,
};
struct open_claim_delegate_cur4 {
  stateid4 delegate_stateid{};
  component4 file{};
};
using open_claim4 = xdr::Union<
    open_claim_type4, xdr::On<CLAIM_NULL, component4>, xdr::On<CLAIM_PREVIOUS, open_delegation_type4>,
    xdr::On<CLAIM_DELEGATE_CUR, open_claim_delegate_cur4>, xdr::On<CLAIM_DELEGATE_PREV, component4>,
    xdr::On<CLAIM_FH>, xdr::On<CLAIM_DELEG_PREV_FH>, xdr::On<CLAIM_DELEG_CUR_FH, stateid4>>;

struct OPEN4args {
  seqid4 seqid = 0;
  std::uint32_t share_access = 0;
  std::uint32_t share_deny = 0;
  open_owner4 owner{};
  openflag4 openhow{};
  open_claim4 claim{};
};

enum limit_by4 : std::uint32_t { NFS_LIMIT_SIZE = 1, NFS_LIMIT_BLOCKS = 2 };
struct nfs_modified_limit4 {
  std::uint32_t num_blocks = 0;
  std::uint32_t bytes_per_block = 0;
};
using nfs_space_limit4 = xdr::Union<limit_by4, xdr::On<NFS_LIMIT_SIZE, std::uint64_t>,
                                    xdr::On<NFS_LIMIT_BLOCKS, nfs_modified_limit4>>;

struct open_read_delegation4 {
  stateid4 stateid{};
  bool recall = false;
  nfsace4 permissions{};
};
struct open_write_delegation4 {
  stateid4 stateid{};
  bool recall = false;
  nfs_space_limit4 space_limit{};
  nfsace4 permissions{};
};
enum why_no_delegation4 : std::uint32_t {
  WND4_NOT_WANTED = 0,
  WND4_CONTENTION = 1,
  WND4_RESOURCE = 2,
  WND4_NOT_SUPP_FTYPE = 3,
  WND4_WRITE_DELEG_NOT_SUPP_FTYPE = 4,
  WND4_NOT_SUPP_UPGRADE = 5,
  WND4_NOT_SUPP_DOWNGRADE = 6,
  WND4_CANCELLED = 7,
  WND4_IS_DIR = 8,
};
using open_none_delegation4 =
    xdr::Union<why_no_delegation4, xdr::On<WND4_NOT_WANTED>, xdr::On<WND4_CONTENTION, bool>,
               xdr::On<WND4_RESOURCE, bool>, xdr::Otherwise<>>;
using open_delegation4 = xdr::Union<open_delegation_type4, xdr::On<OPEN_DELEGATE_NONE>,
                                    xdr::On<OPEN_DELEGATE_READ, open_read_delegation4>,
                                    xdr::On<OPEN_DELEGATE_WRITE, open_write_delegation4>,
                                    xdr::On<OPEN_DELEGATE_NONE_EXT, open_none_delegation4>>;

inline constexpr std::uint32_t OPEN4_RESULT_CONFIRM = 0x00000002;
inline constexpr std::uint32_t OPEN4_RESULT_LOCKTYPE_POSIX = 0x00000004;
inline constexpr std::uint32_t OPEN4_RESULT_PRESERVE_UNLINKED = 0x00000008;
inline constexpr std::uint32_t OPEN4_RESULT_MAY_NOTIFY_LOCK = 0x00000020;

struct OPEN4resok {
  stateid4 stateid{};
  change_info4 cinfo{};
  std::uint32_t rflags = 0;
  bitmap4 attrset{};
  open_delegation4 delegation{};
};
using OPEN4res = ok_or_status<OPEN4resok>;

// ---- OPEN_DOWNGRADE (18.18) ----
struct OPEN_DOWNGRADE4args {
  stateid4 open_stateid{};
  seqid4 seqid = 0;
  std::uint32_t share_access = 0;
  std::uint32_t share_deny = 0;
};
struct OPEN_DOWNGRADE4resok {
  stateid4 open_stateid{};
};
using OPEN_DOWNGRADE4res = ok_or_status<OPEN_DOWNGRADE4resok>;

// ---- PUTFH, PUTPUBFH, PUTROOTFH (18.19 to 18.21), RESTOREFH, SAVEFH (18.27, 18.28) ----
struct PUTFH4args {
  nfs_fh4 object{};
};
struct PUTFH4res {
  nfsstat4 status = NFS4_OK;
};
struct PUTPUBFH4res {
  nfsstat4 status = NFS4_OK;
};
struct PUTROOTFH4res {
  nfsstat4 status = NFS4_OK;
};
struct RESTOREFH4res {
  nfsstat4 status = NFS4_OK;
};
struct SAVEFH4res {
  nfsstat4 status = NFS4_OK;
};

// ---- READ (18.22) ----
struct READ4args {
  stateid4 stateid{};
  offset4 offset = 0;
  count4 count = 0;
};
struct READ4resok {
  bool eof = false;
  xdr::DdpOpaque<> data{};
};
using READ4res = ok_or_status<READ4resok>;

// ---- READDIR (18.23) ----
struct READDIR4args {
  nfs_cookie4 cookie = 0;
  verifier4 cookieverf{};
  count4 dircount = 0;
  count4 maxcount = 0;
  bitmap4 attr_request{};
};
/// An entry without nextentry, because xdr::List is the chain.
struct entry4 {
  nfs_cookie4 cookie = 0;
  component4 name{};
  fattr4 attrs{};
};
struct dirlist4 {
  xdr::List<entry4> entries{};
  bool eof = false;
};
struct READDIR4resok {
  verifier4 cookieverf{};
  dirlist4 reply{};
};
using READDIR4res = ok_or_status<READDIR4resok>;

// ---- READLINK (18.24) ----
struct READLINK4resok {
  linktext4 link{};
};
using READLINK4res = ok_or_status<READLINK4resok>;

// ---- REMOVE, RENAME (18.25, 18.26) ----
struct REMOVE4args {
  component4 target{};
};
struct REMOVE4resok {
  change_info4 cinfo{};
};
using REMOVE4res = ok_or_status<REMOVE4resok>;

struct RENAME4args {
  component4 oldname{};
  component4 newname{};
};
struct RENAME4resok {
  change_info4 source_cinfo{};
  change_info4 target_cinfo{};
};
using RENAME4res = ok_or_status<RENAME4resok>;

// ---- SETATTR (18.30): the attributes that were set come with a failure too ----
struct SETATTR4args {
  stateid4 stateid{};
  fattr4 obj_attributes{};
};
struct SETATTR4res {
  nfsstat4 status = NFS4_OK;
  bitmap4 attrsset{};
};

// ---- WRITE (18.32) ----
struct WRITE4args {
  stateid4 stateid{};
  offset4 offset = 0;
  stable_how4 stable = UNSTABLE4;
  xdr::DdpOpaque<> data{};
};
struct WRITE4resok {
  count4 count = 0;
  stable_how4 committed = UNSTABLE4;
  verifier4 writeverf{};
};
using WRITE4res = ok_or_status<WRITE4resok>;

}  // namespace nfsrdma::nfs4
