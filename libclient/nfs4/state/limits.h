// Facts that a server reports of itself as a whole: its lease time, and the most that it takes
// in one READ and WRITE. They are asked for by fetch_limits(), or in a COMPOUND with something else:
//
//     add_limits(compound);
//     ...
//     auto taken = take_limits(*reply, calls.server(), facts);
#pragma once

#include "nfs4/compound/call_layer.h"

namespace nfsrdma::nfs4 {

/// Adds PUTROOTFH, and the GETATTR that asks for the limits.
void add_limits(Compound& compound);
/// Takes the results of these two into `facts`. Returns false if the server has refused one of them.
Result<bool> take_limits(CompoundReply& reply, const std::string& server, SessionFacts& facts);
/// Fetches the limits by CallLayer::call_in_recovery(). `facts` must outlive the task.
async::Task<Status> fetch_limits(CallLayer& calls, SessionFacts& facts, async::TimePoint deadline);

}  // namespace nfsrdma::nfs4
