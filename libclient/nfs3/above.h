// Directories above a server's exports: NFSv3 has no handles for them, and the MOUNT protocol's list of exports is
// all that is known of them. They are shown all the same, as NFSv4's pseudo file system shows them, so that a path
// leads from "/" to an export, and a listing of "/" shows which there are.
//
// Each gets a handle of this client's own, longer than any that a server gives (RFC 1813: 64 octets), which stands
// for its names. Confined to the loop's thread.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "nfs3/types/types.h"

namespace nfsrdma::nfs3 {

class Above {
 public:
  using Names = std::vector<std::string>;
  [[nodiscard]] static bool is_one(const engine::FileHandle& handle) { return handle.length > NFS3_FHSIZE; }

  /// The directory with these names from the server's root.
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
    attributes.filesystem_major = ~std::uint64_t{0};  // no server's
    return out;
  }
  /// Of a handle that is one.
  [[nodiscard]] const Names& names(const engine::FileHandle& handle) const {
    return known_[xdr::load_u32(handle.bytes.data() + NFS3_FHSIZE)];
  }

 private:
  std::vector<Names> known_;  // as many as there are directories above exports
};

}  // namespace nfsrdma::nfs3
