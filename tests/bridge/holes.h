// Reports holes in the place of a server that does not (Linux since 6.1): blocks of zeros in the data of its READ_PLUS become
// holes (RFC 7862 15.10). Pure: no I/O.
#pragma once

#include <optional>

#include "bridge/call.h"

namespace nfsrdma::bridge {

/// The Reply with its READ_PLUS result in other elements, two at most; what those do not hold is left out. None if there is no
/// such result, or no block of zeros in it.
[[nodiscard]] std::optional<xdr::Buffer> with_holes(const Route& route, ConstBytes reply);

}  // namespace nfsrdma::bridge
