// What OPEN is asked for on behalf of an Open (RFC 8881 18.16).
#pragma once

#include "nfs4/calls.h"
#include "nfs4/open_state.h"

namespace nfsrdma::nfs4 {

/// OPEN's arguments but for openhow and claim. `wanted`: what Delegations::wanted_for() says.
OPEN4args open_arguments(const Calls& calls, const Open& open, std::uint32_t wanted);
/// The same for a file that was open before: in the grace period, and otherwise. Without sessions the latter is by
/// the name at its place.
OPEN4args open_previous(const Calls& calls, const Open& open);
OPEN4args open_again(const Calls& calls, const Open& open, std::uint32_t access, std::uint32_t wanted);

}  // namespace nfsrdma::nfs4
