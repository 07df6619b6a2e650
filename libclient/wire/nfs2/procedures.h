// NFSv2 (RFC 1094): its wire types and the procedures in use. Names, field order and numbers are the
// specification's. ROOT (3) and WRITECACHE (7) were never used.
//
// Thread-safety: values without shared state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "xdr/procedure.h"
#include "xdr/xdr.h"

namespace nfsrdma::nfs2 {

inline constexpr std::uint32_t NFS_PROGRAM = 100003;
inline constexpr std::uint32_t NFS_V2 = 2;
inline constexpr std::uint32_t MAXDATA = 8192;
inline constexpr std::uint64_t MAXPATHLEN = 1024;
inline constexpr std::uint64_t MAXNAMLEN = 255;
inline constexpr std::uint32_t FHSIZE = 32;
/// Offsets have 32 bits, and servers treat them as signed.
inline constexpr std::uint64_t kLargestFile = 0x7fffffff;

/// Statuses of section 2.3.1. The numbers are those of NFSv3, without the ones that NFSv3 added, and
/// NFSERR_WFLUSH.
enum nfsstat : std::uint32_t {
  NFS_OK = 0,
  NFSERR_PERM = 1,
  NFSERR_NOENT = 2,
  NFSERR_IO = 5,
  NFSERR_NXIO = 6,
  NFSERR_ACCES = 13,
  NFSERR_EXIST = 17,
  NFSERR_NODEV = 19,
  NFSERR_NOTDIR = 20,
  NFSERR_ISDIR = 21,
  NFSERR_FBIG = 27,
  NFSERR_NOSPC = 28,
  NFSERR_ROFS = 30,
  NFSERR_NAMETOOLONG = 63,
  NFSERR_NOTEMPTY = 66,
  NFSERR_DQUOT = 69,
  NFSERR_STALE = 70,
  NFSERR_WFLUSH = 99,
};

/// File types of section 2.3.2. Those from NFSOCK on are as servers use them.
enum ftype : std::uint32_t {
  NFNON = 0,
  NFREG = 1,
  NFDIR = 2,
  NFBLK = 3,
  NFCHR = 4,
  NFLNK = 5,
  NFSOCK = 6,
  NFBAD = 7,
  NFFIFO = 8,
};

using fhandle = std::array<std::byte, FHSIZE>;
using filename = xdr::String<MAXNAMLEN>;
/// Paths and data are eligible for chunks, as in NFSv3 (RFC 8267 3).
using reducible_path = xdr::DdpOpaque<MAXPATHLEN>;
using reducible_data = xdr::DdpOpaque<MAXDATA>;

/// Value of a field of sattr that is not to be set.
inline constexpr std::uint32_t kNotSet = ~std::uint32_t{0};
/// Value of timeval::useconds in sattr::mtime that sets both times to the server's own (a convention of
/// Sun's, which servers keep).
inline constexpr std::uint32_t kServersTime = 1'000'000;

struct timeval {
  std::uint32_t seconds = 0;
  std::uint32_t useconds = 0;
};
struct fattr {
  ftype type = NFREG;
  std::uint32_t mode = 0;
  std::uint32_t nlink = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t size = 0;
  std::uint32_t blocksize = 0;
  std::uint32_t rdev = 0;
  std::uint32_t blocks = 0;
  std::uint32_t fsid = 0;
  std::uint32_t fileid = 0;
  timeval atime{};
  timeval mtime{};
  timeval ctime{};
};
struct sattr {
  std::uint32_t mode = kNotSet;
  std::uint32_t uid = kNotSet;
  std::uint32_t gid = kNotSet;
  std::uint32_t size = kNotSet;
  timeval atime{kNotSet, kNotSet};
  timeval mtime{kNotSet, kNotSet};
};
struct diropargs {
  fhandle dir{};
  filename name{};
};

template <class Ok>
using ok_or_status = xdr::Union<nfsstat, xdr::On<NFS_OK, Ok>, xdr::Otherwise<>>;

using attrstat = ok_or_status<fattr>;
struct diropok {
  fhandle file{};
  fattr attributes{};
};
using diropres = ok_or_status<diropok>;
using statres = ok_or_status<xdr::Void>;

struct sattrargs {
  fhandle file{};
  sattr attributes{};
};
using readlinkres = ok_or_status<reducible_path>;
struct readargs {
  fhandle file{};
  std::uint32_t offset = 0;
  std::uint32_t count = 0;
  std::uint32_t totalcount = 0;  ///< unused
};
struct readok {
  fattr attributes{};
  reducible_data data{};
};
using readres = ok_or_status<readok>;
struct writeargs {
  fhandle file{};
  std::uint32_t beginoffset = 0;  ///< unused
  std::uint32_t offset = 0;
  std::uint32_t totalcount = 0;  ///< unused
  reducible_data data{};
};
struct createargs {
  diropargs where{};
  sattr attributes{};
};
struct renameargs {
  diropargs from{};
  diropargs to{};
};
struct linkargs {
  fhandle from{};
  diropargs to{};
};
struct symlinkargs {
  diropargs from{};
  reducible_path to{};
  sattr attributes{};
};
struct readdirargs {
  fhandle dir{};
  std::uint32_t cookie = 0;  ///< four octets that have a meaning for the server only
  std::uint32_t count = 0;
};
struct entry {
  std::uint32_t fileid = 0;
  filename name{};
  std::uint32_t cookie = 0;
};
struct readdirok {
  xdr::List<entry> entries{};
  bool eof = false;
};
using readdirres = ok_or_status<readdirok>;
struct info {
  std::uint32_t tsize = 0;
  std::uint32_t bsize = 0;
  std::uint32_t blocks = 0;
  std::uint32_t bfree = 0;
  std::uint32_t bavail = 0;
};
using statfsres = ok_or_status<info>;

namespace proc {

/// Base of all procedures, as in wire/nfs3/procedures.h.
template <std::uint32_t Number, class Args, class Res, bool Idempotent>
struct Base : xdr::Procedure<NFS_PROGRAM, NFS_V2, Number, Args, Res> {
  static constexpr bool idempotent = Idempotent;
};

// clang-format off
struct NULL2 : Base<0, xdr::Void, xdr::Void, true> { static constexpr const char* name = "NULL"; };
struct GETATTR : Base<1, fhandle, attrstat, true> { static constexpr const char* name = "GETATTR"; };
struct SETATTR : Base<2, sattrargs, attrstat, false> { static constexpr const char* name = "SETATTR"; };
struct LOOKUP : Base<4, diropargs, diropres, true> { static constexpr const char* name = "LOOKUP"; };
struct READLINK : Base<5, fhandle, readlinkres, true> { static constexpr const char* name = "READLINK"; };
struct READ : Base<6, readargs, readres, true> { static constexpr const char* name = "READ"; };
struct WRITE : Base<8, writeargs, attrstat, true> { static constexpr const char* name = "WRITE"; };
struct CREATE : Base<9, createargs, diropres, false> { static constexpr const char* name = "CREATE"; };
struct REMOVE : Base<10, diropargs, statres, false> { static constexpr const char* name = "REMOVE"; };
struct RENAME : Base<11, renameargs, statres, false> { static constexpr const char* name = "RENAME"; };
struct LINK : Base<12, linkargs, statres, false> { static constexpr const char* name = "LINK"; };
struct SYMLINK : Base<13, symlinkargs, statres, false> { static constexpr const char* name = "SYMLINK"; };
struct MKDIR : Base<14, createargs, diropres, false> { static constexpr const char* name = "MKDIR"; };
struct RMDIR : Base<15, diropargs, statres, false> { static constexpr const char* name = "RMDIR"; };
struct READDIR : Base<16, readdirargs, readdirres, true> { static constexpr const char* name = "READDIR"; };
struct STATFS : Base<17, fhandle, statfsres, true> { static constexpr const char* name = "STATFS"; };
// clang-format on

using All = std::tuple<NULL2, GETATTR, SETATTR, LOOKUP, READLINK, READ, WRITE, CREATE, REMOVE, RENAME, LINK,
                       SYMLINK, MKDIR, RMDIR, READDIR, STATFS>;

}  // namespace proc

}  // namespace nfsrdma::nfs2
