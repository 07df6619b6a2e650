// Places in a directory, as the kernel has them (d_off of getdents(2), telldir(3)), and the server's cookies.
//
//     0         before "."
//     1         before ".."
//     2         before the first name
//     else      behind the name with that cookie
//
// An NFSv4 server gives no name the cookie 1 or 2 (RFC 8881 18.23.3). Servers of older versions may (RFC 1813 3.3.16 lets
// them give any but 0), and these two get places of their own, which no server is likely to have for anything else.
//
// Pure.
#pragma once

#include <cstdint>

namespace nfsrdma::fuse {

constexpr std::uint64_t kBeforeDotDot = 1, kBeforeNames = 2;
constexpr std::uint64_t kSmallCookies = 0x5f6e'6673'7264'6d00;  // positive as an off_t

/// Behind the name that has the cookie.
constexpr std::uint64_t offset_behind(std::uint64_t cookie) {
  const bool is_small = cookie == kBeforeDotDot || cookie == kBeforeNames;
  return is_small ? kSmallCookies + cookie : cookie;
}
/// Behind which the names are to be listed; 0: all of them.
constexpr std::uint64_t cookie_at(std::uint64_t offset) {
  if (offset <= kBeforeNames) return 0;
  const bool is_small = offset == offset_behind(kBeforeDotDot) || offset == offset_behind(kBeforeNames);
  return is_small ? offset - kSmallCookies : offset;
}

}  // namespace nfsrdma::fuse
