// Positions in a directory as the kernel has them (d_off of getdents(2), telldir(3)), and the server's
// cookies.
//
//     0         before "."
//     1         before ".."
//     2         before the first name
//     else      behind the name with that cookie
//
// An NFSv4 server gives no name the cookie 1 or 2 (RFC 8881 18.23.3). Servers of older versions may, because
// RFC 1813 3.3.16 allows any cookie but 0. These two cookies therefore get offsets of their own, which no
// server is likely to use for anything else.
//
// Pure functions.
#pragma once

#include <cstdint>

namespace nfsrdma::fuse {

constexpr std::uint64_t kBeforeDotDot = 1, kBeforeNames = 2;
constexpr std::uint64_t kSmallCookies = 0x5f6e'6673'7264'6d00;  // positive as an off_t

/// Returns the offset behind the name that has this cookie.
constexpr std::uint64_t offset_behind(std::uint64_t cookie) {
  const bool is_small = cookie == kBeforeDotDot || cookie == kBeforeNames;
  return is_small ? kSmallCookies + cookie : cookie;
}
/// Returns the cookie behind which the names are to be listed; 0: all names.
constexpr std::uint64_t cookie_at(std::uint64_t offset) {
  if (offset <= kBeforeNames) return 0;
  const bool is_small = offset == offset_behind(kBeforeDotDot) || offset == offset_behind(kBeforeNames);
  return is_small ? offset - kSmallCookies : offset;
}

}  // namespace nfsrdma::fuse
