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
#include <map>
#include <memory>
#include <string>

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

class DeferredData {
 public:
  /// Data of the file belongs to the delegation with this stateid from now on.
  std::shared_ptr<DataPermit> permit_of(const nfs_fh4& file, const stateid4& delegation,
                                        std::uint64_t epoch) {
    std::erase_if(all_, [](const auto& one) { return one.second.expired(); });
    auto& known = all_[std::string(file.chars())];
    auto out = known.lock();
    if (out && out->stateid.other == delegation.other) return out;
    out = std::make_shared<DataPermit>(DataPermit{delegation, epoch});
    known = out;
    return out;
  }
  /// The server has reclaimed an open of the file after a restart, with this stateid, under the client id of `epoch`.
  /// `delegation`: the stateid is that of a write delegation, which is preferred to an open's.
  void reclaimed(const nfs_fh4& file, const stateid4& stateid, bool delegation, std::uint64_t epoch) {
    const auto known = find(file);
    if (!known || (known->epoch == epoch && !delegation)) return;
    known->stateid = stateid;
    known->epoch = epoch;
  }
  /// The delegation has been returned or revoked: a later reclaim of the file does not renew what depends on it.
  void ended(const nfs_fh4& file, const stateid4& delegation) {
    const auto known = find(file);
    if (known && known->stateid.other == delegation.other) all_.erase(std::string(file.chars()));
  }

 private:
  [[nodiscard]] std::shared_ptr<DataPermit> find(const nfs_fh4& file) const {
    if (all_.empty()) return nullptr;
    const auto found = all_.find(std::string(file.chars()));
    return found != all_.end() ? found->second.lock() : nullptr;
  }

  std::map<std::string, std::weak_ptr<DataPermit>> all_;  // by file handle
};

}  // namespace nfsrdma::nfs4
