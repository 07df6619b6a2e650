// Makes a POSIX list complete: the order of its entries, those that must exist, and the mask.
#include <algorithm>
#include <cerrno>

#include "acl/lists.h"

namespace nfsrdma::acl {
namespace {

constexpr std::uint32_t kAllPermissions = 7;

bool is_named(AclTag tag) {
  return tag == AclTag::user || tag == AclTag::group;
}
bool is_known(AclTag tag) {
  switch (tag) {
    case AclTag::owner:
    case AclTag::user:
    case AclTag::owning_group:
    case AclTag::group:
    case AclTag::mask:
    case AclTag::other:
      return true;
  }
  return false;
}

bool has(const PosixAcl& list, AclTag tag) {
  return std::ranges::any_of(list, [tag](const PosixAce& ace) { return ace.tag == tag; });
}

Error malformed(std::string why) {
  return {ErrorKind::usage, EINVAL, "acl", "", std::move(why)};
}

/// Returns the permissions that the entries which a mask bounds have together.
std::uint32_t bounded_by_mask(const PosixAcl& list) {
  std::uint32_t out = 0;
  for (const PosixAce& ace : list) {
    if (is_named(ace.tag) || ace.tag == AclTag::owning_group) out |= ace.permissions;
  }
  return out;
}

void add_mask(PosixAcl& list) {
  const bool named = std::ranges::any_of(list, [](const PosixAce& ace) { return is_named(ace.tag); });
  if (named && !has(list, AclTag::mask)) list.push_back({AclTag::mask, 0, bounded_by_mask(list)});
}

}  // namespace

Result<PosixAcl> ordered(PosixAcl list) {
  if (list.empty()) return list;
  for (PosixAce& ace : list) {
    if (!is_known(ace.tag) || (ace.permissions & ~kAllPermissions) != 0)
      return malformed("an entry has a tag or permissions that POSIX does not know; check the list");
    if (!is_named(ace.tag)) ace.id = 0;
  }
  const auto place = [](const PosixAce& ace) { return std::pair(ace.tag, ace.id); };
  std::ranges::sort(list, {}, place);
  if (std::ranges::adjacent_find(list, {}, place) != list.end())
    return malformed("two entries are for the same user, group or class; give each once");
  for (const AclTag needed : {AclTag::owner, AclTag::owning_group, AclTag::other}) {
    if (!has(list, needed))
      return malformed("the list lacks one of user::, group:: and other::; give all three");
  }
  const bool named = std::ranges::any_of(list, [](const PosixAce& ace) { return is_named(ace.tag); });
  if (named && !has(list, AclTag::mask))
    return malformed("a list with named users or groups needs a mask; add mask::rwx");
  return list;
}

PosixAcls completed(PosixAcls wanted, const PosixAcls& current) {
  if (wanted.access.empty()) {
    wanted.access = current.access;
  } else {
    add_mask(wanted.access);
  }
  if (wanted.inherited.empty()) {
    wanted.inherited = current.inherited;
    return wanted;
  }
  for (const PosixAce& ace : wanted.access) {
    const bool is_class = !is_named(ace.tag) && ace.tag != AclTag::mask;
    if (is_class && !has(wanted.inherited, ace.tag)) wanted.inherited.push_back(ace);
  }
  add_mask(wanted.inherited);
  return wanted;
}

}  // namespace nfsrdma::acl
