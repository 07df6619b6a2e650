// The wire types of the services that a client of NFSv3 and NFSv2 needs in addition to NFS (over TCP or UDP,
// RFC 8267 3.1.1): rpcbind (RFC 1833), MOUNT (RFC 1813 appendix I, RFC 1094 appendix A), NLM (version 4: RFC
// 1813 appendix II; earlier versions: X/Open C702 chapter 10) and NSM (X/Open C702 chapter 11). Names and
// numbers are those of the specifications. What they leave unbounded has a limit here.
//
// Thread-safety: values without shared state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "xdr/procedure.h"
#include "xdr/xdr.h"

namespace nfsrdma::aux {

using xdr::Procedure;

// ---- rpcbind: version 2 is the portmapper, 3 and 4 know transports by name ----

inline constexpr std::uint32_t kRpcbindProgram = 100000;
inline constexpr std::uint16_t kRpcbindPort = 111;

struct mapping {
  std::uint32_t prog = 0, vers = 0;
  std::uint32_t prot = 0;  ///< IPPROTO_TCP or IPPROTO_UDP
  std::uint32_t port = 0;
};
struct pmap_port {
  std::uint32_t port = 0;  ///< 0: not registered
};
struct PMAP_GETPORT : Procedure<kRpcbindProgram, 2, 3, mapping, pmap_port> {
  static constexpr const char* name = "PMAPPROC_GETPORT";
};

/// Large enough for addresses that are paths of sockets in a file system.
inline constexpr std::uint64_t kRpcbindText = 1024;

struct rpcb {
  std::uint32_t r_prog = 0, r_vers = 0;
  xdr::String<kRpcbindText> r_netid, r_addr, r_owner;
};
struct rpcblist {
  xdr::List<rpcb> list;
};
struct RPCB3_DUMP : Procedure<kRpcbindProgram, 3, 4, xdr::Void, rpcblist> {
  static constexpr const char* name = "RPCBPROC_DUMP";
};
struct RPCB4_DUMP : Procedure<kRpcbindProgram, 4, 4, xdr::Void, rpcblist> {
  static constexpr const char* name = "RPCBPROC_DUMP";
};

// ---- MOUNT ----

inline constexpr std::uint32_t kMountProgram = 100005;
inline constexpr std::uint64_t kMountPath = 1024;  ///< MNTPATHLEN
inline constexpr std::uint64_t kMountName = 255;   ///< MNTNAMLEN

enum mountstat3 : std::uint32_t {
  MNT3_OK = 0,
  MNT3ERR_PERM = 1,
  MNT3ERR_NOENT = 2,
  MNT3ERR_IO = 5,
  MNT3ERR_ACCES = 13,
  MNT3ERR_NOTDIR = 20,
  MNT3ERR_INVAL = 22,
  MNT3ERR_NAMETOOLONG = 63,
  MNT3ERR_NOTSUPP = 10004,
  MNT3ERR_SERVERFAULT = 10006,
};

struct dirpath {
  xdr::String<kMountPath> path;
};
struct mountres3_ok {
  xdr::ShortOpaque<64> fhandle{};
  xdr::Array<std::uint32_t, 64> auth_flavors{};
};
using mountres3 = xdr::Union<mountstat3, xdr::On<MNT3_OK, mountres3_ok>, xdr::Otherwise<>>;

struct groupnode {
  xdr::String<kMountName> gr_name;
};
struct exportnode {
  xdr::String<kMountPath> ex_dir;
  xdr::List<groupnode> ex_groups;
};
struct exports {
  xdr::List<exportnode> list;
};
struct mountbody {
  xdr::String<kMountName> ml_hostname;
  xdr::String<kMountPath> ml_directory;
};
struct mountlist {
  xdr::List<mountbody> list;
};

/// The answer of MOUNT version 1, for NFSv2: an errno, or a handle of 32 octets (RFC 1094 A.5).
using fhstatus = xdr::Union<mountstat3, xdr::On<MNT3_OK, std::array<std::byte, 32>>, xdr::Otherwise<>>;

struct MNT1 : Procedure<kMountProgram, 1, 1, dirpath, fhstatus> {
  static constexpr const char* name = "MNT";
};
struct DUMP1 : Procedure<kMountProgram, 1, 2, xdr::Void, mountlist> {
  static constexpr const char* name = "DUMP";
};
struct UMNT1 : Procedure<kMountProgram, 1, 3, dirpath, xdr::Void> {
  static constexpr const char* name = "UMNT";
};
struct EXPORT1 : Procedure<kMountProgram, 1, 5, xdr::Void, exports> {
  static constexpr const char* name = "EXPORT";
};
struct MNT3 : Procedure<kMountProgram, 3, 1, dirpath, mountres3> {
  static constexpr const char* name = "MNT";
};
struct DUMP3 : Procedure<kMountProgram, 3, 2, xdr::Void, mountlist> {
  static constexpr const char* name = "DUMP";
};
struct UMNT3 : Procedure<kMountProgram, 3, 3, dirpath, xdr::Void> {
  static constexpr const char* name = "UMNT";
};
struct EXPORT3 : Procedure<kMountProgram, 3, 5, xdr::Void, exports> {
  static constexpr const char* name = "EXPORT";
};

// ---- NLM: byte-range locks. Version 4 is for NFSv3, 1 and 3 for NFSv2, with numbers of another width ----

inline constexpr std::uint32_t kNlmProgram = 100021;
inline constexpr std::uint64_t kLockName = 1024;  ///< LM_MAXSTRLEN
using netobj = xdr::Opaque<1024>;                 ///< MAXNETOBJ_SZ

/// Versions 1 and 3 have the values up to NLM4_DEADLCK.
enum nlm4_stats : std::uint32_t {
  NLM4_GRANTED = 0,
  NLM4_DENIED = 1,
  NLM4_DENIED_NOLOCKS = 2,
  NLM4_BLOCKED = 3,
  NLM4_DENIED_GRACE_PERIOD = 4,
  NLM4_DEADLCK = 5,
  NLM4_ROFS = 6,
  NLM4_STALE_FH = 7,
  NLM4_FBIG = 8,
  NLM4_FAILED = 9,
};

/// The type of offsets and lengths in a version.
template <std::uint32_t Version>
using nlm_number = std::conditional_t<Version == 4, std::uint64_t, std::uint32_t>;

template <class Number>
struct nlm_holder {
  bool exclusive = false;
  std::int32_t svid = 0;
  netobj oh;
  Number l_offset = 0, l_len = 0;
};
template <class Number>
struct nlm_lock {
  xdr::String<kLockName> caller_name;
  netobj fh, oh;
  std::int32_t svid = 0;
  Number l_offset = 0;
  Number l_len = 0;  ///< 0: to the end of the file
};
template <class Number>
struct nlm_testargs {
  netobj cookie;
  bool exclusive = false;
  nlm_lock<Number> alock;
};
template <class Number>
using nlm_testrply = xdr::Union<nlm4_stats, xdr::On<NLM4_DENIED, nlm_holder<Number>>, xdr::Otherwise<>>;
template <class Number>
struct nlm_testres {
  netobj cookie;
  nlm_testrply<Number> stat;
};
template <class Number>
struct nlm_lockargs {
  netobj cookie;
  bool block = false, exclusive = false;
  nlm_lock<Number> alock;
  bool reclaim = false;
  std::int32_t state = 0;
};
template <class Number>
struct nlm_cancargs {
  netobj cookie;
  bool block = false, exclusive = false;
  nlm_lock<Number> alock;
};
template <class Number>
struct nlm_unlockargs {
  netobj cookie;
  nlm_lock<Number> alock;
};
struct nlm_res {
  netobj cookie;
  nlm4_stats stat{};
};

template <std::uint32_t V>
struct NLM_TEST : Procedure<kNlmProgram, V, 1, nlm_testargs<nlm_number<V>>, nlm_testres<nlm_number<V>>> {
  static constexpr const char* name = "NLM_TEST";
};
template <std::uint32_t V>
struct NLM_LOCK : Procedure<kNlmProgram, V, 2, nlm_lockargs<nlm_number<V>>, nlm_res> {
  static constexpr const char* name = "NLM_LOCK";
};
template <std::uint32_t V>
struct NLM_CANCEL : Procedure<kNlmProgram, V, 3, nlm_cancargs<nlm_number<V>>, nlm_res> {
  static constexpr const char* name = "NLM_CANCEL";
};
template <std::uint32_t V>
struct NLM_UNLOCK : Procedure<kNlmProgram, V, 4, nlm_unlockargs<nlm_number<V>>, nlm_res> {
  static constexpr const char* name = "NLM_UNLOCK";
};
/// A call from the server: the queued owner has the lock now.
template <std::uint32_t V>
struct NLM_GRANTED : Procedure<kNlmProgram, V, 5, nlm_testargs<nlm_number<V>>, nlm_res> {
  static constexpr const char* name = "NLM_GRANTED";
};
/// Like NLM_GRANTED, but answered by NLM_GRANTED_RES, which is a Call of its own.
template <std::uint32_t V>
struct NLM_GRANTED_MSG : Procedure<kNlmProgram, V, 10, nlm_testargs<nlm_number<V>>, xdr::Void> {
  static constexpr const char* name = "NLM_GRANTED_MSG";
};
template <std::uint32_t V>
struct NLM_GRANTED_RES : Procedure<kNlmProgram, V, 15, nlm_res, xdr::Void> {
  static constexpr const char* name = "NLM_GRANTED_RES";
};

using nlm4_holder = nlm_holder<std::uint64_t>;
using nlm4_lock = nlm_lock<std::uint64_t>;
using nlm4_testargs = nlm_testargs<std::uint64_t>;
using nlm4_testres = nlm_testres<std::uint64_t>;
using nlm4_lockargs = nlm_lockargs<std::uint64_t>;
using nlm4_cancargs = nlm_cancargs<std::uint64_t>;
using nlm4_unlockargs = nlm_unlockargs<std::uint64_t>;

// ---- NSM: the state number, which tells whether a host has restarted ----

inline constexpr std::uint32_t kNsmProgram = 100024;

struct sm_name {
  xdr::String<kLockName> mon_name;
};
struct sm_stat_res {
  std::uint32_t res_stat = 0;
  std::int32_t state = 0;  ///< odd while the host is up; changes with each restart
};
struct SM_STAT : Procedure<kNsmProgram, 1, 1, sm_name, sm_stat_res> {
  static constexpr const char* name = "SM_STAT";
};

}  // namespace nfsrdma::aux
