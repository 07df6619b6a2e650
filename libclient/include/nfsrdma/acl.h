// Access control lists, as values and as text. Names (names.h) gets and sets them by path.
//
//     auto acl = client->get_acl("/export/report");
//     if (auto* lists = std::get_if<nfsrdma::PosixAcls>(&*acl)) …    // NFSv3: POSIX.1e lists, by NFSACL
//     if (auto* list = std::get_if<nfsrdma::Nfs4Acl>(&*acl)) …       // NFSv4: the attribute acl
//     std::fputs(nfsrdma::acl_text(*acl).c_str(), stdout);
//
// A server has one of the two forms, by the version of NFS that is spoken; to set the other is EOPNOTSUPP.
//
// The text of POSIX lists is that of getfacl(1): "user:joe:rw-", "default:group::r-x". The text of NFSv4's is that
// of nfs4_getfacl(1): "A:g:staff@example.org:rxtncy". Reading takes entries that stand on lines of their own or
// between commas, and comments behind "#" (in the NFSv4 form: lines that begin with one).
//
// Thread-safety: values and pure functions; any thread.
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

/// POSIX.1e's entry tags, by the numbers of Linux and of NFSACL.
enum class AclTag : std::uint16_t {
  owner = 0x01,         ///< user::
  user = 0x02,          ///< user:ID:
  owning_group = 0x04,  ///< group::
  group = 0x08,         ///< group:ID:
  mask = 0x10,          ///< bounds all of the above but the owner
  other = 0x20,
};

struct PosixAce {
  AclTag tag = AclTag::other;
  std::uint32_t id = 0;           ///< of a user or group that is named, else 0
  std::uint32_t permissions = 0;  ///< 4 read, 2 write, 1 execute
  friend bool operator==(const PosixAce&, const PosixAce&) = default;
};
using PosixAcl = std::vector<PosixAce>;

/// What an object has. An access list that says no more than the mode has three entries.
struct PosixAcls {
  PosixAcl access;
  PosixAcl inherited;  ///< the default list, of a directory; empty: none
  friend bool operator==(const PosixAcls&, const PosixAcls&) = default;
};

/// RFC 8881 6.2.1, by its numbers.
struct Nfs4Ace {
  std::uint32_t type = 0;   ///< 0 allow, 1 deny, 2 audit, 3 alarm
  std::uint32_t flags = 0;  ///< inheritance, and 0x40: `who` is a group
  std::uint32_t mask = 0;   ///< what it is about
  std::string who;          ///< OWNER@, GROUP@, EVERYONE@, name@domain, or a number
  friend bool operator==(const Nfs4Ace&, const Nfs4Ace&) = default;
};
using Nfs4Acl = std::vector<Nfs4Ace>;

using Acl = std::variant<PosixAcls, Nfs4Acl>;

/// In the order that POSIX lists have (tags, then ids); EINVAL where an entry is missing, stands there twice, or
/// has no meaning. An empty list stays empty.
NFSRDMA_API Result<PosixAcl> ordered(PosixAcl list);
/// What `wanted` leaves out, as setfacl(1) does it: a list that is empty is the one of `current`; the entries
/// "user::", "group::" and "other::" of the default list are those of the access list; a mask that is needed
/// allows what any entry below it does.
NFSRDMA_API PosixAcls completed(PosixAcls wanted, const PosixAcls& current);

/// How numbers are shown and names are read; where one is empty there are only numbers.
struct AclNames {
  std::function<std::string(bool group, std::uint32_t id)> name;
  std::function<std::optional<std::uint32_t>(bool group, const std::string& name)> id;
};

/// One entry to a line, each ended by a newline.
NFSRDMA_API std::string acl_text(const Acl& acl, const AclNames& names = {});
/// Which of the two forms it is the first entry tells. What is read of POSIX lists is neither ordered() nor
/// completed(). EINVAL names the entry that is none.
NFSRDMA_API Result<Acl> parse_acl(std::string_view text, const AclNames& names = {});

}  // namespace nfsrdma
