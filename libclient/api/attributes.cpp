// Attributes across the C interface.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "api/names.h"
#include "ids/id_names.h"

namespace nfsrdma::api {
namespace {

nfsrdma_time time_of(const Time& from) {
  return {from.seconds, from.nanoseconds, 0};
}
Time time_from(const nfsrdma_time& from) {
  return {from.seconds, from.nanoseconds};
}

void copy_text(const std::string& from, char* to, std::size_t room) {
  if (to == nullptr || room == 0) return;
  const std::size_t size = std::min(from.size(), room - 1);
  std::memcpy(to, from.data(), size);
  to[size] = '\0';
}

constexpr std::size_t kShortest = NFSRDMA_LENGTH_TO(nfsrdma_attributes, group_room);

}  // namespace

std::optional<Error> unfit(const nfsrdma_attributes* to) {
  return short_struct("nfsrdma_attributes", to, kShortest);
}

Status store(const Attributes& from, nfsrdma_attributes* to) {
  if (auto why = unfit(to)) return *why;
  nfsrdma_attributes out{};
  out.type = static_cast<std::uint32_t>(from.type);
  out.mode = from.mode;
  out.links = from.links;
  out.has = (from.uid ? 1U * NFSRDMA_HAS_UID : 0U) | (from.gid ? 1U * NFSRDMA_HAS_GID : 0U);
  out.uid = from.uid.value_or(0);
  out.gid = from.gid.value_or(0);
  out.size = from.size;
  out.space_used = from.space_used;
  out.file_id = from.file_id;
  out.change = from.change;
  out.filesystem_major = from.filesystem_major;
  out.filesystem_minor = from.filesystem_minor;
  out.device_major = from.device_major;
  out.device_minor = from.device_minor;
  out.accessed = time_of(from.accessed);
  out.modified = time_of(from.modified);
  out.changed = time_of(from.changed);
  out.owner = to->owner;
  out.owner_room = to->owner_room;
  out.group = to->group;
  out.group_room = to->group_room;
  copy_text(from.owner, out.owner, out.owner_room);
  copy_text(from.group, out.group, out.group_room);
  (void)store(out, to, kShortest);
  return {};
}

Result<SetAttributes> changes_from(const nfsrdma_changes* from) {
  nfsrdma_changes given{};
  constexpr std::size_t kShortestChanges = NFSRDMA_LENGTH_TO(nfsrdma_changes, modified);
  if (auto why = load("nfsrdma_changes", from, given, kShortestChanges)) return *why;
  if (auto why = unknown_flags(given.set, 2 * NFSRDMA_SET_MODIFIED_NOW - 1)) return *why;
  const auto has = [&](std::uint32_t bit) { return (given.set & bit) != 0; };
  SetAttributes out;
  if (has(NFSRDMA_SET_MODE)) out.mode = given.mode;
  if (has(NFSRDMA_SET_UID)) out.uid = given.uid;
  if (has(NFSRDMA_SET_GID)) out.gid = given.gid;
  if (has(NFSRDMA_SET_SIZE)) out.size = given.size;
  if (has(NFSRDMA_SET_ACCESSED)) out.accessed = time_from(given.accessed);
  if (has(NFSRDMA_SET_MODIFIED)) out.modified = time_from(given.modified);
  out.accessed_now = has(NFSRDMA_SET_ACCESSED_NOW);
  out.modified_now = has(NFSRDMA_SET_MODIFIED_NOW);
  return out;
}

Result<std::int64_t> copy_out(std::span<const std::byte> bytes, void* to, std::size_t room,
                              const char* what) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (room == 0) return size;
  if (bytes.size() > room) {
    return Error(ErrorKind::usage, ERANGE, "", "",
                 std::string(what) + " has " + std::to_string(bytes.size()) +
                     " bytes, more than there is room for; call again with more room");
  }
  if (to == nullptr) return missing(what);
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return size;
}

async::Task<void> fill_in_ids(async::Loop& loop, std::span<Attributes* const> attributes) {
  ids::IdNames& names = ids::IdNames::system();
  std::vector<ids::Principal> wanted;
  for (const Attributes* one : attributes) names.add_wanted(*one, wanted);
  // Names that cannot be resolved in time get no numbers.
  if (!wanted.empty()) co_await names.learn(loop, std::move(wanted));
  for (Attributes* one : attributes) names.fill_in(*one);
}

async::Task<Result<Attributes>> with_ids(async::Loop& loop, async::Task<Result<Attributes>> asked) {
  auto found = co_await std::move(asked);
  if (!found) co_return found;
  Attributes* const one = &*found;
  co_await fill_in_ids(loop, std::span(&one, 1));
  co_return found;
}

}  // namespace nfsrdma::api
