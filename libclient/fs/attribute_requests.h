// The kernel's requests for an object by its number: GETATTR, SETATTR, ACCESS, READLINK and STATFS.
//
// freshness.h says how long attributes are valid. SETATTR waits for all writes that were answered before; GETATTR waits for
// one of them at most, because the attributes that come with a WRITE tell the rest.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fs/open_handle.h"
#include "fs/part.h"

namespace nfsrdma::fs {

class AttributeRequests : Part {
 public:
  explicit AttributeRequests(MountState& state) : Part(state) {}

  /// Handles the kernel's GETATTR, which a read(2) sends before it looks at the cached pages and the cached
  /// size. The kernel ignores the answer if a notification for the file arrives meanwhile. So the answer is
  /// held back until notifications that drop pages or enlarge the file have ended; the cached pages and the
  /// cached size are then correct in any case.
  async::Task<Result<Attributed>> attributes(Caller caller, std::uint64_t inode);
  /// Returns what attributes() would return without a question to the server and without a wait; none if it would need
  /// either.
  [[nodiscard]] std::optional<Attributed> known_attributes(std::uint64_t inode) const;
  async::Task<Result<Attributed>> set_attributes(Caller caller, std::uint64_t inode, SetAttributes changes,
                                                 std::shared_ptr<OpenHandle> file);
  /// `mode` is that of access(2). Fails with EACCES unless all of it is granted.
  async::Task<Status> access(Caller caller, std::uint64_t inode, unsigned mode);
  async::Task<Result<std::string>> read_link(Caller caller, std::uint64_t inode);
  async::Task<Result<Space>> space(Caller caller, std::uint64_t inode);

 private:
  /// `kernel_asked` is that of Freshness::attributed().
  async::Task<Result<Attributed>> attributes_now(Caller caller, std::shared_ptr<Inode> inode,
                                                 std::uint64_t kernel_asked);
  async::Task<Status> may_truncate(Caller caller, std::shared_ptr<Inode> inode);
  /// Sends what is written, as a SETATTR of `changes` has to find it. Returns attributes if the call that wrote the data has
  /// made the changes as well.
  async::Task<std::optional<Attributed>> write_before(Caller caller, std::shared_ptr<Inode> inode,
                                                      const SetAttributes& changes);
  [[nodiscard]] std::optional<Attributed> kept(const Inode& inode) const;
};

}  // namespace nfsrdma::fs
