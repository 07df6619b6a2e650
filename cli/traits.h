// The traits that a copy keeps of its source with -p (owner and group, mode, times), and the set-id bits that
// it may have.
//
// A set-user-ID bit gives the rights of the file's owner to everybody who runs the file. So a copy has it
// only if it has its source's owner, and the set-group-ID bit only if it has its source's group, as with
// cp(1). The bits are set last, when owner and group are final. Only root can give files away; others do not
// try.
//
// Each step acts on an open file, or on one that was found once and is known by its handle, because in a
// directory that others may write to a name may lead to another file with each call.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/servers.h"

namespace nfsrdma::cli {

inline constexpr std::uint32_t kSetUserId = 04000, kSetGroupId = 02000, kSetIds = kSetUserId | kSetGroupId;
/// Mask of the mode bits that a copy takes from its source without -p, and that a file takes from the one
/// that it replaces. Set-id bits are not among them, because somebody may have put the old file there to have
/// its bits on the new one.
inline constexpr std::uint32_t kPermissions = 0777;
/// The mode of a file while it is incomplete.
inline constexpr std::uint32_t kPrivateFile = 0600;

/// The attributes that a copy keeps of its source.
enum class Keep : std::uint8_t {
  nothing,
  times,       ///< the time of modification
  everything,  ///< -p: mode, times and holes; as root, owner and group
};

struct Traits {
  std::uint32_t mode = 0;
  std::optional<std::uint32_t> uid, gid;
  std::string owner, group;  ///< as a server gives them; empty: the source is a local file
  Time accessed, modified;
};
Traits traits_of(const struct stat& facts);
Traits traits_of(const Attributes& attributes);

/// `mode` without the set-id bits that go with an owner or a group that was not kept.
std::uint32_t safe_mode(std::uint32_t mode, bool owner_is_kept, bool group_is_kept);

/// Returns true if this user can give files away.
bool gives_files_away();
/// Returns true if owner and group must be looked at, for which the file must be open.
inline bool need_a_handle(const Traits& traits) {
  return (traits.mode & kSetIds) != 0 || gives_files_away();
}

/// Gives `traits` to an open local file or directory. It must have no set-id bits, and a mode that lets only
/// its owner in. Returns 0 or an errno.
int apply_traits(int fd, const Traits& traits);
/// Sets the time of modification of an open local file or directory. Returns 0 or an errno.
int apply_modified(int fd, const Time& modified);
/// Gives `traits` to a file on the server, which must have no set-id bits. `size`: sets the size as well.
Status apply_traits(File& file, const Traits& traits, std::optional<std::uint64_t> size = {});
/// Gives `traits` to a directory on the server. Fails if the path leads to a symbolic link.
Status apply_traits(const Remote& directory, const Traits& traits);
/// Gives a file on the server that was made with kPrivateFile what it keeps of its source. `mode`: its permissions,
/// unless `keep` is Keep::everything.
Status finish_private(File& file, const Traits& traits, std::uint32_t mode, Keep keep);

/// Clears the set-id bits of a file that was written in place.
Status clear_set_ids(File& file);

}  // namespace nfsrdma::cli
