// Access control lists, as values and as text. Names (names.h) reads and sets them by path.
//
//     auto acl = client->get_acl("/export/report");
//     if (auto* lists = std::get_if<nfsrdma::PosixAcls>(&*acl)) ...    // NFSv3: POSIX.1e lists, by NFSACL
//     if (auto* list = std::get_if<nfsrdma::Nfs4Acl>(&*acl)) ...       // NFSv4: the attribute acl
//     std::fputs(nfsrdma::acl_text(*acl).c_str(), stdout);
//
// A server has one of the two forms, depending on the NFS version; setting the other form fails with
// EOPNOTSUPP.
//
// The text of POSIX lists is that of getfacl(1): "user:joe:rw-", "default:group::r-x". The text of NFSv4
// lists is that of nfs4_getfacl(1): "A:g:staff@example.org:rxtncy". The parser accepts entries on separate
// lines or separated by commas, and comments after "#" (in the NFSv4 form only lines that begin with "#").
//
// Thread-safety: values and pure functions, for use from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "nfsrdma/export.h"
#include "nfsrdma/result.h"

namespace nfsrdma {

/// The entry tags of POSIX.1e, with the numbers that Linux and NFSACL use.
enum class AclTag : std::uint16_t {
  owner = 0x01,         ///< user::
  user = 0x02,          ///< user:ID:
  owning_group = 0x04,  ///< group::
  group = 0x08,         ///< group:ID:
  mask = 0x10,          ///< limits all of the above but the owner
  other = 0x20,
};

struct PosixAce {
  AclTag tag = AclTag::other;
  std::uint32_t id = 0;           ///< id of a named user or group, else 0
  std::uint32_t permissions = 0;  ///< 4 read, 2 write, 1 execute
  friend bool operator==(const PosixAce&, const PosixAce&) = default;
};
using PosixAcl = std::vector<PosixAce>;

/// The POSIX lists of an object. An access list that says no more than the mode has three entries.
struct PosixAcls {
  PosixAcl access;
  PosixAcl inherited;  ///< the default list of a directory; empty: none
  friend bool operator==(const PosixAcls&, const PosixAcls&) = default;
};

/// An entry of an NFSv4 list (RFC 8881 6.2.1), with the numbers of the RFC.
struct Nfs4Ace {
  std::uint32_t type = 0;   ///< 0 allow, 1 deny, 2 audit, 3 alarm
  std::uint32_t flags = 0;  ///< inheritance flags, and 0x40: `who` is a group
  std::uint32_t mask = 0;   ///< the permissions that the entry allows or denies
  std::string who;          ///< OWNER@, GROUP@, EVERYONE@, name@domain, or a number
  friend bool operator==(const Nfs4Ace&, const Nfs4Ace&) = default;
};
using Nfs4Acl = std::vector<Nfs4Ace>;

using Acl = std::variant<PosixAcls, Nfs4Acl>;

/// Returns the list in the order of POSIX (by tag, then id). EINVAL if an entry is missing, occurs twice or
/// has no meaning. An empty list stays empty.
NFSRDMA_API Result<PosixAcl> ordered(PosixAcl list);
/// Adds what `wanted` leaves out, as setfacl(1) does: an empty list becomes that of `current`; missing
/// entries "user::", "group::" and "other::" of the default list are taken from the access list; a missing
/// mask that is needed allows what any entry that it limits allows.
NFSRDMA_API PosixAcls completed(PosixAcls wanted, const PosixAcls& current);

/// How ids are shown as names and names are read as ids. If a function is empty, only numbers are used.
struct AclNames {
  std::function<std::string(bool group, std::uint32_t id)> name;
  std::function<std::optional<std::uint32_t>(bool group, const std::string& name)> id;
};

/// Returns the list as text, one entry per line, each with a newline at its end.
NFSRDMA_API std::string acl_text(const Acl& acl, const AclNames& names = {});
/// Parses a list; its first entry determines which of the two forms it is. POSIX lists are returned as they
/// stand, neither ordered() nor completed(). An EINVAL error names the malformed entry.
NFSRDMA_API Result<Acl> parse_acl(std::string_view text, const AclNames& names = {});

}  // namespace nfsrdma
