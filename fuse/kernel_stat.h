// Converts attributes to those of stat(2). Does not depend on libfuse.
#pragma once

#include <sys/stat.h>

#include "nfsrdma/types.h"

namespace nfsrdma::fuse {

/// Returns S_IFREG and so on, or 0 if the type is not known.
mode_t type_bits(FileType type);
/// An owner whose number is not known here gets the number 65534 (ids/id_names.h).
struct stat to_stat(const Attributes& attributes);

}  // namespace nfsrdma::fuse
