// Access control lists of the C interface.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "acl/lists.h"
#include "api/names.h"

using namespace nfsrdma;
using namespace nfsrdma::api;

struct nfsrdma_acl {
  Acl list;
};

namespace {

constexpr std::size_t kShortestAce = NFSRDMA_LENGTH_TO(nfsrdma_ace, who);

/// Returns functions that call those of the program.
Result<AclNames> names_from(const nfsrdma_acl_names* from) {
  if (from == nullptr) return AclNames();
  nfsrdma_acl_names given{};
  constexpr std::size_t kShortest = NFSRDMA_LENGTH_TO(nfsrdma_acl_names, data);
  if (auto why = load("nfsrdma_acl_names", from, given, kShortest)) return *why;
  AclNames out;
  if (given.name != nullptr) {
    out.name = [given](bool group, std::uint32_t id) -> std::string {
      std::array<char, 256> text{};
      const bool known = given.name(given.data, group ? 1 : 0, id, text.data(), text.size()) != 0;
      text.back() = '\0';
      return known ? text.data() : std::to_string(id);
    };
  }
  if (given.id != nullptr) {
    out.id = [given](bool group, const std::string& name) -> std::optional<std::uint32_t> {
      std::uint32_t id = 0;
      if (given.id(given.data, group ? 1 : 0, name.c_str(), &id) == 0) return std::nullopt;
      return id;
    };
  }
  return out;
}

nfsrdma_ace entry_of(const PosixAce& ace, bool inherited) {
  nfsrdma_ace out{};
  out.type = static_cast<std::uint32_t>(ace.tag);
  out.permissions = ace.permissions;
  out.id = ace.id;
  out.inherited = inherited ? 1 : 0;
  return out;
}

nfsrdma_ace entry_of(const Nfs4Ace& ace) {
  nfsrdma_ace out{};
  out.type = ace.type;
  out.flags = ace.flags;
  out.permissions = ace.mask;
  out.who = ace.who.c_str();
  return out;
}

std::optional<nfsrdma_ace> entry_at(const Acl& list, std::size_t number) {
  if (const auto* nfs4 = std::get_if<Nfs4Acl>(&list)) {
    if (number < nfs4->size()) return entry_of((*nfs4)[number]);
    return std::nullopt;
  }
  const auto& posix = std::get<PosixAcls>(list);
  if (number < posix.access.size()) return entry_of(posix.access[number], false);
  number -= posix.access.size();
  if (number < posix.inherited.size()) return entry_of(posix.inherited[number], true);
  return std::nullopt;
}

/// Returns the POSIX lists, in order, or the error that the function must return.
Result<PosixAcls> in_order(PosixAcls lists) {
  for (PosixAcl* list : {&lists.access, &lists.inherited}) {
    auto good = acl::ordered(std::move(*list));
    if (!good) return good.error();
    *list = std::move(*good);
  }
  return lists;
}

/// Returns the list as it can be set.
Result<Acl> settable(const Acl& list, const char* path) {
  const auto* posix = std::get_if<PosixAcls>(&list);
  if (posix == nullptr) return list;
  if (posix->access.empty())
    return Error(ErrorKind::usage, EINVAL, "acl", path, "the access ACL is missing; give one");
  auto good = in_order(*posix);
  if (!good) return good.error();
  return Acl(std::move(*good));
}

Error not_posix() {
  return {ErrorKind::usage, EINVAL, "acl", "", "this is no POSIX list; NFSv4 lists are used as they are"};
}

}  // namespace

nfsrdma_acl* nfsrdma_acl_new(int form) {
  return guarded_object(nullptr, [&]() -> nfsrdma_acl* {
    if (form == NFSRDMA_ACL_POSIX) return new nfsrdma_acl{PosixAcls()};
    if (form == NFSRDMA_ACL_NFS4) return new nfsrdma_acl{Nfs4Acl()};
    return nullptr;
  });
}

void nfsrdma_acl_free(nfsrdma_acl* acl) {
  delete acl;
}

int nfsrdma_acl_form(const nfsrdma_acl* acl) {
  return std::holds_alternative<PosixAcls>(acl->list) ? NFSRDMA_ACL_POSIX : NFSRDMA_ACL_NFS4;
}

int nfsrdma_acl_entry(const nfsrdma_acl* acl, size_t number, nfsrdma_ace* entry) {
  const auto found = entry_at(acl->list, number);
  return found && store(*found, entry, kShortestAce) ? 0 : -1;
}

int nfsrdma_acl_add(nfsrdma_acl* acl, const nfsrdma_ace* entry, nfsrdma_error** error) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    nfsrdma_ace given{};
    if (acl == nullptr) return fail(error, missing("acl"));
    if (auto why = load("nfsrdma_ace", entry, given, kShortestAce)) return fail(error, *why);
    if (auto* nfs4 = std::get_if<Nfs4Acl>(&acl->list)) {
      if (given.who == nullptr) return fail(error, missing("nfsrdma_ace.who"));
      nfs4->push_back({given.type, given.flags, given.permissions, given.who});
      return 0;
    }
    auto& posix = std::get<PosixAcls>(acl->list);
    if (given.type > UINT16_MAX) return fail(error, missing("nfsrdma_ace.type"));
    const auto tag = static_cast<AclTag>(given.type);
    (given.inherited != 0 ? posix.inherited : posix.access).push_back({tag, given.id, given.permissions});
    return 0;
  }));
}

nfsrdma_acl* nfsrdma_acl_parse(const char* text, const nfsrdma_acl_names* names, nfsrdma_error** error) {
  return guarded_object(error, [&]() -> nfsrdma_acl* {
    const auto given = names_from(names);
    if (text == nullptr || !given) {
      (void)fail(error, text == nullptr ? missing("text") : given.error());
      return nullptr;
    }
    auto list = acl::parse(text, *given);
    if (list) return new nfsrdma_acl{std::move(*list)};
    (void)fail(error, list.error());
    return nullptr;
  });
}

char* nfsrdma_acl_text(const nfsrdma_acl* acl, const nfsrdma_acl_names* names) {
  return guarded_object(nullptr, [&]() -> char* {
    const auto given = names_from(names);
    if (acl == nullptr || !given) return nullptr;
    return ::strdup(acl::text(acl->list, *given).c_str());
  });
}

void nfsrdma_text_free(char* text) {
  std::free(text);
}

int nfsrdma_acl_complete(nfsrdma_acl* wanted, const nfsrdma_acl* current, nfsrdma_error** error) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    auto* to = wanted == nullptr ? nullptr : std::get_if<PosixAcls>(&wanted->list);
    const auto* from = current == nullptr ? nullptr : std::get_if<PosixAcls>(&current->list);
    if (to == nullptr || from == nullptr) return fail(error, not_posix());
    *to = acl::completed(std::move(*to), *from);
    return 0;
  }));
}

int nfsrdma_acl_sort(nfsrdma_acl* acl, nfsrdma_error** error) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    auto* posix = acl == nullptr ? nullptr : std::get_if<PosixAcls>(&acl->list);
    if (posix == nullptr) return fail(error, not_posix());
    auto good = in_order(*posix);
    if (!good) return fail(error, good.error());
    *posix = std::move(*good);
    return 0;
  }));
}

int64_t nfsrdma_get_acl(nfsrdma_dir* dir, const char* path, uint32_t flags, nfsrdma_acl** acl,
                        const nfsrdma_call* call, nfsrdma_error** error) {
  if (acl == nullptr) return fail(error, missing("acl"));
  const auto get = [](engine::Engine& engine, const engine::FileHandle& object) {
    return engine.get_acl(nullptr, object);
  };
  return on_object<Result<Acl>>(dir, path, flags, call, error, get, [acl](Acl list) {
    *acl = new nfsrdma_acl{std::move(list)};
    return std::int64_t{0};
  });
}

int64_t nfsrdma_set_acl(nfsrdma_dir* dir, const char* path, uint32_t flags, const nfsrdma_acl* acl,
                        const nfsrdma_call* call, nfsrdma_error** error) {
  return guarded(error, [&]() -> std::int64_t {
    if (acl == nullptr || path == nullptr) return fail(error, missing(acl == nullptr ? "acl" : "path"));
    auto list = settable(acl->list, path);
    if (!list) return fail(error, list.error());
    const auto set = [list = std::move(*list)](engine::Engine& engine, const engine::FileHandle& object) {
      return engine.set_acl(nullptr, object, list);
    };
    return on_object<Status>(dir, path, flags, call, error, set, nothing);
  });
}
