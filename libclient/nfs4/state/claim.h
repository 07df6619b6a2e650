// Requests for opens and locks that the server no longer has (RFC 8881 8.4.2, 9.11).
#pragma once

#include <utility>

#include "nfs4/compound/call_layer.h"

namespace nfsrdma::nfs4 {

enum class Claim : std::uint8_t {
  /// Made by recovery, in the server's grace period: no other client can have had the state in between.
  reclaim,
  /// Made for a call that found the state gone: another client may have had it in between.
  anew,
};

inline async::Task<Result<CompoundReply>> call_for(Claim how, CallLayer& calls, Compound compound,
                                                   async::TimePoint deadline) {
  return how == Claim::reclaim ? calls.call_in_recovery(std::move(compound), deadline)
                               : calls.call(std::move(compound), deadline);
}

}  // namespace nfsrdma::nfs4
