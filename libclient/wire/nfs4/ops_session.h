// Arguments and results of the operations that NFSv4.1 adds: client identifiers, sessions, stateids, security
// (RFC 8881 18.33 to 18.51).
#pragma once

#include "wire/nfs4/ops_file.h"

namespace nfsrdma::nfs4 {

// ---- callbacks' security (18.33) ----
inline constexpr std::uint32_t kAuthNone = 0;
inline constexpr std::uint32_t kAuthSys = 1;
inline constexpr std::uint32_t kRpcsecGss = 6;

/// Parameters of AUTH_SYS (RFC 5531, appendix A).
struct authsys_parms {
  std::uint32_t stamp = 0;
  xdr::String<255> machinename{};
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  xdr::Array<std::uint32_t, 16> gids{};
};

enum rpc_gss_svc_t : std::uint32_t {
  RPC_GSS_SVC_NONE = 1,
  RPC_GSS_SVC_INTEGRITY = 2,
  RPC_GSS_SVC_PRIVACY = 3
};
using gsshandle4_t = xdr::Opaque<kGssHandleMax>;
struct gss_cb_handles4 {
  rpc_gss_svc_t gcbp_service = RPC_GSS_SVC_NONE;
  gsshandle4_t gcbp_handle_from_server{};
  gsshandle4_t gcbp_handle_from_client{};
};
using callback_sec_parms4 = xdr::Union<std::uint32_t, xdr::On<kAuthNone>, xdr::On<kAuthSys, authsys_parms>,
                                       xdr::On<kRpcsecGss, gss_cb_handles4>>;

// ---- BACKCHANNEL_CTL (18.33) ----
struct BACKCHANNEL_CTL4args {
  std::uint32_t bca_cb_program = 0;
  xdr::Array<callback_sec_parms4, kCallbackSecMax> bca_sec_parms{};
};
struct BACKCHANNEL_CTL4res {
  nfsstat4 bcr_status = NFS4_OK;
};

// ---- BIND_CONN_TO_SESSION (18.34) ----
enum channel_dir_from_client4 : std::uint32_t {
  CDFC4_FORE = 0x1,
  CDFC4_BACK = 0x2,
  CDFC4_FORE_OR_BOTH = 0x3,
  CDFC4_BACK_OR_BOTH = 0x7,
};
enum channel_dir_from_server4 : std::uint32_t { CDFS4_FORE = 0x1, CDFS4_BACK = 0x2, CDFS4_BOTH = 0x3 };

struct BIND_CONN_TO_SESSION4args {
  sessionid4 bctsa_sessid{};
  channel_dir_from_client4 bctsa_dir = CDFC4_FORE;
  bool bctsa_use_conn_in_rdma_mode = false;
};
struct BIND_CONN_TO_SESSION4resok {
  sessionid4 bctsr_sessid{};
  channel_dir_from_server4 bctsr_dir = CDFS4_FORE;
  bool bctsr_use_conn_in_rdma_mode = false;
};
using BIND_CONN_TO_SESSION4res = ok_or_status<BIND_CONN_TO_SESSION4resok>;

// ---- EXCHANGE_ID (18.35) ----
inline constexpr std::uint32_t EXCHGID4_FLAG_SUPP_MOVED_REFER = 0x00000001;
inline constexpr std::uint32_t EXCHGID4_FLAG_SUPP_MOVED_MIGR = 0x00000002;
inline constexpr std::uint32_t EXCHGID4_FLAG_SUPP_FENCE_OPS = 0x00000004;
inline constexpr std::uint32_t EXCHGID4_FLAG_BIND_PRINC_STATEID = 0x00000100;
inline constexpr std::uint32_t EXCHGID4_FLAG_USE_NON_PNFS = 0x00010000;
inline constexpr std::uint32_t EXCHGID4_FLAG_USE_PNFS_MDS = 0x00020000;
inline constexpr std::uint32_t EXCHGID4_FLAG_USE_PNFS_DS = 0x00040000;
inline constexpr std::uint32_t EXCHGID4_FLAG_MASK_PNFS = 0x00070000;
inline constexpr std::uint32_t EXCHGID4_FLAG_UPD_CONFIRMED_REC_A = 0x40000000;
inline constexpr std::uint32_t EXCHGID4_FLAG_CONFIRMED_R = 0x80000000;

enum state_protect_how4 : std::uint32_t { SP4_NONE = 0, SP4_MACH_CRED = 1, SP4_SSV = 2 };
struct state_protect_ops4 {
  bitmap4 spo_must_enforce{};
  bitmap4 spo_must_allow{};
};
struct ssv_sp_parms4 {
  state_protect_ops4 ssp_ops{};
  xdr::Array<sec_oid4, kSsvItemsMax> ssp_hash_algs{};
  xdr::Array<sec_oid4, kSsvItemsMax> ssp_encr_algs{};
  std::uint32_t ssp_window = 0;
  std::uint32_t ssp_num_gss_handles = 0;
};
using state_protect4_a =
    xdr::Union<state_protect_how4, xdr::On<SP4_NONE>, xdr::On<SP4_MACH_CRED, state_protect_ops4>,
               xdr::On<SP4_SSV, ssv_sp_parms4>>;
struct EXCHANGE_ID4args {
  client_owner4 eia_clientowner{};
  std::uint32_t eia_flags = 0;
  state_protect4_a eia_state_protect{};
  xdr::Array<nfs_impl_id4, 1> eia_client_impl_id{};
};

struct ssv_prot_info4 {
  state_protect_ops4 spi_ops{};
  std::uint32_t spi_hash_alg = 0;
  std::uint32_t spi_encr_alg = 0;
  std::uint32_t spi_ssv_len = 0;
  std::uint32_t spi_window = 0;
  xdr::Array<gsshandle4_t, kSsvItemsMax> spi_handles{};
};
using state_protect4_r =
    xdr::Union<state_protect_how4, xdr::On<SP4_NONE>, xdr::On<SP4_MACH_CRED, state_protect_ops4>,
               xdr::On<SP4_SSV, ssv_prot_info4>>;
struct EXCHANGE_ID4resok {
  clientid4 eir_clientid = 0;
  sequenceid4 eir_sequenceid = 0;
  std::uint32_t eir_flags = 0;
  state_protect4_r eir_state_protect{};
  server_owner4 eir_server_owner{};
  xdr::Opaque<NFS4_OPAQUE_LIMIT> eir_server_scope{};
  xdr::Array<nfs_impl_id4, 1> eir_server_impl_id{};
};
using EXCHANGE_ID4res = ok_or_status<EXCHANGE_ID4resok>;

// ---- CREATE_SESSION (18.36) ----
inline constexpr std::uint32_t CREATE_SESSION4_FLAG_PERSIST = 0x00000001;
inline constexpr std::uint32_t CREATE_SESSION4_FLAG_CONN_BACK_CHAN = 0x00000002;
inline constexpr std::uint32_t CREATE_SESSION4_FLAG_CONN_RDMA = 0x00000004;

struct channel_attrs4 {
  count4 ca_headerpadsize = 0;
  count4 ca_maxrequestsize = 0;
  count4 ca_maxresponsesize = 0;
  count4 ca_maxresponsesize_cached = 0;
  count4 ca_maxoperations = 0;
  count4 ca_maxrequests = 0;
  xdr::Array<std::uint32_t, 1> ca_rdma_ird{};
};
struct CREATE_SESSION4args {
  clientid4 csa_clientid = 0;
  sequenceid4 csa_sequence = 0;
  std::uint32_t csa_flags = 0;
  channel_attrs4 csa_fore_chan_attrs{};
  channel_attrs4 csa_back_chan_attrs{};
  std::uint32_t csa_cb_program = 0;
  xdr::Array<callback_sec_parms4, kCallbackSecMax> csa_sec_parms{};
};
struct CREATE_SESSION4resok {
  sessionid4 csr_sessionid{};
  sequenceid4 csr_sequence = 0;
  std::uint32_t csr_flags = 0;
  channel_attrs4 csr_fore_chan_attrs{};
  channel_attrs4 csr_back_chan_attrs{};
};
using CREATE_SESSION4res = ok_or_status<CREATE_SESSION4resok>;

// ---- DESTROY_SESSION (18.37), DESTROY_CLIENTID (18.50) ----
struct DESTROY_SESSION4args {
  sessionid4 dsa_sessionid{};
};
struct DESTROY_SESSION4res {
  nfsstat4 dsr_status = NFS4_OK;
};
struct DESTROY_CLIENTID4args {
  clientid4 dca_clientid = 0;
};
struct DESTROY_CLIENTID4res {
  nfsstat4 dcr_status = NFS4_OK;
};

// ---- FREE_STATEID (18.38), TEST_STATEID (18.48) ----
struct FREE_STATEID4args {
  stateid4 fsa_stateid{};
};
struct FREE_STATEID4res {
  nfsstat4 fsr_status = NFS4_OK;
};
struct TEST_STATEID4args {
  xdr::Array<stateid4, kTestStateidMax> ts_stateids{};
};
struct TEST_STATEID4resok {
  xdr::Array<nfsstat4, kTestStateidMax> tsr_status_codes{};
};
using TEST_STATEID4res = ok_or_status<TEST_STATEID4resok>;

// ---- SECINFO (18.29), SECINFO_NO_NAME (18.45), which has its result ----
struct SECINFO4args {
  component4 name{};
};
struct rpcsec_gss_info {
  sec_oid4 oid{};
  qop4 qop = 0;
  rpc_gss_svc_t service = RPC_GSS_SVC_NONE;
};
using secinfo4 =
    xdr::Union<std::uint32_t, xdr::On<kAuthNone>, xdr::On<kRpcsecGss, rpcsec_gss_info>, xdr::Otherwise<>>;
using SECINFO4resok = xdr::Array<secinfo4, kSecinfoMax>;
using SECINFO4res = ok_or_status<SECINFO4resok>;

enum secinfo_style4 : std::uint32_t { SECINFO_STYLE4_CURRENT_FH = 0, SECINFO_STYLE4_PARENT = 1 };
using SECINFO_NO_NAME4args = secinfo_style4;
using SECINFO_NO_NAME4res = SECINFO4res;

// ---- SEQUENCE (18.46) ----
struct SEQUENCE4args {
  sessionid4 sa_sessionid{};
  sequenceid4 sa_sequenceid = 0;
  slotid4 sa_slotid = 0;
  slotid4 sa_highest_slotid = 0;
  bool sa_cachethis = false;
};

inline constexpr std::uint32_t SEQ4_STATUS_CB_PATH_DOWN = 0x00000001;
inline constexpr std::uint32_t SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING = 0x00000002;
inline constexpr std::uint32_t SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED = 0x00000004;
inline constexpr std::uint32_t SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED = 0x00000008;
inline constexpr std::uint32_t SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED = 0x00000010;
inline constexpr std::uint32_t SEQ4_STATUS_ADMIN_STATE_REVOKED = 0x00000020;
inline constexpr std::uint32_t SEQ4_STATUS_RECALLABLE_STATE_REVOKED = 0x00000040;
inline constexpr std::uint32_t SEQ4_STATUS_LEASE_MOVED = 0x00000080;
inline constexpr std::uint32_t SEQ4_STATUS_RESTART_RECLAIM_NEEDED = 0x00000100;
inline constexpr std::uint32_t SEQ4_STATUS_CB_PATH_DOWN_SESSION = 0x00000200;
inline constexpr std::uint32_t SEQ4_STATUS_BACKCHANNEL_FAULT = 0x00000400;
inline constexpr std::uint32_t SEQ4_STATUS_DEVID_CHANGED = 0x00000800;
inline constexpr std::uint32_t SEQ4_STATUS_DEVID_DELETED = 0x00001000;

struct SEQUENCE4resok {
  sessionid4 sr_sessionid{};
  sequenceid4 sr_sequenceid = 0;
  slotid4 sr_slotid = 0;
  slotid4 sr_highest_slotid = 0;
  slotid4 sr_target_highest_slotid = 0;
  std::uint32_t sr_status_flags = 0;
};
using SEQUENCE4res = ok_or_status<SEQUENCE4resok>;

// ---- RECLAIM_COMPLETE (18.51) ----
struct RECLAIM_COMPLETE4args {
  bool rca_one_fs = false;
};
struct RECLAIM_COMPLETE4res {
  nfsstat4 rcr_status = NFS4_OK;
};

}  // namespace nfsrdma::nfs4
