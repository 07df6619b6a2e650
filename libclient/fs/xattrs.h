// Extended attributes of a mounted file: those with "user.", and access control lists (acl_xattrs.h).
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fs/acl_xattrs.h"
#include "fs/part.h"

namespace nfsrdma::fs {

class Xattrs : Part {
 public:
  explicit Xattrs(MountState& state) : Part(state) {}

  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, std::uint64_t inode, std::string name);
  async::Task<Status> set_xattr(Caller caller, std::uint64_t inode, std::string name,
                                std::vector<std::byte> value, int flags);
  async::Task<Status> remove_xattr(Caller caller, std::uint64_t inode, std::string name);
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, std::uint64_t inode);

 private:
  [[nodiscard]] static Status refused_xattr(const std::string& name);
  async::Task<Status> set_acl(Caller caller, std::shared_ptr<Inode> inode, AclXattr acl,
                              std::vector<std::byte> value);
};

}  // namespace nfsrdma::fs
