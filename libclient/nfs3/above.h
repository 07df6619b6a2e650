// Directories above a server's exports. NFSv3 has no handles for them; the MOUNT protocol's list of exports
// is all that is known about them. They are shown all the same, as NFSv4's pseudo file system shows them, so
// that a path leads from "/" to an export, and a listing of "/" shows the exports.
//
// Each of these directories gets a handle made by this client, which stands for its names. The handle is
// longer than any that a server gives (RFC 1813: 64 octets).
//
// Confined to the loop's thread.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "wire/nfs3/types.h"

namespace nfsrdma::nfs3 {

class Above {
 public:
  using Names = std::vector<std::string>;
  [[nodiscard]] static bool is_one(const engine::FileHandle& handle) { return handle.length > NFS3_FHSIZE; }

  /// Returns the directory with these names from the server's root.
  engine::Object object(const Names& names) {
    std::size_t number = 0;
    while (number < known_.size() && known_[number] != names) ++number;
    if (number == known_.size()) known_.push_back(names);
    engine::Object out;
    out.handle.length = NFS3_FHSIZE + 4;
    xdr::store_u32(out.handle.bytes.data() + NFS3_FHSIZE, static_cast<std::uint32_t>(number));
    Attributes& attributes = out.attributes.emplace();
    attributes.type = FileType::directory;
    attributes.mode = 0555;
    attributes.links = 2;
    attributes.owner = attributes.group = "0";
    attributes.uid = attributes.gid = 0;
    attributes.file_id = number + 1;
    attributes.filesystem_major = ~std::uint64_t{0};  // not the number of any file system on the server
    return out;
  }
  /// Returns the names of a directory above the exports. Call only if is_one(handle).
  [[nodiscard]] const Names& names(const engine::FileHandle& handle) const {
    return known_[xdr::load_u32(handle.bytes.data() + NFS3_FHSIZE)];
  }

 private:
  std::vector<Names> known_;  // one entry for each directory above the exports that was used
};

}  // namespace nfsrdma::nfs3
