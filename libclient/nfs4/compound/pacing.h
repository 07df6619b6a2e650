// Pauses between the tries of a call that is made again, and the number of tries before the first pause.
#pragma once

#include "async/world.h"

namespace nfsrdma::nfs4 {

inline constexpr async::Clock::duration kFirstDelay = std::chrono::milliseconds(20);
inline constexpr async::Clock::duration kMostDelay = std::chrono::seconds(2);
/// Number of tries without a pause: in another slot or session, under another client id, or with another
/// seqid.
inline constexpr int kQuickTries = 4;

}  // namespace nfsrdma::nfs4
