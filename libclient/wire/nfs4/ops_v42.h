// Arguments and results of operations of NFSv4.2 (RFC 7862 15) and of extended attributes (RFC 8276 8.4).
#pragma once

#include "wire/nfs4/ops_file.h"

namespace nfsrdma::nfs4 {

// ---- ALLOCATE (15.1), DEALLOCATE (15.4) ----
struct ALLOCATE4args {
  stateid4 aa_stateid{};
  offset4 aa_offset = 0;
  length4 aa_length = 0;
};
struct ALLOCATE4res {
  nfsstat4 ar_status = NFS4_OK;
};
struct DEALLOCATE4args {
  stateid4 da_stateid{};
  offset4 da_offset = 0;
  length4 da_length = 0;
};
struct DEALLOCATE4res {
  nfsstat4 dr_status = NFS4_OK;
};

// ---- COPY (15.2): within one server when ca_source_server is empty ----
enum netloc_type4 : std::uint32_t { NL4_NAME = 1, NL4_URL = 2, NL4_NETADDR = 3 };
using netloc4 = xdr::Union<netloc_type4, xdr::On<NL4_NAME, label4>, xdr::On<NL4_URL, label4>,
                           xdr::On<NL4_NETADDR, netaddr4>>;

struct COPY4args {
  stateid4 ca_src_stateid{};
  stateid4 ca_dst_stateid{};
  offset4 ca_src_offset = 0;
  offset4 ca_dst_offset = 0;
  length4 ca_count = 0;
  bool ca_consecutive = false;
  bool ca_synchronous = false;
  xdr::Array<netloc4, kCopySourcesMax> ca_source_server{};
};
struct write_response4 {
  xdr::Array<stateid4, 1> wr_callback_id{};
  length4 wr_count = 0;
  stable_how4 wr_committed = UNSTABLE4;
  verifier4 wr_writeverf{};
};
struct copy_requirements4 {
  bool cr_consecutive = false;
  bool cr_synchronous = false;
};
struct COPY4resok {
  write_response4 cr_response{};
  copy_requirements4 cr_requirements{};
};
using COPY4res = xdr::Union<nfsstat4, xdr::On<NFS4_OK, COPY4resok>,
                            xdr::On<NFS4ERR_OFFLOAD_NO_REQS, copy_requirements4>, xdr::Otherwise<>>;

// ---- OFFLOAD_CANCEL (15.8), OFFLOAD_STATUS (15.9) ----
struct OFFLOAD_CANCEL4args {
  stateid4 oca_stateid{};
};
struct OFFLOAD_CANCEL4res {
  nfsstat4 ocr_status = NFS4_OK;
};
struct OFFLOAD_STATUS4args {
  stateid4 osa_stateid{};
};
struct OFFLOAD_STATUS4resok {
  length4 osr_count = 0;
  xdr::Array<nfsstat4, 1> osr_complete{};
};
using OFFLOAD_STATUS4res = ok_or_status<OFFLOAD_STATUS4resok>;

// ---- CLONE (15.13) ----
struct CLONE4args {
  stateid4 cl_src_stateid{};
  stateid4 cl_dst_stateid{};
  offset4 cl_src_offset = 0;
  offset4 cl_dst_offset = 0;
  length4 cl_count = 0;
};
struct CLONE4res {
  nfsstat4 cl_status = NFS4_OK;
};

// ---- READ_PLUS (15.10) ----
enum data_content4 : std::uint32_t { NFS4_CONTENT_DATA = 0, NFS4_CONTENT_HOLE = 1 };
/// DDP-eligible, but see Codec<read_plus_res4> below.
struct data4 {
  offset4 d_offset = 0;
  xdr::DdpOpaque<> d_data{};
};
struct data_info4 {
  offset4 di_offset = 0;
  length4 di_length = 0;
};
struct READ_PLUS4args {
  stateid4 rpa_stateid{};
  offset4 rpa_offset = 0;
  count4 rpa_count = 0;
};
using read_plus_content = xdr::Union<data_content4, xdr::On<NFS4_CONTENT_DATA, data4>,
                                     xdr::On<NFS4_CONTENT_HOLE, data_info4>, xdr::Otherwise<>>;
struct read_plus_res4 {
  bool rpr_eof = false;
  xdr::Array<read_plus_content, kReadPlusElements> rpr_contents{};
};
using READ_PLUS4res = ok_or_status<read_plus_res4>;

// ---- SEEK (15.11) ----
struct SEEK4args {
  stateid4 sa_stateid{};
  offset4 sa_offset = 0;
  data_content4 sa_what = NFS4_CONTENT_DATA;
};
struct seek_res4 {
  bool sr_eof = false;
  offset4 sr_offset = 0;
};
using SEEK4res = ok_or_status<seek_res4>;

// ---- extended attributes (RFC 8276 8.4) ----
using xattrkey4 = component4;
using xattrvalue4 = xdr::Opaque<kXattrValueMax>;

struct GETXATTR4args {
  xattrkey4 gxa_name{};
};
using GETXATTR4res = ok_or_status<xattrvalue4>;

enum setxattr_option4 : std::uint32_t { SETXATTR4_EITHER = 0, SETXATTR4_CREATE = 1, SETXATTR4_REPLACE = 2 };
struct SETXATTR4args {
  setxattr_option4 sxa_option = SETXATTR4_EITHER;
  xattrkey4 sxa_key{};
  xattrvalue4 sxa_value{};
};
using SETXATTR4res = ok_or_status<change_info4>;

struct LISTXATTRS4args {
  nfs_cookie4 lxa_cookie = 0;
  count4 lxa_maxcount = 0;
};
struct LISTXATTRS4resok {
  nfs_cookie4 lxr_cookie = 0;
  xdr::Array<xattrkey4, kXattrNamesMax> lxr_names{};
  bool lxr_eof = false;
};
using LISTXATTRS4res = ok_or_status<LISTXATTRS4resok>;

struct REMOVEXATTR4args {
  xattrkey4 rxa_name{};
};
using REMOVEXATTR4res = ok_or_status<change_info4>;

}  // namespace nfsrdma::nfs4

/// The codec of READ_PLUS, which has one Write chunk. The chunk belongs to the first element with data.
/// Another element's data stays in the stream, and a result without data leaves the chunk unused (RFC 8267
/// 4.1.1, 4.3).
template <>
struct nfsrdma::xdr::Codec<nfsrdma::nfs4::read_plus_res4> {
  using T = nfsrdma::nfs4::read_plus_res4;
  static void encode(Encoder& out, const T& value) {
    xdr::encode(out, value.rpr_eof);
    xdr::encode(out, value.rpr_contents);
  }
  static bool decode(Decoder& in, T& value) {
    in.begin_single_placement();
    return xdr::decode(in, value.rpr_eof) && xdr::decode(in, value.rpr_contents) && in.end_single_placement();
  }
  static std::uint64_t size(const T& value) { return 4 + encoded_size(value.rpr_contents); }
  static constexpr Bounds bounds() {
    constexpr Bounds contents = Codec<decltype(T::rpr_contents)>::bounds();
    // The data of one element may be reduced (moved to the chunk) while that of the second is in the stream.
    return exactly(4) + Bounds{contents.min, contents.max, contents.max, 1};
  }
};
