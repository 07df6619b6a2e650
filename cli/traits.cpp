#include "cli/traits.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "cli/remote_file.h"

namespace nfsrdma::cli {
namespace {

Time time_of(const timespec& time) {
  return {time.tv_sec, static_cast<std::uint32_t>(time.tv_nsec)};
}

timespec timespec_of(const Time& time) {
  return {time.seconds, static_cast<long>(time.nanoseconds)};
}

/// Compares numbers if both are known, else names. Different owners may have the name "nobody".
bool is_same(std::optional<std::uint32_t> id, const std::string& name, std::optional<std::uint32_t> wanted_id,
             const std::string& wanted_name) {
  if (id && wanted_id) return *id == *wanted_id;
  return !name.empty() && name == wanted_name && !name.starts_with("nobody") && !name.starts_with("nogroup");
}

bool is_refusal(const Status& done) {
  return !done && done.error().kind() == ErrorKind::server;
}

using Set = std::function<Status(const SetAttributes&)>;
using Get = std::function<Result<Attributes>()>;

/// Sets everything but set-id bits, with as much of owner and group as the server permits.
Status apply_harmless(const Set& set, const Traits& traits, std::optional<std::uint64_t> size) {
  SetAttributes changes;
  changes.size = size;
  changes.mode = traits.mode & ~kSetIds;
  changes.accessed = traits.accessed;
  changes.modified = traits.modified;
  if (!gives_files_away() || (!traits.uid && !traits.gid)) return set(changes);
  SetAttributes all = changes;
  all.uid = traits.uid;
  all.gid = traits.gid;
  Status done = set(all);
  if (is_refusal(done) && traits.uid && traits.gid) {
    all.uid.reset();
    done = set(all);
  }
  return is_refusal(done) ? set(changes) : done;
}

Status apply(const Set& set, const Get& get, const Traits& traits, std::optional<std::uint64_t> size) {
  if (Status done = apply_harmless(set, traits, size); !done) return done;
  if ((traits.mode & kSetIds) == 0) return {};
  // A server may accept a change of owner and set another owner.
  const Result<Attributes> now = get();
  if (!now) return now.error();
  SetAttributes bits;
  bits.mode = safe_mode(traits.mode, is_same(now->uid, now->owner, traits.uid, traits.owner),
                        is_same(now->gid, now->group, traits.gid, traits.group));
  return (*bits.mode & kSetIds) != 0 ? set(bits) : Status();
}

}  // namespace

Traits traits_of(const struct stat& facts) {
  return {.mode = facts.st_mode & 07777U,
          .uid = facts.st_uid,
          .gid = facts.st_gid,
          .owner = {},
          .group = {},
          .accessed = time_of(facts.st_atim),
          .modified = time_of(facts.st_mtim)};
}

Traits traits_of(const Attributes& attributes) {
  return {.mode = attributes.mode,
          .uid = attributes.uid,
          .gid = attributes.gid,
          .owner = attributes.owner,
          .group = attributes.group,
          .accessed = attributes.accessed,
          .modified = attributes.modified};
}

std::uint32_t safe_mode(std::uint32_t mode, bool owner_is_kept, bool group_is_kept) {
  if (!owner_is_kept) mode &= ~kSetUserId;
  if (!group_is_kept) mode &= ~kSetGroupId;
  return mode;
}

bool gives_files_away() {
  return ::geteuid() == 0;
}

int apply_traits(int fd, const Traits& traits) {
  constexpr auto unchanged = static_cast<std::uint32_t>(-1);
  if (gives_files_away() && (traits.uid || traits.gid)) {
    const std::uint32_t gid = traits.gid.value_or(unchanged);
    const bool given = ::fchown(fd, traits.uid.value_or(unchanged), gid) == 0;
    if (!given && traits.gid) (void)!::fchown(fd, unchanged, gid);
  }
  struct stat now{};
  if (::fstat(fd, &now) != 0) return errno;
  const std::uint32_t mode = safe_mode(traits.mode, traits.uid == now.st_uid, traits.gid == now.st_gid);
  if (::fchmod(fd, mode) != 0) return errno;
  const std::array times = {timespec_of(traits.accessed), timespec_of(traits.modified)};
  return ::futimens(fd, times.data()) == 0 ? 0 : errno;
}

int apply_modified(int fd, const Time& modified) {
  const std::array times = {timespec{0, UTIME_OMIT}, timespec_of(modified)};
  return ::futimens(fd, times.data()) == 0 ? 0 : errno;
}

Status apply_traits(File& file, const Traits& traits, std::optional<std::uint64_t> size) {
  return apply([&](const SetAttributes& changes) { return file.set_attributes(changes); },
               [&] { return file.attributes(); }, traits, size);
}

Status apply_traits(const Remote& directory, const Traits& traits) {
  Client& client = *directory.client;
  const auto by_path = [&](const SetAttributes& changes) {
    return client.set_attributes(directory.path, changes);
  };
  if (!need_a_handle(traits)) return apply_harmless(by_path, traits, {});
  const auto found = client.open_directory(directory.path);
  if (!found) return found.error();
  Directory& there = **found;
  const auto get = [&] { return there.stat("."); };
  const auto named = client.stat(directory.path, false);
  const auto opened = get();
  if (!named) return named.error();
  if (!opened) return opened.error();
  if (!are_same(*named, *opened)) {
    return Error(ErrorKind::usage, ENOTDIR, "set attributes", directory.text(),
                 "has become a symbolic link; the attributes of its target are left unchanged");
  }
  return apply([&](const SetAttributes& changes) { return there.set_attributes(".", changes); }, get, traits,
               {});
}

Status finish_private(File& file, const Traits& traits, std::uint32_t mode, Keep keep) {
  if (keep == Keep::everything) return apply_traits(file, traits);
  SetAttributes changes;
  changes.mode = mode;
  if (keep == Keep::times) changes.modified = traits.modified;
  return file.set_attributes(changes);
}

Status clear_set_ids(File& file) {
  const Result<Attributes> now = file.attributes();
  if (!now) return now.error();
  if ((now->mode & kSetIds) == 0) return {};
  SetAttributes changes;
  changes.mode = now->mode & ~kSetIds;
  Status done = file.set_attributes(changes);
  // A refusal means that another user owns the file. The bits give that owner's rights then, not ours.
  return is_refusal(done) ? Status() : done;
}

}  // namespace nfsrdma::cli
