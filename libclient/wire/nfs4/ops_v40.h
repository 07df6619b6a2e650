// Arguments and results of the operations that only NFSv4.0 has: client identifiers, and owners whose
// requests the server counts (RFC 7530 16.18, 16.30, 16.33, 16.34, 16.37).
#pragma once

#include "wire/nfs4/ops_file.h"

namespace nfsrdma::nfs4 {

// ---- OPEN_CONFIRM (16.18) ----
struct OPEN_CONFIRM4args {
  stateid4 open_stateid{};
  seqid4 seqid = 0;
};
struct OPEN_CONFIRM4resok {
  stateid4 open_stateid{};
};
using OPEN_CONFIRM4res = ok_or_status<OPEN_CONFIRM4resok>;

// ---- RENEW (16.30) ----
struct RENEW4args {
  clientid4 clientid = 0;
};
struct RENEW4res {
  nfsstat4 status = NFS4_OK;
};

// ---- SETCLIENTID (16.33) ----
struct nfs_client_id4 {
  verifier4 verifier{};
  xdr::Opaque<NFS4_OPAQUE_LIMIT> id{};
};
/// Address of the callbacks: a program, and its netid and universal address.
struct cb_client4 {
  std::uint32_t cb_program = 0;
  netaddr4 cb_location{};
};
struct SETCLIENTID4args {
  nfs_client_id4 client{};
  cb_client4 callback{};
  std::uint32_t callback_ident = 0;
};
struct SETCLIENTID4resok {
  clientid4 clientid = 0;
  verifier4 setclientid_confirm{};
};
/// With NFS4ERR_CLID_INUSE the result has the address of the other client that uses the name.
using SETCLIENTID4res = xdr::Union<nfsstat4, xdr::On<NFS4_OK, SETCLIENTID4resok>,
                                   xdr::On<NFS4ERR_CLID_INUSE, netaddr4>, xdr::Otherwise<>>;

// ---- SETCLIENTID_CONFIRM (16.34) ----
struct SETCLIENTID_CONFIRM4args {
  clientid4 clientid = 0;
  verifier4 setclientid_confirm{};
};
struct SETCLIENTID_CONFIRM4res {
  nfsstat4 status = NFS4_OK;
};

// ---- RELEASE_LOCKOWNER (16.37) ----
struct RELEASE_LOCKOWNER4args {
  lock_owner4 lock_owner{};
};
struct RELEASE_LOCKOWNER4res {
  nfsstat4 status = NFS4_OK;
};

}  // namespace nfsrdma::nfs4
