// The answer to the kernel for a name: the inode, its attributes, and how long both are valid.
#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "fs/cache_options.h"

namespace nfsrdma::fs {

struct Entry {
  std::uint64_t inode = 0;  ///< 0: there is no such name; that answer is valid for `name_valid`
  Attributes attributes;
  Seconds attributes_valid{0}, name_valid{0};
};

}  // namespace nfsrdma::fs
