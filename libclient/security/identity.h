// Identity: a user and the user's groups, as the operating system numbers them. Flavors decide how much of
// this a server sees (flavor.h).
//
// Plain values; for use from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

namespace nfsrdma::security {

struct Identity {
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;  ///< supplementary groups
  friend auto operator<=>(const Identity&, const Identity&) = default;
};

/// The user on whose behalf something is done; null: the one who set the client up.
using Caller = std::shared_ptr<const Identity>;
inline bool is_same(const Caller& a, const Caller& b) {
  return a == b || (a && b && *a == *b);
}

}  // namespace nfsrdma::security
