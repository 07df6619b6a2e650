// The name by which a mount identifies itself to its server (co_ownerid, RFC 8881 2.4).
//
// Rules:
// - A mount of the same directory of the same server at the same place on the same machine has the same name
//   each time, also after its process was killed. The server then drops the state of the old instance (opens,
//   locks) as soon as the new one presents another verifier, and no client has to wait for a lease to expire.
// - Two mounts that exist at the same time never share a name, because each would take the other one's state
//   away.
//
// The name is made of the machine (machine-id, host name), its network namespace, the user, the source and
// the mount point. A mount claims the name that it uses. Another mount in this network namespace that would
// get this name (because it has the same mount point, or an equal one in another mount namespace) finds the
// name claimed and takes the next number. The kernel ends a claim when the process ends, however that
// happens. A claim consists of two things:
// - A locked file (flock(2)) in a directory that only this user can write to. So no other user can take the
//   name away and leave the old instance's locks to the lease. The directory depends on the environment, and
//   may be removed when its user logs out.
// - For that reason also an abstract socket with the claimed name. Every user can bind such a socket, so it
//   counts as a claim only if a process of this user listens at it. If there is no directory, any bound
//   socket counts.
//
// Two cases remain. Machines with equal machine-ids and host names (clones) must be distinguished by the
// user, with clientid=. A container that is started again has another network namespace, and so another name,
// unless clientid= identifies it.
#pragma once

#include <string>

#include "fuse/mount_options.h"

namespace nfsrdma::fuse {

struct ClientIdentity {
  std::string machine;  ///< identifies this machine or container
  std::string host;     ///< host name, for people who read the server's list of clients
  /// User, groups and security flavors that the client acts with. While there is state, servers refuse the
  /// same name from another user (NFS4ERR_CLID_INUSE, RFC 8881 18.35.4), and Linux compares the groups, too.
  std::string user;
  std::string source, mountpoint;
};

ClientIdentity identity_of(const MountOptions& options);
/// Returns the co_ownerid. `number` distinguishes mounts whose identities are equal.
std::string client_name(const ClientIdentity& identity, unsigned number);

/// Returns the directory where the mounts of this user record which locks they may hold (aux/lock_records.h).
/// It is below /var/lib for root. Returns an empty string if the user has no place for such records.
std::string lock_records_directory();

/// Returns the directory of this user's claims: below /run for root, else below $XDG_RUNTIME_DIR or
/// /run/user, else in /tmp.
std::string claims_directory();

/// A name that no other mount in this network namespace has while this object lives.
class ClientName {
 public:
  /// `directory` is created if it is missing, and not used if other users can write to it.
  explicit ClientName(const ClientIdentity& identity, const std::string& directory = claims_directory());
  ~ClientName();
  ClientName(const ClientName&) = delete;
  ClientName& operator=(const ClientName&) = delete;
  /// Returns the name, or an empty string if neither file nor socket could be had. Without a name the mount
  /// is a client of its own, which is always right, but the server does not recognize it after a restart
  /// (connect::Surroundings::owner_id).
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  bool claim(const std::string& text);

  std::string text_, file_name_;
  int directory_ = -1, file_ = -1, socket_ = -1;
};

}  // namespace nfsrdma::fuse
