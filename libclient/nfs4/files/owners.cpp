#include "nfs4/files/owners.h"

#include <utility>

namespace nfsrdma::nfs4 {

async::Task<bool> wants_names(ClientLease& session, Error refused, const SetAttributes& changes,
                              ids::OwnerNames& names) {
  const bool is_number = (changes.uid || changes.gid) && !names.user && !names.group;
  const bool is_owner = refused.kind() == ErrorKind::server && refused.status() == NFS4ERR_BADOWNER;
  if (!is_number || !is_owner) co_return false;
  auto found = co_await ids::owner_names(session.loop(), changes, session.default_deadline());
  if (found) names = std::move(*found);
  co_return found.has_value();
}

}  // namespace nfsrdma::nfs4
