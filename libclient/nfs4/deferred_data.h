// Data whose close(2) returned before the server had it (engine/writers.h), and what gives this client the right to send
// it (RFC 8881 10.4.1): the file's write delegation.
//
// A descriptor that is still open keeps its data across the loss of all state: the file is opened again and the data is
// sent under the new open. Not so data behind close(2). Once its delegation is lost another client may have written the
// file and closed it, so the data must never reach the server after that. The server judges: WRITE, and the rewrite of
// what a restart cost the server, carry the delegation's stateid and no other. If the server refuses that stateid the data
// is discarded, and its error is reported as that of a late write. Only a restart of the server replaces the stateid
// (reclaimed()): within the grace period nobody else can have changed the file.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>

#include "nfs4/types/ops.h"
#include "writing/uncommitted.h"

namespace nfsrdma::nfs4 {

/// The stateid under which data behind close(2) is sent.
struct DataPermit {
  stateid4 stateid{};
  std::uint64_t epoch = 0;  // of the client id that it belongs to
  bool reported = false;    // that data was discarded with it
};

/// The open(2) that data was written through, up to its next close(2) that is deferred.
struct DataOrigin final : writing::Origin {
  std::shared_ptr<DataPermit> permit;  ///< null: no close(2) that returned early has followed
};

/// The permit of one file (file_record.h), as long as there is data that depends on it.
class DeferredData {
 public:
  /// Data of the file belongs to the delegation with this stateid from now on.
  std::shared_ptr<DataPermit> permit_of(const stateid4& delegation, std::uint64_t epoch) {
    auto out = permit_.lock();
    if (out && out->stateid.other == delegation.other) return out;
    out = std::make_shared<DataPermit>(DataPermit{delegation, epoch});
    permit_ = out;
    return out;
  }
  /// The server has reclaimed an open of the file after a restart, with this stateid, under the client id of `epoch`.
  /// `delegation`: the stateid is that of a write delegation, which is preferred to an open's.
  void reclaimed(const stateid4& stateid, bool delegation, std::uint64_t epoch) {
    const auto known = permit_.lock();
    if (!known || (known->epoch == epoch && !delegation)) return;
    known->stateid = stateid;
    known->epoch = epoch;
  }
  /// The delegation has been returned or revoked: a later reclaim of the file does not renew what depends on it.
  void ended(const stateid4& delegation) {
    const auto known = permit_.lock();
    if (known && known->stateid.other == delegation.other) permit_.reset();
  }

 private:
  std::weak_ptr<DataPermit> permit_;
};

}  // namespace nfsrdma::nfs4
