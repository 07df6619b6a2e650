#include "nfsrdma/nfsrdma.h"

extern "C" {
const char* nfsrdma_version(void) {
  return NFSRDMA_VERSION;
}
}
