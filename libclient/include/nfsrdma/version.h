// The version of the linked library, which may be newer than these headers.
#pragma once

#include "nfsrdma/nfsrdma.h"

namespace nfsrdma {

/// Returns the version as text, such as "0.1.0". The text is static. May be called from any thread.
inline const char* version() {
  return nfsrdma_version();
}

}  // namespace nfsrdma
