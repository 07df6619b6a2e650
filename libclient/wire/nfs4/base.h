// The wire types that NFSv4's operations share (RFC 8881, XDR in RFC 5662; 4.2: RFC 7862 and 7863; extended
// attributes: RFC 8276). Names, field order and numbers are the specifications'.
//
// Caps of `opaque<>`, `string<>` and `T<>`. An item that the specification leaves unbounded would leave the
// largest Reply unbounded, and an RPC-over-RDMA client has to provide for the largest Reply (RFC 8267 2.6).
// So each such item has a cap here, chosen well above what servers are known to send. An item above its cap
// is a decoding fault (too_long), an error value for that one Reply. If an argument bounds the result
// (READDIR's maxcount), the cap is generous, because it only limits the decoder.
//
// Thread-safety: values without shared state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "xdr/xdr.h"

namespace nfsrdma::nfs4 {

inline constexpr std::uint32_t NFS4_PROGRAM = 100003;
inline constexpr std::uint32_t NFS_V4 = 4;
inline constexpr std::uint32_t NFSPROC4_NULL = 0;
inline constexpr std::uint32_t NFSPROC4_COMPOUND = 1;

inline constexpr std::uint32_t NFS4_FHSIZE = 128;
inline constexpr std::uint32_t NFS4_VERIFIER_SIZE = 8;
inline constexpr std::uint32_t NFS4_OTHER_SIZE = 12;
inline constexpr std::uint32_t NFS4_OPAQUE_LIMIT = 1024;
inline constexpr std::uint32_t NFS4_SESSIONID_SIZE = 16;
inline constexpr std::uint64_t NFS4_UINT64_MAX = 0xffffffffffffffff;
inline constexpr std::uint32_t NFS4_UINT32_MAX = 0xffffffff;
inline constexpr std::uint64_t NFS4_MAXFILELEN = 0xffffffffffffffff;
inline constexpr std::uint64_t NFS4_MAXFILEOFF = 0xfffffffffffffffe;

// ---- caps of what the specifications leave unbounded ----

/// Words of a bitmap4, enough for 256 attributes or operations. The highest assigned numbers are below 96.
inline constexpr std::uint64_t kBitmapWords = 8;
/// Octets of a component4. The server sends names in READDIR only, whose maxcount bounds the Reply. Names of
/// 255 octets are usual, file systems with names of 1,023 exist, and no POSIX caller can use a name beyond
/// PATH_MAX.
inline constexpr std::uint64_t kComponentMax = 4096;
/// Octets of a linktext4: PATH_MAX.
inline constexpr std::uint64_t kLinktextMax = 4096;
/// Octets of owner, owner_group and an ACE's who ("user@dns-domain"). Linux stops at 128.
inline constexpr std::uint64_t kPrincipalMax = 256;
/// Octets of a COMPOUND's tag. The server returns the client's own tag (RFC 8881 16.2.3), and this client's
/// are short.
inline constexpr std::uint64_t kTagMax = 64;
/// Octets of attr_vals. The attributes that this client knows need less than 4 KiB; the rest is room for
/// ACLs.
inline constexpr std::uint64_t kAttrlistMax = 65536;
/// Octets of a security mechanism's OID in DER, and number of flavours that SECINFO may list. Linux knows 12.
inline constexpr std::uint64_t kSecOidMax = 64;
inline constexpr std::uint64_t kSecinfoMax = 32;
/// Octets of an xattrvalue4: XATTR_SIZE_MAX of Linux.
inline constexpr std::uint64_t kXattrValueMax = 65536;
/// Number of names that one LISTXATTRS may return. Its maxcount bounds the Reply, and 64 KiB is
/// XATTR_LIST_MAX.
inline constexpr std::uint64_t kXattrNamesMax = 65536;
/// Number of elements in one READ_PLUS result (RFC 8267 4.1.1).
inline constexpr std::uint64_t kReadPlusElements = 2;
/// Octets of a GSS context handle, and number of such handles, and of algorithms, that EXCHANGE_ID may carry.
inline constexpr std::uint64_t kGssHandleMax = 64;
inline constexpr std::uint64_t kSsvItemsMax = 16;
/// Octets of a netid and of a universal address. The longest netid in use is "rdma6", the longest address has
/// 39 + 8.
inline constexpr std::uint64_t kNetidMax = 16;
inline constexpr std::uint64_t kUniversalAddressMax = 128;
/// Number of stateids in one TEST_STATEID, of source servers of one COPY, of security parameters of a
/// backchannel.
inline constexpr std::uint64_t kTestStateidMax = 1024;
inline constexpr std::uint64_t kCopySourcesMax = 16;
inline constexpr std::uint64_t kCallbackSecMax = 8;

// ---- numbers ----

/// Status numbers: RFC 8881 15.1, RFC 7862 11.1, RFC 8276 8.3. Their meaning for people and as errno is in
/// status.h.
enum nfsstat4 : std::uint32_t {
  NFS4_OK = 0,
  NFS4ERR_PERM = 1,
  NFS4ERR_NOENT = 2,
  NFS4ERR_IO = 5,
  NFS4ERR_NXIO = 6,
  NFS4ERR_ACCESS = 13,
  NFS4ERR_EXIST = 17,
  NFS4ERR_XDEV = 18,
  NFS4ERR_NOTDIR = 20,
  NFS4ERR_ISDIR = 21,
  NFS4ERR_INVAL = 22,
  NFS4ERR_FBIG = 27,
  NFS4ERR_NOSPC = 28,
  NFS4ERR_ROFS = 30,
  NFS4ERR_MLINK = 31,
  NFS4ERR_NAMETOOLONG = 63,
  NFS4ERR_NOTEMPTY = 66,
  NFS4ERR_DQUOT = 69,
  NFS4ERR_STALE = 70,
  NFS4ERR_BADHANDLE = 10001,
  NFS4ERR_BAD_COOKIE = 10003,
  NFS4ERR_NOTSUPP = 10004,
  NFS4ERR_TOOSMALL = 10005,
  NFS4ERR_SERVERFAULT = 10006,
  NFS4ERR_BADTYPE = 10007,
  NFS4ERR_DELAY = 10008,
  NFS4ERR_SAME = 10009,
  NFS4ERR_DENIED = 10010,
  NFS4ERR_EXPIRED = 10011,
  NFS4ERR_LOCKED = 10012,
  NFS4ERR_GRACE = 10013,
  NFS4ERR_FHEXPIRED = 10014,
  NFS4ERR_SHARE_DENIED = 10015,
  NFS4ERR_WRONGSEC = 10016,
  NFS4ERR_CLID_INUSE = 10017,
  NFS4ERR_RESOURCE = 10018,
  NFS4ERR_MOVED = 10019,
  NFS4ERR_NOFILEHANDLE = 10020,
  NFS4ERR_MINOR_VERS_MISMATCH = 10021,
  NFS4ERR_STALE_CLIENTID = 10022,
  NFS4ERR_STALE_STATEID = 10023,
  NFS4ERR_OLD_STATEID = 10024,
  NFS4ERR_BAD_STATEID = 10025,
  NFS4ERR_BAD_SEQID = 10026,
  NFS4ERR_NOT_SAME = 10027,
  NFS4ERR_LOCK_RANGE = 10028,
  NFS4ERR_SYMLINK = 10029,
  NFS4ERR_RESTOREFH = 10030,
  NFS4ERR_LEASE_MOVED = 10031,
  NFS4ERR_ATTRNOTSUPP = 10032,
  NFS4ERR_NO_GRACE = 10033,
  NFS4ERR_RECLAIM_BAD = 10034,
  NFS4ERR_RECLAIM_CONFLICT = 10035,
  NFS4ERR_BADXDR = 10036,
  NFS4ERR_LOCKS_HELD = 10037,
  NFS4ERR_OPENMODE = 10038,
  NFS4ERR_BADOWNER = 10039,
  NFS4ERR_BADCHAR = 10040,
  NFS4ERR_BADNAME = 10041,
  NFS4ERR_BAD_RANGE = 10042,
  NFS4ERR_LOCK_NOTSUPP = 10043,
  NFS4ERR_OP_ILLEGAL = 10044,
  NFS4ERR_DEADLOCK = 10045,
  NFS4ERR_FILE_OPEN = 10046,
  NFS4ERR_ADMIN_REVOKED = 10047,
  NFS4ERR_CB_PATH_DOWN = 10048,
  NFS4ERR_BADIOMODE = 10049,
  NFS4ERR_BADLAYOUT = 10050,
  NFS4ERR_BAD_SESSION_DIGEST = 10051,
  NFS4ERR_BADSESSION = 10052,
  NFS4ERR_BADSLOT = 10053,
  NFS4ERR_COMPLETE_ALREADY = 10054,
  NFS4ERR_CONN_NOT_BOUND_TO_SESSION = 10055,
  NFS4ERR_DELEG_ALREADY_WANTED = 10056,
  NFS4ERR_BACK_CHAN_BUSY = 10057,
  NFS4ERR_LAYOUTTRYLATER = 10058,
  NFS4ERR_LAYOUTUNAVAILABLE = 10059,
  NFS4ERR_NOMATCHING_LAYOUT = 10060,
  NFS4ERR_RECALLCONFLICT = 10061,
  NFS4ERR_UNKNOWN_LAYOUTTYPE = 10062,
  NFS4ERR_SEQ_MISORDERED = 10063,
  NFS4ERR_SEQUENCE_POS = 10064,
  NFS4ERR_REQ_TOO_BIG = 10065,
  NFS4ERR_REP_TOO_BIG = 10066,
  NFS4ERR_REP_TOO_BIG_TO_CACHE = 10067,
  NFS4ERR_RETRY_UNCACHED_REP = 10068,
  NFS4ERR_UNSAFE_COMPOUND = 10069,
  NFS4ERR_TOO_MANY_OPS = 10070,
  NFS4ERR_OP_NOT_IN_SESSION = 10071,
  NFS4ERR_HASH_ALG_UNSUPP = 10072,
  NFS4ERR_CLIENTID_BUSY = 10074,
  NFS4ERR_PNFS_IO_HOLE = 10075,
  NFS4ERR_SEQ_FALSE_RETRY = 10076,
  NFS4ERR_BAD_HIGH_SLOT = 10077,
  NFS4ERR_DEADSESSION = 10078,
  NFS4ERR_ENCR_ALG_UNSUPP = 10079,
  NFS4ERR_PNFS_NO_LAYOUT = 10080,
  NFS4ERR_NOT_ONLY_OP = 10081,
  NFS4ERR_WRONG_CRED = 10082,
  NFS4ERR_WRONG_TYPE = 10083,
  NFS4ERR_DIRDELEG_UNAVAIL = 10084,
  NFS4ERR_REJECT_DELEG = 10085,
  NFS4ERR_RETURNCONFLICT = 10086,
  NFS4ERR_DELEG_REVOKED = 10087,
  NFS4ERR_PARTNER_NOTSUPP = 10088,
  NFS4ERR_PARTNER_NO_AUTH = 10089,
  NFS4ERR_UNION_NOTSUPP = 10090,
  NFS4ERR_OFFLOAD_DENIED = 10091,
  NFS4ERR_WRONG_LFS = 10092,
  NFS4ERR_BADLABEL = 10093,
  NFS4ERR_OFFLOAD_NO_REQS = 10094,
  NFS4ERR_NOXATTR = 10095,
  NFS4ERR_XATTR2BIG = 10096,
};

enum nfs_opnum4 : std::uint32_t {
  OP_ACCESS = 3,
  OP_CLOSE = 4,
  OP_COMMIT = 5,
  OP_CREATE = 6,
  OP_DELEGPURGE = 7,
  OP_DELEGRETURN = 8,
  OP_GETATTR = 9,
  OP_GETFH = 10,
  OP_LINK = 11,
  OP_LOCK = 12,
  OP_LOCKT = 13,
  OP_LOCKU = 14,
  OP_LOOKUP = 15,
  OP_LOOKUPP = 16,
  OP_NVERIFY = 17,
  OP_OPEN = 18,
  OP_OPENATTR = 19,
  OP_OPEN_CONFIRM = 20,
  OP_OPEN_DOWNGRADE = 21,
  OP_PUTFH = 22,
  OP_PUTPUBFH = 23,
  OP_PUTROOTFH = 24,
  OP_READ = 25,
  OP_READDIR = 26,
  OP_READLINK = 27,
  OP_REMOVE = 28,
  OP_RENAME = 29,
  OP_RENEW = 30,
  OP_RESTOREFH = 31,
  OP_SAVEFH = 32,
  OP_SECINFO = 33,
  OP_SETATTR = 34,
  OP_SETCLIENTID = 35,
  OP_SETCLIENTID_CONFIRM = 36,
  OP_VERIFY = 37,
  OP_WRITE = 38,
  OP_RELEASE_LOCKOWNER = 39,
  OP_BACKCHANNEL_CTL = 40,
  OP_BIND_CONN_TO_SESSION = 41,
  OP_EXCHANGE_ID = 42,
  OP_CREATE_SESSION = 43,
  OP_DESTROY_SESSION = 44,
  OP_FREE_STATEID = 45,
  OP_GET_DIR_DELEGATION = 46,
  OP_GETDEVICEINFO = 47,
  OP_GETDEVICELIST = 48,
  OP_LAYOUTCOMMIT = 49,
  OP_LAYOUTGET = 50,
  OP_LAYOUTRETURN = 51,
  OP_SECINFO_NO_NAME = 52,
  OP_SEQUENCE = 53,
  OP_SET_SSV = 54,
  OP_TEST_STATEID = 55,
  OP_WANT_DELEGATION = 56,
  OP_DESTROY_CLIENTID = 57,
  OP_RECLAIM_COMPLETE = 58,
  OP_ALLOCATE = 59,
  OP_COPY = 60,
  OP_COPY_NOTIFY = 61,
  OP_DEALLOCATE = 62,
  OP_IO_ADVISE = 63,
  OP_LAYOUTERROR = 64,
  OP_LAYOUTSTATS = 65,
  OP_OFFLOAD_CANCEL = 66,
  OP_OFFLOAD_STATUS = 67,
  OP_READ_PLUS = 68,
  OP_SEEK = 69,
  OP_WRITE_SAME = 70,
  OP_CLONE = 71,
  OP_GETXATTR = 72,
  OP_SETXATTR = 73,
  OP_LISTXATTRS = 74,
  OP_REMOVEXATTR = 75,
  OP_ILLEGAL = 10044,
};

enum nfs_ftype4 : std::uint32_t {
  NF4REG = 1,
  NF4DIR = 2,
  NF4BLK = 3,
  NF4CHR = 4,
  NF4LNK = 5,
  NF4SOCK = 6,
  NF4FIFO = 7,
  NF4ATTRDIR = 8,
  NF4NAMEDATTR = 9,
};

// ---- basic types (RFC 8881 3.2, 3.3) ----

using bitmap4 = xdr::Array<std::uint32_t, kBitmapWords>;
using attrlist4 = xdr::Opaque<kAttrlistMax>;
using changeid4 = std::uint64_t;
using clientid4 = std::uint64_t;
using count4 = std::uint32_t;
using length4 = std::uint64_t;
using mode4 = std::uint32_t;
using nfs_cookie4 = std::uint64_t;
using nfs_fh4 = xdr::ShortOpaque<NFS4_FHSIZE>;
using offset4 = std::uint64_t;
using qop4 = std::uint32_t;
using sec_oid4 = xdr::Opaque<kSecOidMax>;
using sequenceid4 = std::uint32_t;
using seqid4 = std::uint32_t;
using sessionid4 = std::array<std::byte, NFS4_SESSIONID_SIZE>;
using slotid4 = std::uint32_t;
using verifier4 = std::array<std::byte, NFS4_VERIFIER_SIZE>;
using component4 = xdr::String<kComponentMax>;
/// DDP-eligible where it occurs: READLINK's result and CREATE's argument (RFC 8267 4.1).
using linktext4 = xdr::DdpOpaque<kLinktextMax>;
/// The type utf8str_mixed as used for owners.
using principal4 = xdr::String<kPrincipalMax>;
/// The types utf8str_cis and utf8str_cs as used in nfs_impl_id4 and netloc4.
using label4 = xdr::String<NFS4_OPAQUE_LIMIT>;
using utf8str_cs_tag = xdr::String<kTagMax>;

struct nfstime4 {
  std::int64_t seconds = 0;
  std::uint32_t nseconds = 0;
  friend bool operator==(const nfstime4&, const nfstime4&) = default;
};

enum time_how4 : std::uint32_t { SET_TO_SERVER_TIME4 = 0, SET_TO_CLIENT_TIME4 = 1 };
using settime4 = xdr::Union<time_how4, xdr::On<SET_TO_SERVER_TIME4>, xdr::On<SET_TO_CLIENT_TIME4, nfstime4>,
                            xdr::Otherwise<>>;

struct fsid4 {
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  friend bool operator==(const fsid4&, const fsid4&) = default;
};

struct specdata4 {
  std::uint32_t specdata1 = 0;  ///< major device number
  std::uint32_t specdata2 = 0;  ///< minor device number
  friend bool operator==(const specdata4&, const specdata4&) = default;
};

struct stateid4 {
  std::uint32_t seqid = 0;
  std::array<std::byte, NFS4_OTHER_SIZE> other{};
  friend bool operator==(const stateid4&, const stateid4&) = default;
};

/// The values of the attributes in attrmask are in attr_vals, in ascending order of their numbers
/// (attributes.h).
struct fattr4 {
  bitmap4 attrmask{};
  attrlist4 attr_vals{};
  friend bool operator==(const fattr4&, const fattr4&) = default;
};

struct change_info4 {
  bool atomic = false;
  changeid4 before = 0;
  changeid4 after = 0;
  friend bool operator==(const change_info4&, const change_info4&) = default;
};

struct nfsace4 {
  std::uint32_t type = 0;
  std::uint32_t flag = 0;
  std::uint32_t access_mask = 0;
  principal4 who{};
};

struct netaddr4 {
  xdr::String<kNetidMax> na_r_netid{};
  xdr::String<kUniversalAddressMax> na_r_addr{};
};

struct nfs_impl_id4 {
  label4 nii_domain{};
  label4 nii_name{};
  nfstime4 nii_date{};
};

struct client_owner4 {
  verifier4 co_verifier{};
  xdr::Opaque<NFS4_OPAQUE_LIMIT> co_ownerid{};
};

struct server_owner4 {
  std::uint64_t so_minor_id = 0;
  xdr::Opaque<NFS4_OPAQUE_LIMIT> so_major_id{};
  friend bool operator==(const server_owner4&, const server_owner4&) = default;
};

struct state_owner4 {
  clientid4 clientid = 0;
  xdr::Opaque<NFS4_OPAQUE_LIMIT> owner{};
};
using open_owner4 = state_owner4;
using lock_owner4 = state_owner4;

enum stable_how4 : std::uint32_t { UNSTABLE4 = 0, DATA_SYNC4 = 1, FILE_SYNC4 = 2 };

}  // namespace nfsrdma::nfs4
