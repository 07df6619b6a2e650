// Converts NLM's types between versions. This project's code uses the types of version 4; these functions
// make those of versions 1 and 3 from them, and back. Offsets of versions 1 and 3 have 32 bits, which servers
// treat as signed.
//
// Pure functions; for use from any thread.
#pragma once

#include "aux/programs.h"

namespace nfsrdma::aux {

/// The highest offset at which a range of versions 1 and 3 may begin.
inline constexpr std::uint64_t kNarrowOffsets = 0x7fffffff;

/// A range that ends beyond kNarrowOffsets becomes one that reaches to the end of the file.
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
