#include "fs/xattrs.h"

#include <sys/xattr.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace nfsrdma::fs {

namespace {
constexpr std::string_view kUser = "user.";
}  // namespace

Status Xattrs::refused_xattr(const std::string& name) {
  if (name.starts_with(kUser) && name.size() > kUser.size()) return {};
  return refusal(EOPNOTSUPP, "xattr", name, "NFS carries attributes of the user namespace only");
}

async::Task<Result<std::vector<std::byte>>> Xattrs::get_xattr(Caller caller, std::uint64_t id,
                                                              std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (const AclXattr acl = acl_xattr(name, engine_->acl_form()); acl != AclXattr::none)
    co_return co_await get_acl_xattr(*engine_, std::move(caller), (*inode)->handle, acl);
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed.error();
  auto value = co_await engine_->get_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()));
  handle_stale(**inode, value);
  co_return value;
}

/// An empty `value` removes the list.
async::Task<Status> Xattrs::set_acl(Caller caller, std::shared_ptr<Inode> inode, AclXattr acl,
                                    std::vector<std::byte> value) {
  Status set;
  {
    const Naming naming(freshness_, inode);
    inode->forget_searchers();
    set = co_await set_acl_xattr(*engine_, std::move(caller), inode->handle, acl, std::move(value));
  }
  // The mode has changed with the list, but the kernel's attributes show the old one.
  freshness_.doubt(*inode);
  co_return set;
}

async::Task<Status> Xattrs::set_xattr(Caller caller, std::uint64_t id, std::string name,
                                      std::vector<std::byte> value, int flags) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (const AclXattr acl = acl_xattr(name, engine_->acl_form()); acl != AclXattr::none)
    co_return co_await set_acl(std::move(caller), *inode, acl, std::move(value));
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed;
  auto mode = XattrMode::either;
  if ((flags & XATTR_CREATE) != 0) mode = XattrMode::create;
  if ((flags & XATTR_REPLACE) != 0) mode = XattrMode::replace;
  const Naming naming(freshness_, *inode);
  auto set = co_await engine_->set_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()),
                                         std::move(value), mode);
  handle_stale(**inode, set);
  co_return set;
}

async::Task<Status> Xattrs::remove_xattr(Caller caller, std::uint64_t id, std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (const AclXattr acl = acl_xattr(name, engine_->acl_form()); acl != AclXattr::none)
    co_return co_await set_acl(std::move(caller), *inode, acl, std::vector<std::byte>());
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed;
  const Naming naming(freshness_, *inode);
  auto removed =
      co_await engine_->remove_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()));
  handle_stale(**inode, removed);
  co_return removed;
}

async::Task<Result<std::vector<std::string>>> Xattrs::list_xattrs(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto names = co_await engine_->list_xattrs(caller, (*inode)->handle);
  handle_stale(**inode, names);
  const bool none = !names && names.error().errno_value() == EOPNOTSUPP;
  if (!names && (!none || engine_->acl_form() == engine::Engine::AclForm::none)) co_return names;
  std::vector<std::string> out;
  if (names) out = std::move(*names);
  for (std::string& name : out) name.insert(0, kUser);
  auto acls = co_await acl_xattrs(*engine_, std::move(caller), (*inode)->handle);
  if (!acls) co_return acls.error();
  out.insert(out.end(), acls->begin(), acls->end());
  co_return std::move(out);
}

}  // namespace nfsrdma::fs
