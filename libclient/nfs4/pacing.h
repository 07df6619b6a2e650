// How a call is made again: pauses between its tries, and how many there are before the first pause.
#pragma once

#include "async/world.h"

namespace nfsrdma::nfs4 {

inline constexpr async::Clock::duration kFirstDelay = std::chrono::milliseconds(20);
inline constexpr async::Clock::duration kMostDelay = std::chrono::seconds(2);
/// At once: in another slot or session, under another client id, or with another seqid.
inline constexpr int kQuickTries = 4;

}  // namespace nfsrdma::nfs4
