// Assigns st_ino below one mount. A mount has one st_dev, but the server may have several file systems below
// the export. Their file ids overlap, and programs (tar, rsync, du) take two files with equal numbers for
// links of one file and leave out the second.
//
// Files of the export's own file system keep the server's number. For files of another file system a mask
// made from its fsid is combined with the number (XOR), so that the result is the same after the next mount.
// The upper bits of the masks differ between file systems, and from zero: numbers below 2^48, which is what
// file systems on a disk assign, never collide. Larger ones are only protected by the hash, because 64 bits
// have no room for more.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "nfsrdma/types.h"

namespace nfsrdma::fs {

class Numbering {
 public:
  /// `root` are the attributes of the export's directory. If the server did not return them, every number
  /// stays as it is.
  explicit Numbering(const std::optional<Attributes>& root);
  /// Returns the attributes with st_ino in `file_id`. Attributes without a type have no fsid either, and stay
  /// as they are.
  Attributes numbered(Attributes attributes);

 private:
  using FilesystemId = std::pair<std::uint64_t, std::uint64_t>;
  std::uint64_t mask_of(const FilesystemId& id);

  std::optional<FilesystemId> root_;
  std::map<FilesystemId, std::uint64_t> masks_;
  std::set<std::uint64_t> prefixes_;  // the upper bits of the masks in use
};

}  // namespace nfsrdma::fs
