// The bits of ACCESS that make up one bit of access(2), depending on the type of the object (as in Linux). The
// numbers are the same in NFSv3 (RFC 1813 3.3.4) and NFSv4 (RFC 8881 18.1).
#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>

#include "nfsrdma/types.h"

namespace nfsrdma::engine {

struct AccessBits {
  unsigned asked;  ///< of access(2)
  std::uint32_t of_directory, of_others;

  static constexpr std::uint32_t kRead = 1, kLookup = 2, kModify = 4, kExtend = 8, kDelete = 16,
                                 kExecute = 32;

  /// Returns the bits to ask for, if the type of the object is not known yet. `wanted`: R_OK, W_OK and X_OK.
  static constexpr std::uint32_t to_ask(unsigned wanted);
  /// Returns which of the `wanted` rights the answer grants. `supported`: the bits that the server can judge. A
  /// bit that it cannot judge is not held against the caller (RFC 8881 18.1.3), if it judges at least one
  /// other bit.
  static constexpr unsigned granted(unsigned wanted, FileType type, std::uint32_t access,
                                    std::uint32_t supported = ~std::uint32_t{0});
};

inline constexpr std::array<AccessBits, 3> kAccessBits{{
    {R_OK, AccessBits::kRead, AccessBits::kRead},
    {W_OK, AccessBits::kModify | AccessBits::kExtend | AccessBits::kDelete,
     AccessBits::kModify | AccessBits::kExtend},
    {X_OK, AccessBits::kLookup, AccessBits::kExecute},
}};

constexpr std::uint32_t AccessBits::to_ask(unsigned wanted) {
  std::uint32_t out = 0;
  for (const AccessBits& one : kAccessBits) {
    if ((wanted & one.asked) != 0) out |= one.of_directory | one.of_others;
  }
  return out;
}

constexpr unsigned AccessBits::granted(unsigned wanted, FileType type, std::uint32_t access,
                                       std::uint32_t supported) {
  unsigned out = 0;
  for (const AccessBits& one : kAccessBits) {
    const std::uint32_t judged = (type == FileType::directory ? one.of_directory : one.of_others) & supported;
    if (judged != 0 && (access & judged) == judged) out |= wanted & one.asked;
  }
  return out;
}

}  // namespace nfsrdma::engine
