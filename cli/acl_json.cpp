// See acl_json.h.
#include "cli/acl_json.h"

#include <array>
#include <span>

namespace nfsrdma::cli {
namespace {

struct Named {
  std::uint32_t number;
  const char* name;
};
/// ACE types (RFC 8881 6.2.1.1).
constexpr auto types = std::to_array<Named>({{0, "allow"}, {1, "deny"}, {2, "audit"}, {3, "alarm"}});
constexpr auto tags =
    std::to_array<Named>({{static_cast<std::uint32_t>(AclTag::owner), "owner"},
                          {static_cast<std::uint32_t>(AclTag::user), "user"},
                          {static_cast<std::uint32_t>(AclTag::owning_group), "owning_group"},
                          {static_cast<std::uint32_t>(AclTag::group), "group"},
                          {static_cast<std::uint32_t>(AclTag::mask), "mask"},
                          {static_cast<std::uint32_t>(AclTag::other), "other"}});

std::string name_of(std::span<const Named> names, std::uint32_t number) {
  for (const Named& one : names) {
    if (one.number == number) return one.name;
  }
  return std::to_string(number);
}

/// Returns the line of a list that has one entry only, without its newline.
std::string line_of(const Acl& one, const AclNames& names) {
  std::string out = acl_text(one, names);
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

/// Returns what follows the last colon of an entry's line: its permissions as letters.
std::string permissions_of(const std::string& line) {
  return line.substr(line.rfind(':') + 1);
}

// ---- NFSv4 ----

std::string ace_object(const Nfs4Ace& ace) {
  const std::string line = line_of(Nfs4Acl{ace}, {});
  const std::size_t flags = line.find(':') + 1;
  json::Object out;
  out.text("type", name_of(types, ace.type)).text("flags", line.substr(flags, line.find(':', flags) - flags));
  out.text("who", ace.who).text("permissions", permissions_of(line)).number("mask", ace.mask);
  return out.text("text", line).str();
}

// ---- POSIX ----

/// Returns the permissions that the list's mask leaves to the entries that it limits.
std::uint32_t mask_of(const PosixAcl& list) {
  for (const PosixAce& one : list) {
    if (one.tag == AclTag::mask) return one.permissions;
  }
  return 7;
}

bool is_named(const PosixAce& ace) {
  return ace.tag == AclTag::user || ace.tag == AclTag::group;
}

std::string line_of(const PosixAce& ace, bool is_default, const AclNames& names) {
  PosixAcls one;
  (is_default ? one.inherited : one.access).push_back(ace);
  return line_of(Acl(std::move(one)), names);
}

std::string ace_object(PosixAce ace, bool is_default, std::uint32_t mask, const AclNames& names) {
  const std::string line = line_of(ace, is_default, names);
  json::Object out;
  out.boolean("default", is_default).text("tag", name_of(tags, static_cast<std::uint32_t>(ace.tag)));
  if (is_named(ace)) out.number("id", ace.id);
  if (is_named(ace) && names.name) out.text("name", names.name(ace.tag == AclTag::group, ace.id));
  out.text("permissions", permissions_of(line));
  if (is_named(ace) || ace.tag == AclTag::owning_group) ace.permissions &= mask;
  out.text("effective", permissions_of(line_of(ace, is_default, names)));
  return out.text("text", line).str();
}

// ---- both ----

std::string entries_of(const Nfs4Acl& list, const AclNames& /*names*/) {
  std::string out;
  for (const Nfs4Ace& ace : list) out += (out.empty() ? "" : ",") + ace_object(ace);
  return out;
}

std::string entries_of(const PosixAcls& lists, const AclNames& names) {
  std::string out;
  for (const PosixAcl* list : {&lists.access, &lists.inherited}) {
    for (const PosixAce& ace : *list)
      out += (out.empty() ? "" : ",") + ace_object(ace, list == &lists.inherited, mask_of(*list), names);
  }
  return out;
}

}  // namespace

void add_acl(json::Object& out, const Acl& acl, const AclNames& names) {
  out.text("form", std::holds_alternative<PosixAcls>(acl) ? "posix" : "nfs4");
  out.raw("entries",
          "[" + std::visit([&](const auto& lists) { return entries_of(lists, names); }, acl) + "]");
}

}  // namespace nfsrdma::cli
