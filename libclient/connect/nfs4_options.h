// The parameters with which a client of any NFSv4 minor version begins.
#pragma once

#include "connect/protocol.h"
#include "nfs4/compound/session_facts.h"

namespace nfsrdma::connect {

/// Derives them from the target's options and the surroundings: the client's owner id and flavor, its limits,
/// and its timeouts.
nfs4::SessionOptions session_options(const Ground& ground);

}  // namespace nfsrdma::connect
