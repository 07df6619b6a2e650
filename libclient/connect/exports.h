// Lists a server's exports by asking its mount service (RFC 1813 appendix I). No NFS is spoken for this.
#pragma once

#include <vector>

#include "async/loop.h"
#include "aux/mountd.h"
#include "connect/options.h"

namespace nfsrdma::connect {

/// Blocks until the answer has come. May be called from any thread. `interrupt`: a descriptor that ends the
/// wait when it is readable, or -1.
Result<std::vector<aux::Export>> list_exports(const Target& target, async::TimePoint deadline, int interrupt);
/// Lists the clients that have mounted the exports, as far as the mount service knows. Blocks as
/// list_exports() does.
Result<std::vector<aux::MountedBy>> list_mounts(const Target& target, async::TimePoint deadline,
                                                int interrupt);

}  // namespace nfsrdma::connect
