// The wire types of NFSv3 (RFC 1813). Names, field order and numbers are the specification's.
//
// The specification leaves strings unbounded ("string filename3<>"). Each has a limit here, because a client
// that uses RPC-over-RDMA has to provide memory for the largest Reply (RFC 8267 2.6). An item above its limit
// is a decoding error, an error value for that one Reply. The results of READDIR and READDIRPLUS are bounded
// by the counts in the request.
//
// Thread-safety: values without shared state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "xdr/xdr.h"

namespace nfsrdma::nfs3 {

inline constexpr std::uint32_t NFS_PROGRAM = 100003;
inline constexpr std::uint32_t NFS_V3 = 3;
inline constexpr std::uint32_t NFS3_FHSIZE = 64;
inline constexpr std::uint32_t NFS3_COOKIEVERFSIZE = 8;
inline constexpr std::uint32_t NFS3_CREATEVERFSIZE = 8;
inline constexpr std::uint32_t NFS3_WRITEVERFSIZE = 8;

/// Limit for names: 255 octets are usual, and no POSIX caller can use a name longer than PATH_MAX.
inline constexpr std::uint64_t kNameMax = 4096;
/// Limit for the text of a symbolic link: PATH_MAX.
inline constexpr std::uint64_t kPathMax = 4096;

/// The status codes (RFC 1813 2.6). status.h has their errno values and explanations.
enum nfsstat3 : std::uint32_t {
  NFS3_OK = 0,
  NFS3ERR_PERM = 1,
  NFS3ERR_NOENT = 2,
  NFS3ERR_IO = 5,
  NFS3ERR_NXIO = 6,
  NFS3ERR_ACCES = 13,
  NFS3ERR_EXIST = 17,
  NFS3ERR_XDEV = 18,
  NFS3ERR_NODEV = 19,
  NFS3ERR_NOTDIR = 20,
  NFS3ERR_ISDIR = 21,
  NFS3ERR_INVAL = 22,
  NFS3ERR_FBIG = 27,
  NFS3ERR_NOSPC = 28,
  NFS3ERR_ROFS = 30,
  NFS3ERR_MLINK = 31,
  NFS3ERR_NAMETOOLONG = 63,
  NFS3ERR_NOTEMPTY = 66,
  NFS3ERR_DQUOT = 69,
  NFS3ERR_STALE = 70,
  NFS3ERR_REMOTE = 71,
  NFS3ERR_BADHANDLE = 10001,
  NFS3ERR_NOT_SYNC = 10002,
  NFS3ERR_BAD_COOKIE = 10003,
  NFS3ERR_NOTSUPP = 10004,
  NFS3ERR_TOOSMALL = 10005,
  NFS3ERR_SERVERFAULT = 10006,
  NFS3ERR_BADTYPE = 10007,
  NFS3ERR_JUKEBOX = 10008,
};

enum ftype3 : std::uint32_t {
  NF3REG = 1,
  NF3DIR = 2,
  NF3BLK = 3,
  NF3CHR = 4,
  NF3LNK = 5,
  NF3SOCK = 6,
  NF3FIFO = 7,
};

using fileid3 = std::uint64_t;
using cookie3 = std::uint64_t;
using size3 = std::uint64_t;
using offset3 = std::uint64_t;
using count3 = std::uint32_t;
using mode3 = std::uint32_t;
using uid3 = std::uint32_t;
using gid3 = std::uint32_t;
using cookieverf3 = std::array<std::byte, NFS3_COOKIEVERFSIZE>;
using createverf3 = std::array<std::byte, NFS3_CREATEVERFSIZE>;
using writeverf3 = std::array<std::byte, NFS3_WRITEVERFSIZE>;
using filename3 = xdr::String<kNameMax>;
using nfspath3 = xdr::String<kPathMax>;
/// The data of READ and WRITE and the text of READLINK and SYMLINK are eligible for chunks (RFC 8267 3).
using reducible_path3 = xdr::DdpOpaque<kPathMax>;
using reducible_data3 = xdr::DdpOpaque<>;
using nfs_fh3 = xdr::ShortOpaque<NFS3_FHSIZE>;

struct specdata3 {
  std::uint32_t specdata1 = 0;
  std::uint32_t specdata2 = 0;
};

struct nfstime3 {
  std::uint32_t seconds = 0;
  std::uint32_t nseconds = 0;
  friend auto operator<=>(const nfstime3&, const nfstime3&) = default;
};

struct fattr3 {
  ftype3 type = NF3REG;
  mode3 mode = 0;
  std::uint32_t nlink = 0;
  uid3 uid = 0;
  gid3 gid = 0;
  size3 size = 0;
  size3 used = 0;
  specdata3 rdev{};
  std::uint64_t fsid = 0;
  fileid3 fileid = 0;
  nfstime3 atime{};
  nfstime3 mtime{};
  nfstime3 ctime{};
};
using post_op_attr = std::optional<fattr3>;

struct wcc_attr {
  size3 size = 0;
  nfstime3 mtime{};
  nfstime3 ctime{};
};
using pre_op_attr = std::optional<wcc_attr>;
struct wcc_data {
  pre_op_attr before{};
  post_op_attr after{};
};
using post_op_fh3 = std::optional<nfs_fh3>;

enum time_how : std::uint32_t { DONT_CHANGE = 0, SET_TO_SERVER_TIME = 1, SET_TO_CLIENT_TIME = 2 };
using set_time3 = xdr::Union<time_how, xdr::On<DONT_CHANGE>, xdr::On<SET_TO_SERVER_TIME>,
                             xdr::On<SET_TO_CLIENT_TIME, nfstime3>>;
struct sattr3 {
  std::optional<mode3> mode{};
  std::optional<uid3> uid{};
  std::optional<gid3> gid{};
  std::optional<size3> size{};
  set_time3 atime{};
  set_time3 mtime{};
};

struct diropargs3 {
  nfs_fh3 dir{};
  filename3 name{};
};

/// The usual result: a value if the status is NFS3_OK, else the data that a failure carries.
template <class Ok, class Fail>
using ok_or_fail = xdr::Union<nfsstat3, xdr::On<NFS3_OK, Ok>, xdr::Otherwise<Fail>>;

// ---- 1: GETATTR (3.3.1) ----
struct GETATTR3args {
  nfs_fh3 object{};
};
struct GETATTR3resok {
  fattr3 obj_attributes{};
};
using GETATTR3res = ok_or_fail<GETATTR3resok, xdr::Void>;

// ---- 2: SETATTR (3.3.2) ----
struct SETATTR3args {
  nfs_fh3 object{};
  sattr3 new_attributes{};
  std::optional<nfstime3> guard{};
};
struct SETATTR3resok {
  wcc_data obj_wcc{};
};
using SETATTR3res = ok_or_fail<SETATTR3resok, wcc_data>;

// ---- 3: LOOKUP (3.3.3) ----
struct LOOKUP3args {
  diropargs3 what{};
};
struct LOOKUP3resok {
  nfs_fh3 object{};
  post_op_attr obj_attributes{};
  post_op_attr dir_attributes{};
};
struct post_op_fail {
  post_op_attr attributes{};
};
using LOOKUP3res = ok_or_fail<LOOKUP3resok, post_op_fail>;

// ---- 4: ACCESS (3.3.4) ----
inline constexpr std::uint32_t ACCESS3_READ = 0x01;
inline constexpr std::uint32_t ACCESS3_LOOKUP = 0x02;
inline constexpr std::uint32_t ACCESS3_MODIFY = 0x04;
inline constexpr std::uint32_t ACCESS3_EXTEND = 0x08;
inline constexpr std::uint32_t ACCESS3_DELETE = 0x10;
inline constexpr std::uint32_t ACCESS3_EXECUTE = 0x20;
struct ACCESS3args {
  nfs_fh3 object{};
  std::uint32_t access = 0;
};
struct ACCESS3resok {
  post_op_attr obj_attributes{};
  std::uint32_t access = 0;
};
using ACCESS3res = ok_or_fail<ACCESS3resok, post_op_fail>;

// ---- 5: READLINK (3.3.5) ----
struct READLINK3args {
  nfs_fh3 symlink{};
};
struct READLINK3resok {
  post_op_attr symlink_attributes{};
  reducible_path3 data{};
};
using READLINK3res = ok_or_fail<READLINK3resok, post_op_fail>;

// ---- 6: READ (3.3.6) ----
struct READ3args {
  nfs_fh3 file{};
  offset3 offset = 0;
  count3 count = 0;
};
struct READ3resok {
  post_op_attr file_attributes{};
  count3 count = 0;
  bool eof = false;
  reducible_data3 data{};
};
using READ3res = ok_or_fail<READ3resok, post_op_fail>;

// ---- 7: WRITE (3.3.7) ----
enum stable_how : std::uint32_t { UNSTABLE = 0, DATA_SYNC = 1, FILE_SYNC = 2 };
struct WRITE3args {
  nfs_fh3 file{};
  offset3 offset = 0;
  count3 count = 0;
  stable_how stable = UNSTABLE;
  reducible_data3 data{};
};
struct WRITE3resok {
  wcc_data file_wcc{};
  count3 count = 0;
  stable_how committed = UNSTABLE;
  writeverf3 verf{};
};
using WRITE3res = ok_or_fail<WRITE3resok, wcc_data>;

// ---- 8: CREATE (3.3.8) ----
enum createmode3 : std::uint32_t { UNCHECKED = 0, GUARDED = 1, EXCLUSIVE = 2 };
using createhow3 = xdr::Union<createmode3, xdr::On<UNCHECKED, sattr3>, xdr::On<GUARDED, sattr3>,
                              xdr::On<EXCLUSIVE, createverf3>>;
struct CREATE3args {
  diropargs3 where{};
  createhow3 how{};
};
/// The result of CREATE, MKDIR, SYMLINK and MKNOD.
struct made3resok {
  post_op_fh3 obj{};
  post_op_attr obj_attributes{};
  wcc_data dir_wcc{};
};
using CREATE3res = ok_or_fail<made3resok, wcc_data>;

// ---- 9: MKDIR (3.3.9) ----
struct MKDIR3args {
  diropargs3 where{};
  sattr3 attributes{};
};
using MKDIR3res = ok_or_fail<made3resok, wcc_data>;

// ---- 10: SYMLINK (3.3.10) ----
struct symlinkdata3 {
  sattr3 symlink_attributes{};
  reducible_path3 symlink_data{};
};
struct SYMLINK3args {
  diropargs3 where{};
  symlinkdata3 symlink{};
};
using SYMLINK3res = ok_or_fail<made3resok, wcc_data>;

// ---- 11: MKNOD (3.3.11) ----
struct devicedata3 {
  sattr3 dev_attributes{};
  specdata3 spec{};
};
using mknoddata3 = xdr::Union<ftype3, xdr::On<NF3CHR, devicedata3>, xdr::On<NF3BLK, devicedata3>,
                              xdr::On<NF3SOCK, sattr3>, xdr::On<NF3FIFO, sattr3>, xdr::Otherwise<>>;
struct MKNOD3args {
  diropargs3 where{};
  mknoddata3 what{};
};
using MKNOD3res = ok_or_fail<made3resok, wcc_data>;

// ---- 12, 13: REMOVE, RMDIR (3.3.12, 3.3.13) ----
struct REMOVE3args {
  diropargs3 object{};
};
struct dir3resok {
  wcc_data dir_wcc{};
};
using REMOVE3res = ok_or_fail<dir3resok, wcc_data>;
struct RMDIR3args {
  diropargs3 object{};
};
using RMDIR3res = ok_or_fail<dir3resok, wcc_data>;

// ---- 14: RENAME (3.3.14) ----
struct RENAME3args {
  diropargs3 from{};
  diropargs3 to{};
};
struct rename3wcc {
  wcc_data fromdir_wcc{};
  wcc_data todir_wcc{};
};
using RENAME3res = ok_or_fail<rename3wcc, rename3wcc>;

// ---- 15: LINK (3.3.15) ----
struct LINK3args {
  nfs_fh3 file{};
  diropargs3 link{};
};
struct link3wcc {
  post_op_attr file_attributes{};
  wcc_data linkdir_wcc{};
};
using LINK3res = ok_or_fail<link3wcc, link3wcc>;

// ---- 16: READDIR (3.3.16) ----
struct READDIR3args {
  nfs_fh3 dir{};
  cookie3 cookie = 0;
  cookieverf3 cookieverf{};
  count3 count = 0;
};
struct entry3 {
  fileid3 fileid = 0;
  filename3 name{};
  cookie3 cookie = 0;
};
struct READDIR3resok {
  post_op_attr dir_attributes{};
  cookieverf3 cookieverf{};
  xdr::List<entry3> entries{};
  bool eof = false;
};
using READDIR3res = ok_or_fail<READDIR3resok, post_op_fail>;

// ---- 17: READDIRPLUS (3.3.17) ----
struct READDIRPLUS3args {
  nfs_fh3 dir{};
  cookie3 cookie = 0;
  cookieverf3 cookieverf{};
  count3 dircount = 0;
  count3 maxcount = 0;
};
struct entryplus3 {
  fileid3 fileid = 0;
  filename3 name{};
  cookie3 cookie = 0;
  post_op_attr name_attributes{};
  post_op_fh3 name_handle{};
};
struct READDIRPLUS3resok {
  post_op_attr dir_attributes{};
  cookieverf3 cookieverf{};
  xdr::List<entryplus3> entries{};
  bool eof = false;
};
using READDIRPLUS3res = ok_or_fail<READDIRPLUS3resok, post_op_fail>;

// ---- 18: FSSTAT (3.3.18) ----
struct FSSTAT3args {
  nfs_fh3 fsroot{};
};
struct FSSTAT3resok {
  post_op_attr obj_attributes{};
  size3 tbytes = 0, fbytes = 0, abytes = 0;
  size3 tfiles = 0, ffiles = 0, afiles = 0;
  std::uint32_t invarsec = 0;
};
using FSSTAT3res = ok_or_fail<FSSTAT3resok, post_op_fail>;

// ---- 19: FSINFO (3.3.19) ----
inline constexpr std::uint32_t FSF3_LINK = 0x01;
inline constexpr std::uint32_t FSF3_SYMLINK = 0x02;
inline constexpr std::uint32_t FSF3_HOMOGENEOUS = 0x08;
inline constexpr std::uint32_t FSF3_CANSETTIME = 0x10;
struct FSINFO3args {
  nfs_fh3 fsroot{};
};
struct FSINFO3resok {
  post_op_attr obj_attributes{};
  std::uint32_t rtmax = 0, rtpref = 0, rtmult = 0;
  std::uint32_t wtmax = 0, wtpref = 0, wtmult = 0;
  std::uint32_t dtpref = 0;
  size3 maxfilesize = 0;
  nfstime3 time_delta{};
  std::uint32_t properties = 0;
};
using FSINFO3res = ok_or_fail<FSINFO3resok, post_op_fail>;

// ---- 20: PATHCONF (3.3.20) ----
struct PATHCONF3args {
  nfs_fh3 object{};
};
struct PATHCONF3resok {
  post_op_attr obj_attributes{};
  std::uint32_t linkmax = 0;
  std::uint32_t name_max = 0;
  bool no_trunc = false;
  bool chown_restricted = false;
  bool case_insensitive = false;
  bool case_preserving = false;
};
using PATHCONF3res = ok_or_fail<PATHCONF3resok, post_op_fail>;

// ---- 21: COMMIT (3.3.21) ----
struct COMMIT3args {
  nfs_fh3 file{};
  offset3 offset = 0;
  count3 count = 0;
};
struct COMMIT3resok {
  wcc_data file_wcc{};
  writeverf3 verf{};
};
using COMMIT3res = ok_or_fail<COMMIT3resok, wcc_data>;

}  // namespace nfsrdma::nfs3
