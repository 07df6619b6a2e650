// How opens and locks are asked for that the server does not have any more (RFC 8881 8.4.2, 9.11).
#pragma once

#include <utility>

#include "nfs4/calls.h"

namespace nfsrdma::nfs4 {

enum class Claim : std::uint8_t {
  reclaim,  ///< by recovery, in the server's grace period: nobody else can have had it in between
  anew,     ///< on behalf of a call that found it gone: somebody else may have had it in between
};

inline async::Task<Result<CompoundReply>> call_for(Claim how, Calls& calls, Compound compound,
                                                   async::TimePoint deadline) {
  return how == Claim::reclaim ? calls.call_in_recovery(std::move(compound), deadline)
                               : calls.call(std::move(compound), deadline);
}

}  // namespace nfsrdma::nfs4
