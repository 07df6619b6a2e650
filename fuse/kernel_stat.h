// Attributes as stat(2) has them. Needs nothing of libfuse.
#pragma once

#include <sys/stat.h>

#include "nfsrdma/types.h"

namespace nfsrdma::fuse {

/// S_IFREG and so on; 0: not known.
mode_t type_bits(FileType type);
/// An owner that is no number here is nobody (ids/id_names.h).
struct stat to_stat(const Attributes& attributes);

}  // namespace nfsrdma::fuse
