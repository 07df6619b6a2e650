// Arguments of OPEN for an Open (RFC 8881 18.16).
#pragma once

#include "nfs4/compound/call_layer.h"
#include "nfs4/state/open_state.h"

namespace nfsrdma::nfs4 {

/// The stateid that means the current stateid of the COMPOUND, which OPEN sets (RFC 8881 8.2.3, 16.2.3.1.2).
inline constexpr stateid4 kCurrentStateid{.seqid = 1, .other = {}};

/// Returns OPEN's arguments without openhow and claim. `wanted`: the result of Delegations::wanted_for().
OPEN4args open_arguments(const CallLayer& calls, const Open& open, std::uint32_t wanted);
/// Return the arguments for a file that was open before: open_previous() in the grace period, open_again()
/// otherwise. Without sessions open_again() opens by the name at `open.place`.
OPEN4args open_previous(const CallLayer& calls, const Open& open);
OPEN4args open_again(const CallLayer& calls, const Open& open, std::uint32_t access, std::uint32_t wanted);

}  // namespace nfsrdma::nfs4
