#include "nfs4/compound/call_layer.h"

#include <cerrno>

#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {

CallLayer::~CallLayer() = default;

async::Task<Status> CallLayer::settle_owner(CompoundReply& /*reply*/, OPEN4resok& /*ok*/, nfs_fh4 /*file*/,
                                            Caller /*caller*/) {
  co_return Status();
}

async::Task<Status> CallLayer::cross_root(async::TimePoint /*deadline*/) {
  co_return status_error(NFS4ERR_WRONGSEC, "GETATTR", server());
}

Error CallLayer::error_of(const CompoundReply& reply, const char* what, const std::string& path) const {
  if (reply.failed_status() != NFS4_OK) return status_error(reply.failed_status(), what, path);
  return {ErrorKind::protocol, EPROTO, what, path,
          std::string("the server's answer cannot be decoded (") + xdr::to_string(reply.fault()) +
              "); please report this with a capture of the traffic"};
}

bool CallLayer::is_lost_state(nfsstat4 status) {
  // A server that has lost a client id has lost its state, too.
  return retry_of(status) == Retry::with_new_state || status == NFS4ERR_STALE_CLIENTID;
}

bool CallLayer::is_revoked(nfsstat4 status) {
  return status == NFS4ERR_EXPIRED || status == NFS4ERR_ADMIN_REVOKED || status == NFS4ERR_DELEG_REVOKED;
}

bool CallLayer::is_lost_session(nfsstat4 status) {
  return retry_of(status) == Retry::with_new_session;
}

bool CallLayer::is_handed_back(const Error& error) {
  return error.kind() == ErrorKind::cancelled && error.errno_value() == ECANCELED;
}

}  // namespace nfsrdma::nfs4
