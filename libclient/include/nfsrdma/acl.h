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

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "nfsrdma/acl_types.h"
#include "nfsrdma/convert.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"

namespace nfsrdma {

namespace api_detail {

inline nfsrdma_ace c_ace(const PosixAce& from, bool is_inherited) {
  auto out = sized<nfsrdma_ace>();
  out.type = static_cast<std::uint32_t>(from.tag);
  out.id = from.id;
  out.permissions = from.permissions;
  out.inherited = is_inherited ? 1 : 0;
  return out;
}
/// `from` must outlive the result.
inline nfsrdma_ace c_ace(const Nfs4Ace& from) {
  auto out = sized<nfsrdma_ace>();
  out.type = from.type;
  out.flags = from.flags;
  out.permissions = from.mask;
  out.who = from.who.c_str();
  return out;
}
inline PosixAce posix_ace_from(const nfsrdma_ace& from) {
  return {static_cast<AclTag>(from.type), from.id, from.permissions};
}
inline Nfs4Ace nfs4_ace_from(const nfsrdma_ace& from) {
  return {from.type, from.flags, from.permissions, from.who != nullptr ? from.who : ""};
}

inline Status add(nfsrdma_acl* list, const nfsrdma_ace& entry) {
  OwnedError error;
  if (nfsrdma_acl_add(list, &entry, error.room()) < 0) return error_from(error.get());
  return {};
}
inline Status add_all(nfsrdma_acl* list, const PosixAcls& from) {
  for (const PosixAcl* part : {&from.access, &from.inherited}) {
    for (const PosixAce& entry : *part) {
      if (Status added = add(list, c_ace(entry, part == &from.inherited)); !added) return added;
    }
  }
  return {};
}
inline Status add_all(nfsrdma_acl* list, const Nfs4Acl& from) {
  for (const Nfs4Ace& entry : from) {
    if (has_nul(entry.who)) return nul_error(entry.who);
    if (Status added = add(list, c_ace(entry)); !added) return added;
  }
  return {};
}
/// Returns the list as an object of the C interface.
inline Result<OwnedAcl> c_acl(const Acl& from) {
  const bool is_posix = std::holds_alternative<PosixAcls>(from);
  OwnedAcl out(nfsrdma_acl_new(is_posix ? NFSRDMA_ACL_POSIX : NFSRDMA_ACL_NFS4));
  if (out.get() == nullptr) return error_from(nullptr);
  const Status added = std::visit([&](const auto& lists) { return add_all(out.get(), lists); }, from);
  if (!added) return added.error();
  return out;
}

inline Acl acl_from(const nfsrdma_acl* from) {
  PosixAcls posix;
  Nfs4Acl nfs4;
  const bool is_posix = nfsrdma_acl_form(from) == NFSRDMA_ACL_POSIX;
  auto entry = sized<nfsrdma_ace>();
  for (std::size_t number = 0; nfsrdma_acl_entry(from, number, &entry) == 0; ++number) {
    if (!is_posix) {
      nfs4.push_back(nfs4_ace_from(entry));
    } else {
      (entry.inherited != 0 ? posix.inherited : posix.access).push_back(posix_ace_from(entry));
    }
  }
  return is_posix ? Acl(std::move(posix)) : Acl(std::move(nfs4));
}

/// AclNames as the C interface takes them.
class CAclNames {
 public:
  /// `names` must outlive this object.
  explicit CAclNames(const AclNames& names) {
    out_.struct_size = sizeof out_;
    out_.data = const_cast<AclNames*>(&names);  // NOLINT: the functions below do not write to it
    if (names.name) out_.name = &name;
    if (names.id) out_.id = &id;
  }
  [[nodiscard]] const nfsrdma_acl_names* get() const { return &out_; }

 private:
  static int name(void* data, int group, std::uint32_t id, char* text, std::size_t room) noexcept {
    const std::string found = static_cast<const AclNames*>(data)->name(group != 0, id);
    if (found.empty() || found.size() >= room) return 0;
    std::memcpy(text, found.c_str(), found.size() + 1);
    return 1;
  }
  static int id(void* data, int group, const char* name, std::uint32_t* id) noexcept {
    const std::optional<std::uint32_t> found = static_cast<const AclNames*>(data)->id(group != 0, name);
    if (found) *id = *found;
    return found ? 1 : 0;
  }
  nfsrdma_acl_names out_{};
};

}  // namespace api_detail

/// Returns the list in the order of POSIX (by tag, then id). EINVAL if an entry is missing, occurs twice or
/// has no meaning. An empty list stays empty.
inline Result<PosixAcl> ordered(PosixAcl list) {
  if (list.empty()) return list;
  const Result<api_detail::OwnedAcl> acl = api_detail::c_acl(PosixAcls{std::move(list), {}});
  if (!acl) return acl.error();
  api_detail::OwnedError error;
  if (nfsrdma_acl_sort(acl->get(), error.room()) < 0) return error_from(error.get());
  return std::get<PosixAcls>(api_detail::acl_from(acl->get())).access;
}

/// Adds what `wanted` leaves out, as setfacl(1) does: an empty list becomes that of `current`; missing
/// entries "user::", "group::" and "other::" of the default list are taken from the access list; a missing
/// mask that is needed allows what any entry that it limits allows.
inline PosixAcls completed(PosixAcls wanted, const PosixAcls& current) {
  const Result<api_detail::OwnedAcl> acl = api_detail::c_acl(wanted);
  const Result<api_detail::OwnedAcl> other = api_detail::c_acl(current);
  if (!acl || !other || nfsrdma_acl_complete(acl->get(), other->get(), nullptr) < 0) return wanted;
  return std::get<PosixAcls>(api_detail::acl_from(acl->get()));
}

/// Returns the list as text, one entry per line, each with a newline at its end.
inline std::string acl_text(const Acl& acl, const AclNames& names = {}) {
  const Result<api_detail::OwnedAcl> list = api_detail::c_acl(acl);
  if (!list) return "";
  const api_detail::CAclNames how(names);
  char* const text = nfsrdma_acl_text(list->get(), how.get());
  std::string out = text != nullptr ? text : "";
  nfsrdma_text_free(text);
  return out;
}

/// Parses a list; its first entry determines which of the two forms it is. POSIX lists are returned as they
/// stand, neither ordered() nor completed(). An EINVAL error names the malformed entry.
inline Result<Acl> parse_acl(std::string_view text, const AclNames& names = {}) {
  if (api_detail::has_nul(text)) return api_detail::nul_error(text);
  const api_detail::CAclNames how(names);
  api_detail::OwnedError error;
  const api_detail::OwnedAcl acl(nfsrdma_acl_parse(std::string(text).c_str(), how.get(), error.room()));
  if (acl.get() == nullptr) return error_from(error.get());
  return api_detail::acl_from(acl.get());
}

}  // namespace nfsrdma
