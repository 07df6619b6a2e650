// st_ino below one mount. A mount has one st_dev, and the server may have several file systems below the
// export: their file ids overlap, and two files with the same number would pass for links of one (tar, rsync
// and du leave the second out).
//
// Files of the export's own file system keep the server's number. Those of another one get a mask over
// theirs, made from its fsid, so that the number is the same after the next mount, too. The upper bits of the
// masks differ from file system to file system, and from zero: numbers below 2^48, which is what file systems
// on a disk give out, never collide. For larger ones only a hash stands against it, since 64 bits have no
// room.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "nfsrdma/client.h"

namespace nfsrdma::fs {

class Numbering {
 public:
  /// `root`: of the export's directory, if the server gave them; without, every number stays as it is.
  explicit Numbering(const std::optional<Attributes>& root);
  /// With st_ino in `file_id`. Attributes without a type have no fsid either, and stay as they are.
  Attributes numbered(Attributes attributes);

 private:
  using FilesystemId = std::pair<std::uint64_t, std::uint64_t>;
  std::uint64_t mask_of(const FilesystemId& id);

  std::optional<FilesystemId> root_;
  std::map<FilesystemId, std::uint64_t> masks_;
  std::set<std::uint64_t> prefixes_;  // upper bits of the masks
};

}  // namespace nfsrdma::fs
