// The tasks that wait for a byte-range lock and that CB_NOTIFY_LOCK wakes (RFC 8881 20.11), and the names of
// lock owners on the wire.
//
//     const LockWaits::Guard guard(waits, file, owner, wait);    // from before the first LOCK on
//
// The server's call is a hint, and may come before the answer to the LOCK that was denied,
// so LockWait keeps it.
//
// Confined to the loop's thread. A Guard must not outlive its LockWaits, nor its LockWait.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "locking/lock_wait.h"
#include "wire/nfs4/types.h"

namespace nfsrdma::nfs4 {

using locking::LockWait;

/// Returns the name of a lock owner on the wire. Lock owners of this client are numbers (files/locks.h),
/// combined with the client id. In NFSv4.0, where the server counts the requests of each lock owner, an owner
/// needs a name of its own on each open file, and another one after it was given up: `unique` tells these
/// names apart. Behind it stands a generation (v40/owners.h), which is filled in when the request is sent.
lock_owner4 lock_owner_of(clientid4 client, std::uint64_t number, std::uint64_t unique = 0);
/// Returns the number of a lock owner of `client`; none if the owner belongs to another client.
std::optional<std::uint64_t> own_number(const lock_owner4& owner, clientid4 client);

class LockWaits {
 public:
  LockWaits() = default;
  LockWaits(const LockWaits&) = delete;
  LockWaits& operator=(const LockWaits&) = delete;

  /// While a Guard lives, CB_NOTIFY_LOCK for the file and the lock owner wakes `wait`.
  class Guard {
   public:
    Guard(LockWaits& all, const nfs_fh4& file, std::uint64_t owner, LockWait& wait);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    friend class LockWaits;
    LockWaits& all_;
    const nfs_fh4 file_;
    const std::uint64_t owner_;
    LockWait& wait_;
  };

  /// Acts on CB_NOTIFY_LOCK.
  void notify(const nfs_fh4& file, const lock_owner4& owner);

 private:
  std::vector<Guard*> guards_;
};

}  // namespace nfsrdma::nfs4
