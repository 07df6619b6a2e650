// NLM's types as its versions have them: this project's code has those of version 4, and these make those of 1 and 3
// of them and back. Offsets there are 32 bits, which servers take for signed ones.
//
// Pure functions; any thread.
#pragma once

#include "aux/programs.h"

namespace nfsrdma::aux {

/// What can be locked by version 1 and 3 begins here at the latest.
inline constexpr std::uint64_t kNarrowOffsets = 0x7fffffff;

/// What ends behind kNarrowOffsets ends with the file.
nlm_lock<std::uint32_t> narrow(const nlm4_lock& from);
nlm_testargs<std::uint32_t> narrow(const nlm4_testargs& from);
nlm_lockargs<std::uint32_t> narrow(const nlm4_lockargs& from);
nlm_cancargs<std::uint32_t> narrow(const nlm4_cancargs& from);
nlm_unlockargs<std::uint32_t> narrow(const nlm4_unlockargs& from);
inline nlm_res narrow(const nlm_res& from) {
  return from;
}

nlm4_testargs widen(const nlm_testargs<std::uint32_t>& from);
nlm4_testres widen(const nlm_testres<std::uint32_t>& from);
inline nlm_res widen(const nlm_res& from) {
  return from;
}
inline xdr::Void widen(const xdr::Void& from) {
  return from;
}

}  // namespace nfsrdma::aux
