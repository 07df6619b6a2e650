// The version of the library that is linked, which may be newer than these headers.
#pragma once

#include "nfsrdma/export.h"

namespace nfsrdma {
/// "0.1.0"
NFSRDMA_API const char* version();
}  // namespace nfsrdma
