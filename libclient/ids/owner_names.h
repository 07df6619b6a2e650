// Names for numbers: the owner as text, for servers that take no numbers, as is the case with Kerberos (RFC
// 8881 5.9).
//
// Confined to the loop's thread.
#pragma once

#include <optional>
#include <string>

#include "async/loop.h"
#include "async/task.h"
#include "nfsrdma/types.h"

namespace nfsrdma::ids {

/// Texts of the form name@domain, with this machine's names and its domain.
struct OwnerNames {
  std::optional<std::string> user, group;
};

/// Looks up the names of the owner and the group that are to be set. Returns no value if one of them has no
/// name here, or none in time. A few look-ups run at once, on threads in the background. A look-up that a
/// hanging name service does not answer keeps its place among them.
async::Task<std::optional<OwnerNames>> owner_names(async::Loop& loop, SetAttributes changes,
                                                   async::TimePoint deadline);

}  // namespace nfsrdma::ids
