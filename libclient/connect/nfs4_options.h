// What NFSv4 of any minor version is begun with.
#pragma once

#include "connect/protocol.h"
#include "nfs4/session_facts.h"

namespace nfsrdma::connect {

/// From the target's options and what is around: who the client is, how much at once, how long.
nfs4::SessionOptions session_options(const Ground& ground);

}  // namespace nfsrdma::connect
