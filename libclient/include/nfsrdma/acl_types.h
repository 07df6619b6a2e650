// Access control lists as plain values; acl.h has the functions for them.
//
// Thread-safety: plain values; each thread may have its own copies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

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

/// How ids are shown as names and names are read as ids. If a function is empty, only numbers are used.
struct AclNames {
  std::function<std::string(bool group, std::uint32_t id)> name;
  std::function<std::optional<std::uint32_t>(bool group, const std::string& name)> id;
};

}  // namespace nfsrdma
