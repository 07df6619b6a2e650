#include "fs/acl_xattrs.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "acl/octets.h"

namespace nfsrdma::fs {
namespace {

using engine::Caller;
using engine::Engine;
using engine::FileHandle;
using Form = Engine::AclForm;

struct AclName {
  const char* name;
  AclXattr what;
  Form form;
};
constexpr auto kNames = std::to_array<AclName>({
    {"system.posix_acl_access", AclXattr::access, Form::posix},
    {"system.posix_acl_default", AclXattr::inherited, Form::posix},
    {"system.nfs4_acl", AclXattr::nfs4, Form::nfs4},
});

const char* name_of(AclXattr what) {
  return std::ranges::find(kNames, what, &AclName::what)->name;
}

Error not_there(AclXattr what) {
  return {ErrorKind::usage, ENODATA, "getxattr", name_of(what), "the file has no such access control list"};
}

/// Returns whether the list has only entries for owner, group and others, which the mode expresses, too.
bool is_mode(const PosixAcl& list) {
  return list.size() <= 3;
}

/// Returns the list that is equivalent to the mode: the mask, if there is one, holds the mode's bits of the
/// group.
PosixAcl mode_of(const PosixAcl& list) {
  PosixAcl out;
  std::optional<std::uint32_t> mask;
  for (const PosixAce& ace : list) {
    if (ace.tag == AclTag::mask) mask = ace.permissions;
    const bool is_class =
        ace.tag == AclTag::owner || ace.tag == AclTag::owning_group || ace.tag == AclTag::other;
    if (is_class) out.push_back(ace);
  }
  for (PosixAce& ace : out) {
    if (ace.tag == AclTag::owning_group && mask) ace.permissions = *mask;
  }
  return out;
}

/// Selects one of the two POSIX lists.
PosixAcl& chosen(PosixAcls& lists, AclXattr what) {
  return what == AclXattr::access ? lists.access : lists.inherited;
}

async::Task<Result<PosixAcls>> posix_lists(Engine& engine, Caller caller, FileHandle object) {
  auto acl = co_await engine.get_acl(std::move(caller), object);
  if (!acl) co_return acl.error();
  co_return std::get<PosixAcls>(std::move(*acl));
}

async::Task<Status> set_posix(Engine& engine, Caller caller, FileHandle object, AclXattr what,
                              std::vector<std::byte> value) {
  auto list = acl::posix_of(value);
  if (!list) co_return list.error();
  auto lists = co_await posix_lists(engine, caller, object);
  if (!lists) co_return lists.error();
  if (what == AclXattr::access && list->empty()) *list = mode_of(lists->access);
  chosen(*lists, what) = std::move(*list);
  Acl whole = std::move(*lists);
  co_return co_await engine.set_acl(std::move(caller), object, std::move(whole));
}

}  // namespace

AclXattr acl_xattr(const std::string& name, Form form) {
  for (const AclName& one : kNames) {
    if (one.form == form && name == one.name) return one.what;
  }
  return AclXattr::none;
}

async::Task<Result<std::vector<std::byte>>> get_acl_xattr(Engine& engine, Caller caller, FileHandle object,
                                                          AclXattr what) {
  if (what == AclXattr::nfs4) {
    auto acl = co_await engine.get_acl(std::move(caller), object);
    if (!acl) co_return acl.error();
    co_return acl::nfs4_octets(std::get<Nfs4Acl>(*acl));
  }
  auto lists = co_await posix_lists(engine, std::move(caller), object);
  if (!lists) co_return lists.error();
  const PosixAcl& list = chosen(*lists, what);
  if (list.empty() || (what == AclXattr::access && is_mode(list))) co_return not_there(what);
  co_return acl::posix_octets(list);
}

async::Task<Status> set_acl_xattr(Engine& engine, Caller caller, FileHandle object, AclXattr what,
                                  std::vector<std::byte> value) {
  if (what != AclXattr::nfs4)
    co_return co_await set_posix(engine, std::move(caller), object, what, std::move(value));
  if (value.empty()) {
    co_return Error(ErrorKind::usage, EOPNOTSUPP, "removexattr", name_of(what),
                    "an NFSv4 ACL cannot be removed; set one that matches the wanted mode");
  }
  auto list = acl::nfs4_of(value);
  if (!list) co_return list.error();
  Acl whole = std::move(*list);
  co_return co_await engine.set_acl(std::move(caller), object, std::move(whole));
}

async::Task<Result<std::vector<std::string>>> acl_xattrs(Engine& engine, Caller caller, FileHandle object) {
  std::vector<std::string> out;
  if (engine.acl_form() == Form::nfs4) {
    auto has = co_await engine.has_acls(std::move(caller), object);
    if (!has) co_return has.error();
    if (*has) out.emplace_back(name_of(AclXattr::nfs4));
  }
  if (engine.acl_form() != Form::posix) co_return std::move(out);
  auto lists = co_await posix_lists(engine, std::move(caller), object);
  if (!lists && lists.error().errno_value() != EOPNOTSUPP) co_return lists.error();
  if (lists && !is_mode(lists->access)) out.emplace_back(name_of(AclXattr::access));
  if (lists && !lists->inherited.empty()) out.emplace_back(name_of(AclXattr::inherited));
  co_return std::move(out);
}

}  // namespace nfsrdma::fs
