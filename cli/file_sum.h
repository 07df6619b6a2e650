// SHA-256 of whole files, on a server and on this machine: sum, sync --checksum and --verify.
#pragma once

#include <string>

#include "cli/local_tree.h"
#include "cli/transfer.h"

namespace nfsrdma::cli {

struct FileSum {
  std::string sha256;
  std::uint64_t size = 0;
};

/// Reads a file of a server that has these attributes. Fails with source_changed() (changes.h) if it changes
/// meanwhile. `rate`: as for make_download().
Result<FileSum> sum_of(const Remote& file, const Attributes& attributes, const char* operation,
                       const Moved& moved, std::uint64_t rate = 0);
/// Reads a file on this machine. `from_disk`: what the kernel has cached of it is written back and dropped before.
Result<FileSum> sum_of(const LocalDirectory& directory, const std::string& name, const char* operation,
                       bool from_disk);

}  // namespace nfsrdma::cli
