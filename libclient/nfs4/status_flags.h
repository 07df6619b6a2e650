// What the flags in the answers to SEQUENCE ask for (RFC 8881 18.46.3). Pure.
#pragma once

#include <cstdint>

namespace nfsrdma::nfs4 {

struct Reactions {
  bool mend_backchannel = false;  ///< it is announced anew on every connection
  bool new_session = false;       ///< in place of this one, whose backchannel is beyond help (a MUST)
  bool find_revoked = false;  ///< what was revoked is found by TEST_STATEID, freed, and reported where used
  bool recover = false;       ///< opens and locks are reclaimed, by a recovery of the session
  friend bool operator==(const Reactions&, const Reactions&) = default;
};

Reactions reactions_to(std::uint32_t sr_status_flags);

}  // namespace nfsrdma::nfs4
