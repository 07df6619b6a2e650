// By which name a mount is known to its server (co_ownerid, RFC 8881 2.4).
//
// The same machine that mounts the same directory of the same server in the same place is the same client,
// also after it was killed: the server drops what the old instance had (opens, locks) as soon as the new one
// comes with another verifier, and nobody waits for a lease. Two mounts that live may never share a name,
// since each would take the other's state away.
//
// The name is made of the machine (machine-id, host name), its network namespace, the user, what is
// mounted and where. A mount that uses a name claims it, so that another mount in this network namespace sees that the
// name is taken (the same mount point twice, or in two mount namespaces) and takes the next number. The kernel ends a
// claim when the process ends, however it does. A claim is two things:
// - a locked file (flock(2)) in a directory that only this user can write to, so that nobody else can take the name
//   away and leave the old instance's locks to the lease. The directory depends on the environment, and may be removed
//   when its user logs out;
// - so there is also an abstract socket that is called like the name. Everybody can bind such a socket: one counts if a
//   process of this user's listens at it, and any if there is no directory.
//
// What is left: machines with equal machine-ids *and* host names (clones) must be told apart by the user,
// with clientid=; and a container that is started again has another network namespace, and so another name,
// unless clientid= says who it is.
#pragma once

#include <string>

#include "fuse/options.h"

namespace nfsrdma::fuse {

struct ClientIdentity {
  std::string machine;  ///< whatever tells this machine, or container, from others
  std::string host;     ///< for people who look at the server's list of clients
  /// Whose rights count: while there is state, servers refuse the same name from somebody else
  /// (NFS4ERR_CLID_INUSE, RFC 8881 18.35.4), and Linux looks at the groups, too.
  std::string user;
  std::string source, mountpoint;
};

ClientIdentity identity_of(const MountOptions& options);
/// `number`: of the mounts that are the same in all that.
std::string client_name(const ClientIdentity& identity, unsigned number);

/// Where the mounts of this user say which locks they may hold (aux/lock_records.h), below /var/lib for root; empty: he
/// has no place for such things.
std::string lock_records_directory();

/// Where this user's claims are: below /run for root, else below $XDG_RUNTIME_DIR or /run/user, else in /tmp.
std::string claims_directory();

/// A name that no other mount in this network namespace has, for as long as it lives.
class ClientName {
 public:
  /// `directory`: is made if it is missing, and not used if others can write to it.
  explicit ClientName(const ClientIdentity& identity, const std::string& directory = claims_directory());
  ~ClientName();
  ClientName(const ClientName&) = delete;
  ClientName& operator=(const ClientName&) = delete;
  /// Empty where neither file nor socket is to be had: then the mount is a client like no other, which is always right,
  /// and only not known again (connect::Surroundings::owner_id).
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  bool claim(const std::string& text);

  std::string text_, file_name_;
  int directory_ = -1, file_ = -1, socket_ = -1;
};

}  // namespace nfsrdma::fuse
