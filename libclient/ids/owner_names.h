// Names for numbers: what a server is told of an owner that takes no numbers, as those do with Kerberos (RFC 8881 5.9).
//
// Confined to the loop's thread.
#pragma once

#include <optional>
#include <string>

#include "async/loop.h"
#include "async/task.h"
#include "nfsrdma/client.h"

namespace nfsrdma::ids {

/// name@domain, with this machine's names and its domain.
struct OwnerNames {
  std::optional<std::string> user, group;
};

/// Of the owner and the group that are to be set. None: there is no name here for one of them, or none in time. A few
/// are looked up at once, by threads beside the loop; what a name service that hangs keeps counts among them.
async::Task<std::optional<OwnerNames>> owner_names(async::Loop& loop, SetAttributes changes,
                                                   async::TimePoint deadline);

}  // namespace nfsrdma::ids
