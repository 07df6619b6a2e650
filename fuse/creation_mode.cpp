#include "fuse/creation_mode.h"

#include <algorithm>
#include <cerrno>

#include "acl/octets.h"

namespace nfsrdma::fuse {
namespace {

using Value = Result<std::vector<std::byte>>;

/// RFC 8881 6.2.1.4: ACE4_FILE_INHERIT_ACE, ACE4_DIRECTORY_INHERIT_ACE.
constexpr std::uint32_t kInherited = 0x1 | 0x2;

bool has_inherited(const Value& value) {
  if (!value) return false;
  const auto list = acl::nfs4_of(*value);
  if (!list) return false;
  return std::ranges::any_of(*list, [](const Nfs4Ace& ace) { return (ace.flags & kInherited) != 0; });
}

/// Asks for the POSIX default list, then for the NFSv4 list. An attribute that the NFS version does not have
/// is refused without a question to the server.
async::Task<bool> inherits(fs::FileSystem& files, fs::Caller caller, std::uint64_t directory) {
  auto posix = co_await files.get_xattr(caller, directory, "system.posix_acl_default");
  if (posix) co_return true;
  if (posix.error().errno_value() != EOPNOTSUPP) co_return false;
  auto nfs4 = co_await files.get_xattr(std::move(caller), directory, "system.nfs4_acl");
  co_return has_inherited(nfs4);
}

}  // namespace

async::Soon<std::uint32_t> CreationMode::of(fs::FileSystem& files, async::Loop& loop, fs::Caller caller,
                                            std::uint64_t directory, std::uint32_t mode,
                                            std::uint32_t umask) {
  if ((mode & umask) == 0) return mode;
  const auto found = known_.find(directory);
  if (found != known_.end() && loop.now() < found->second.until)
    return found->second.inherits ? mode : mode & ~umask;
  return ask(files, loop, std::move(caller), directory, mode, umask);
}

/// Decides by an answer of the server, and keeps that.
async::Task<std::uint32_t> CreationMode::ask(fs::FileSystem& files, async::Loop& loop, fs::Caller caller,
                                             std::uint64_t directory, std::uint32_t mode,
                                             std::uint32_t umask) {
  const std::uint64_t as_of = forgotten_;
  const bool decides = co_await inherits(files, std::move(caller), directory);
  // If a list was set in the meantime, the answer may be older than that list, and is not cached.
  if (as_of != forgotten_) co_return decides ? mode : mode & ~umask;
  if (known_.size() >= kMost) known_.clear();
  Known& known = known_[directory];
  known.inherits = decides;
  known.until = loop.now() + believed_;
  co_return decides ? mode : mode & ~umask;
}

}  // namespace nfsrdma::fuse
