// Data whose close(2) returned before the server had it (engine/write_back_owner.h), and the right of this
// client to send it (RFC 8881 10.4.1), which is the file's write delegation.
//
// A descriptor that is still open keeps its data across the loss of all state: this client opens the file
// again, and sends the data under the new open. For data behind close(2) this is not allowed. Once its
// delegation is lost, another client may have written the file and closed it, so the data must never reach
// the server after that.
//
// The server is the judge. A WRITE of such data carries the delegation's stateid and no other, also when it
// repeats what a restart has cost the server. If the server refuses that stateid, the data is discarded, and
// the error is reported as that of a late write. Only a restart of the server replaces the stateid
// (reclaimed()), because no other client can have changed the file within the grace period.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>

#include "wire/nfs4/ops.h"
#include "writing/uncommitted.h"

namespace nfsrdma::nfs4 {

/// The stateid under which data behind close(2) is sent.
struct DataPermit {
  stateid4 stateid{};
  std::uint64_t epoch = 0;  // of the client id that the stateid belongs to
  bool reported = false;    // the user knows that data was discarded with it
};

/// Times that the server is to set by the COMPOUND of a WRITE, behind it.
struct TimesBehind {
  fattr4 values;
  bool are_set = false;  ///< the server set them in the COMPOUND of the latest WRITE
};

/// The open(2) that data was written through, up to the next close(2) that is deferred.
struct DataOrigin final : writing::Origin {
  std::shared_ptr<DataPermit> permit;  ///< null until a close(2) returns early
  /// Non-null while write_and_set_times() runs. If the data is lost and written again later, a program may have set other
  /// times.
  std::shared_ptr<TimesBehind> times;
};

/// The permit of one file (file_record.h), which exists as long as there is data that depends on it.
class DeferredData {
 public:
  /// Returns the permit for data that belongs from now on to the delegation with this stateid.
  std::shared_ptr<DataPermit> permit_of(const stateid4& delegation, std::uint64_t epoch) {
    auto out = permit_.lock();
    if (out && out->stateid.other == delegation.other) return out;
    out = std::make_shared<DataPermit>(DataPermit{delegation, epoch});
    permit_ = out;
    return out;
  }
  /// Called when an open of the file has been reclaimed after a restart of the server, under the client id of
  /// `epoch`. `delegation`: the stateid is that of a write delegation, which is preferred to an open's.
  void reclaimed(const stateid4& stateid, bool delegation, std::uint64_t epoch) {
    const auto known = permit_.lock();
    if (!known || (known->epoch == epoch && !delegation)) return;
    known->stateid = stateid;
    known->epoch = epoch;
  }
  /// Called when the delegation has been returned or revoked: a later reclaim of the file does not
  /// renew the data's permit.
  void ended(const stateid4& delegation) {
    const auto known = permit_.lock();
    if (known && known->stateid.other == delegation.other) permit_.reset();
  }

 private:
  std::weak_ptr<DataPermit> permit_;
};

}  // namespace nfsrdma::nfs4
