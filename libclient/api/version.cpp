#include "nfsrdma/version.h"

namespace nfsrdma {
const char* version() {
  return NFSRDMA_VERSION;
}
}  // namespace nfsrdma
