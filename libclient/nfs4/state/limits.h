// Facts that a server reports of itself as a whole: its lease time, and the most that it takes
// in one READ and WRITE.
#pragma once

#include "nfs4/compound/call_layer.h"

namespace nfsrdma::nfs4 {

/// Fetches the limits by CallLayer::call_in_recovery(). `facts` must outlive the task.
async::Task<Status> fetch_limits(CallLayer& calls, SessionFacts& facts, async::TimePoint deadline);

}  // namespace nfsrdma::nfs4
