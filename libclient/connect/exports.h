// What a server exports, as its mount service lists it (RFC 1813 appendix I): no NFS is spoken for that.
#pragma once

#include <vector>

#include "async/loop.h"
#include "aux/mountd.h"
#include "nfsrdma/options.h"

namespace nfsrdma::connect {

/// Waits; any thread. `interrupt`: a descriptor that ends the wait when it is readable, or -1.
Result<std::vector<aux::Export>> list_exports(const Target& target, async::TimePoint deadline, int interrupt);
/// Who has mounted them, as far as the service knows.
Result<std::vector<aux::MountedBy>> list_mounts(const Target& target, async::TimePoint deadline,
                                                int interrupt);

}  // namespace nfsrdma::connect
