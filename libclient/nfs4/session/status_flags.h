// Reactions that the flags in the answers to SEQUENCE ask for (RFC 8881 18.46.3). Pure.
#pragma once

#include <cstdint>

namespace nfsrdma::nfs4 {

struct Reactions {
  bool mend_backchannel = false;  ///< announce the backchannel anew on every connection
  bool new_session = false;       ///< replace the session, whose backchannel cannot be mended (a MUST)
  bool find_revoked = false;  ///< find revoked state by TEST_STATEID, free it, and report it where it is used
  bool recover = false;       ///< reclaim opens and locks by a recovery of the session
  friend bool operator==(const Reactions&, const Reactions&) = default;
};

Reactions reactions_to(std::uint32_t sr_status_flags);

}  // namespace nfsrdma::nfs4
