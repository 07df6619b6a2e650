// The callback program: requests of the server to the client (RFC 8881 19 and 20, RFC 7862 16; XDR in RFC
// 5662 and 7863). CallbackService (nfs4/compound/callback.h) answers them.
//
// The caps bound the decoder only, and are above what a Call within the inline threshold can carry. The
// contents of a notification (notify_vals) stay opaque: they are for holders of directory delegations and
// layouts.
#pragma once

#include <array>
#include <string_view>
#include <tuple>

#include "wire/nfs4/types.h"

namespace nfsrdma::nfs4 {

/// The program number that the XDR suggests. A client announces its own number in csa_cb_program.
inline constexpr std::uint32_t NFS4_CALLBACK = 0x40000000;
/// The version in the XDR. RFC 8881 18.36.3 says 4 instead; servers are known to use 1.
inline constexpr std::uint32_t NFS_CB = 1;
inline constexpr std::uint32_t CB_NULL = 0;
inline constexpr std::uint32_t CB_COMPOUND = 1;

/// Octets of a CB_COMPOUND's tag. The server chooses the tag, and the answer returns it.
inline constexpr std::uint64_t kCallbackTagMax = NFS4_OPAQUE_LIMIT;
inline constexpr std::uint64_t kReferringListsMax = 256;
inline constexpr std::uint64_t kReferringCallsMax = 1024;
/// Number of notifications in one operation, and octets of one of them.
inline constexpr std::uint64_t kNotifyChangesMax = 256;
inline constexpr std::uint64_t kNotifyValsMax = 65536;

enum nfs_cb_opnum4 : std::uint32_t {
  OP_CB_GETATTR = 3,
  OP_CB_RECALL = 4,
  OP_CB_LAYOUTRECALL = 5,
  OP_CB_NOTIFY = 6,
  OP_CB_PUSH_DELEG = 7,
  OP_CB_RECALL_ANY = 8,
  OP_CB_RECALLABLE_OBJ_AVAIL = 9,
  OP_CB_RECALL_SLOT = 10,
  OP_CB_SEQUENCE = 11,
  OP_CB_WANTS_CANCELLED = 12,
  OP_CB_NOTIFY_LOCK = 13,
  OP_CB_NOTIFY_DEVICEID = 14,
  OP_CB_OFFLOAD = 15,
  OP_CB_ILLEGAL = 10044,
};

// ---- CB_COMPOUND (19.2): the heads, as in types.h ----
using cb_tag4 = xdr::String<kCallbackTagMax>;
struct CB_COMPOUND4args_head {
  cb_tag4 tag{};
  std::uint32_t minorversion = 0;
  std::uint32_t callback_ident = 0;  ///< NFSv4.0 only; not used from 4.1 on
  std::uint32_t argarray_count = 0;
};
struct CB_COMPOUND4res_head {
  nfsstat4 status = NFS4_OK;
  cb_tag4 tag{};
  std::uint32_t resarray_count = 0;
};

// ---- CB_GETATTR (20.1) ----
struct CB_GETATTR4args {
  nfs_fh4 fh{};
  bitmap4 attr_request{};
};
struct CB_GETATTR4resok {
  fattr4 obj_attributes{};
};
using CB_GETATTR4res = ok_or_status<CB_GETATTR4resok>;

// ---- CB_RECALL (20.2) ----
struct CB_RECALL4args {
  stateid4 stateid{};
  bool truncate = false;
  nfs_fh4 fh{};
};
struct CB_RECALL4res {
  nfsstat4 status = NFS4_OK;
};

// ---- CB_LAYOUTRECALL (20.3) ----
enum layouttype4 : std::uint32_t {
  LAYOUT4_NFSV4_1_FILES = 1,
  LAYOUT4_OSD2_OBJECTS = 2,
  LAYOUT4_BLOCK_VOLUME = 3,
  LAYOUT4_FLEX_FILES = 4,  ///< RFC 8435
};
enum layoutiomode4 : std::uint32_t { LAYOUTIOMODE4_READ = 1, LAYOUTIOMODE4_RW = 2, LAYOUTIOMODE4_ANY = 3 };
enum layoutrecall_type4 : std::uint32_t {
  LAYOUTRECALL4_FILE = 1,
  LAYOUTRECALL4_FSID = 2,
  LAYOUTRECALL4_ALL = 3,
};
struct layoutrecall_file4 {
  nfs_fh4 lor_fh{};
  offset4 lor_offset = 0;
  length4 lor_length = 0;
  stateid4 lor_stateid{};
};
using layoutrecall4 = xdr::Union<layoutrecall_type4, xdr::On<LAYOUTRECALL4_FILE, layoutrecall_file4>,
                                 xdr::On<LAYOUTRECALL4_FSID, fsid4>, xdr::On<LAYOUTRECALL4_ALL>>;
struct CB_LAYOUTRECALL4args {
  layouttype4 clora_type = LAYOUT4_NFSV4_1_FILES;
  layoutiomode4 clora_iomode = LAYOUTIOMODE4_READ;
  bool clora_changed = false;
  layoutrecall4 clora_recall{};
};
struct CB_LAYOUTRECALL4res {
  nfsstat4 clorr_status = NFS4_OK;
};

// ---- CB_NOTIFY (20.4) ----
struct notify4 {
  bitmap4 notify_mask{};
  xdr::Opaque<kNotifyValsMax> notify_vals{};
};
struct CB_NOTIFY4args {
  stateid4 cna_stateid{};
  nfs_fh4 cna_fh{};
  xdr::Array<notify4, kNotifyChangesMax> cna_changes{};
};
struct CB_NOTIFY4res {
  nfsstat4 cnr_status = NFS4_OK;
};

// ---- CB_PUSH_DELEG (20.5) ----
struct CB_PUSH_DELEG4args {
  nfs_fh4 cpda_fh{};
  open_delegation4 cpda_delegation{};
};
struct CB_PUSH_DELEG4res {
  nfsstat4 cpdr_status = NFS4_OK;
};

// ---- CB_RECALL_ANY (20.6), CB_RECALLABLE_OBJ_AVAIL (20.7) ----
/// Bits of craa_type_mask.
inline constexpr std::uint32_t RCA4_TYPE_MASK_RDATA_DLG = 0;
inline constexpr std::uint32_t RCA4_TYPE_MASK_WDATA_DLG = 1;
inline constexpr std::uint32_t RCA4_TYPE_MASK_DIR_DLG = 2;
inline constexpr std::uint32_t RCA4_TYPE_MASK_FILE_LAYOUT = 3;
inline constexpr std::uint32_t RCA4_TYPE_MASK_BLK_LAYOUT = 4;
inline constexpr std::uint32_t RCA4_TYPE_MASK_OBJ_LAYOUT_MIN = 8;
inline constexpr std::uint32_t RCA4_TYPE_MASK_OBJ_LAYOUT_MAX = 9;
inline constexpr std::uint32_t RCA4_TYPE_MASK_OTHER_LAYOUT_MIN = 12;
inline constexpr std::uint32_t RCA4_TYPE_MASK_OTHER_LAYOUT_MAX = 15;
/// Bits of RFC 8435 12.
inline constexpr std::uint32_t RCA4_TYPE_MASK_FF_LAYOUT_MIN = 16;
inline constexpr std::uint32_t RCA4_TYPE_MASK_FF_LAYOUT_MAX = 17;

struct CB_RECALL_ANY4args {
  std::uint32_t craa_objects_to_keep = 0;
  bitmap4 craa_type_mask{};
};
struct CB_RECALL_ANY4res {
  nfsstat4 crar_status = NFS4_OK;
};
using CB_RECALLABLE_OBJ_AVAIL4args = CB_RECALL_ANY4args;
struct CB_RECALLABLE_OBJ_AVAIL4res {
  nfsstat4 croa_status = NFS4_OK;
};

// ---- CB_RECALL_SLOT (20.8) ----
struct CB_RECALL_SLOT4args {
  slotid4 rsa_target_highest_slotid = 0;
};
struct CB_RECALL_SLOT4res {
  nfsstat4 rsr_status = NFS4_OK;
};

// ---- CB_SEQUENCE (20.9) ----
struct referring_call4 {
  sequenceid4 rc_sequenceid = 0;
  slotid4 rc_slotid = 0;
};
struct referring_call_list4 {
  sessionid4 rcl_sessionid{};
  xdr::Array<referring_call4, kReferringCallsMax> rcl_referring_calls{};
};
struct CB_SEQUENCE4args {
  sessionid4 csa_sessionid{};
  sequenceid4 csa_sequenceid = 0;
  slotid4 csa_slotid = 0;
  slotid4 csa_highest_slotid = 0;
  bool csa_cachethis = false;
  xdr::Array<referring_call_list4, kReferringListsMax> csa_referring_call_lists{};
};
struct CB_SEQUENCE4resok {
  sessionid4 csr_sessionid{};
  sequenceid4 csr_sequenceid = 0;
  slotid4 csr_slotid = 0;
  slotid4 csr_highest_slotid = 0;
  slotid4 csr_target_highest_slotid = 0;
};
using CB_SEQUENCE4res = ok_or_status<CB_SEQUENCE4resok>;

// ---- CB_WANTS_CANCELLED (20.10) ----
struct CB_WANTS_CANCELLED4args {
  bool cwca_contended_wants_cancelled = false;
  bool cwca_resourced_wants_cancelled = false;
};
struct CB_WANTS_CANCELLED4res {
  nfsstat4 cwcr_status = NFS4_OK;
};

// ---- CB_NOTIFY_LOCK (20.11) ----
struct CB_NOTIFY_LOCK4args {
  nfs_fh4 cnla_fh{};
  lock_owner4 cnla_lock_owner{};
};
struct CB_NOTIFY_LOCK4res {
  nfsstat4 cnlr_status = NFS4_OK;
};

// ---- CB_NOTIFY_DEVICEID (20.12) ----
struct CB_NOTIFY_DEVICEID4args {
  xdr::Array<notify4, kNotifyChangesMax> cnda_changes{};
};
struct CB_NOTIFY_DEVICEID4res {
  nfsstat4 cndr_status = NFS4_OK;
};

// ---- CB_OFFLOAD (RFC 7862 16.1) ----
using offload_info4 = xdr::Union<nfsstat4, xdr::On<NFS4_OK, write_response4>, xdr::Otherwise<length4>>;
struct CB_OFFLOAD4args {
  nfs_fh4 coa_fh{};
  stateid4 coa_stateid{};
  offload_info4 coa_offload_info{};
};
struct CB_OFFLOAD4res {
  nfsstat4 cor_status = NFS4_OK;
};

// ---- CB_ILLEGAL (20.13): has no arguments ----
struct CB_ILLEGAL4res {
  nfsstat4 status = NFS4_OK;
};

namespace cb_op {

template <nfs_cb_opnum4 Number, class ArgsType, class ResType, std::uint8_t FirstMinor = 1>
struct Base {
  using Args = ArgsType;
  using Res = ResType;
  static constexpr nfs_cb_opnum4 number = Number;
  static constexpr std::uint8_t first_minor = FirstMinor;
};

// clang-format off
struct CB_GETATTR : Base<OP_CB_GETATTR, CB_GETATTR4args, CB_GETATTR4res, 0> { static constexpr const char* name = "CB_GETATTR"; };
struct CB_RECALL : Base<OP_CB_RECALL, CB_RECALL4args, CB_RECALL4res, 0> { static constexpr const char* name = "CB_RECALL"; };
struct CB_LAYOUTRECALL : Base<OP_CB_LAYOUTRECALL, CB_LAYOUTRECALL4args, CB_LAYOUTRECALL4res> { static constexpr const char* name = "CB_LAYOUTRECALL"; };
struct CB_NOTIFY : Base<OP_CB_NOTIFY, CB_NOTIFY4args, CB_NOTIFY4res> { static constexpr const char* name = "CB_NOTIFY"; };
struct CB_PUSH_DELEG : Base<OP_CB_PUSH_DELEG, CB_PUSH_DELEG4args, CB_PUSH_DELEG4res> { static constexpr const char* name = "CB_PUSH_DELEG"; };
struct CB_RECALL_ANY : Base<OP_CB_RECALL_ANY, CB_RECALL_ANY4args, CB_RECALL_ANY4res> { static constexpr const char* name = "CB_RECALL_ANY"; };
struct CB_RECALLABLE_OBJ_AVAIL : Base<OP_CB_RECALLABLE_OBJ_AVAIL, CB_RECALLABLE_OBJ_AVAIL4args, CB_RECALLABLE_OBJ_AVAIL4res> { static constexpr const char* name = "CB_RECALLABLE_OBJ_AVAIL"; };
struct CB_RECALL_SLOT : Base<OP_CB_RECALL_SLOT, CB_RECALL_SLOT4args, CB_RECALL_SLOT4res> { static constexpr const char* name = "CB_RECALL_SLOT"; };
struct CB_SEQUENCE : Base<OP_CB_SEQUENCE, CB_SEQUENCE4args, CB_SEQUENCE4res> { static constexpr const char* name = "CB_SEQUENCE"; };
struct CB_WANTS_CANCELLED : Base<OP_CB_WANTS_CANCELLED, CB_WANTS_CANCELLED4args, CB_WANTS_CANCELLED4res> { static constexpr const char* name = "CB_WANTS_CANCELLED"; };
struct CB_NOTIFY_LOCK : Base<OP_CB_NOTIFY_LOCK, CB_NOTIFY_LOCK4args, CB_NOTIFY_LOCK4res> { static constexpr const char* name = "CB_NOTIFY_LOCK"; };
struct CB_NOTIFY_DEVICEID : Base<OP_CB_NOTIFY_DEVICEID, CB_NOTIFY_DEVICEID4args, CB_NOTIFY_DEVICEID4res> { static constexpr const char* name = "CB_NOTIFY_DEVICEID"; };
struct CB_OFFLOAD : Base<OP_CB_OFFLOAD, CB_OFFLOAD4args, CB_OFFLOAD4res, 2> { static constexpr const char* name = "CB_OFFLOAD"; };
// clang-format on

/// Every operation, in the order of their numbers, which start at 3 and have no gaps.
using All = std::tuple<CB_GETATTR, CB_RECALL, CB_LAYOUTRECALL, CB_NOTIFY, CB_PUSH_DELEG, CB_RECALL_ANY,
                       CB_RECALLABLE_OBJ_AVAIL, CB_RECALL_SLOT, CB_SEQUENCE, CB_WANTS_CANCELLED,
                       CB_NOTIFY_LOCK, CB_NOTIFY_DEVICEID, CB_OFFLOAD>;

}  // namespace cb_op

}  // namespace nfsrdma::nfs4
