// Who asks: a user and his groups, as the operating system counts them. What a server is shown of that is a
// flavor's business (flavor.h).
//
// Plain values; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

namespace nfsrdma::security {

struct Identity {
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;  ///< the supplementary ones
  friend auto operator<=>(const Identity&, const Identity&) = default;
};

/// On whose behalf something is done; null: on that of whoever set the client up.
using Caller = std::shared_ptr<const Identity>;

}  // namespace nfsrdma::security
