// Extended attributes (RFC 8276): Objects' operations on them.
#include <algorithm>
#include <cerrno>

#include "nfs4/objects.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

constexpr count4 kListBytes = 64 * 1024;
/// What Linux can hand out at once: XATTR_LIST_MAX. A server that goes on is not to fill the memory.
constexpr std::size_t kMostListed = 64 * 1024;

}  // namespace

async::Task<Result<std::vector<std::byte>>> Objects::get_xattr(Caller caller, nfs_fh4 handle,
                                                               std::string name) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "GETXATTR", name);
  Compound compound = session_.begin("GETXATTR", caller);
  compound.add<op::PUTFH>({handle});
  compound.add<op::GETXATTR>({{name}});
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  GETXATTR4res res;
  if (reply->take<op::PUTFH>() && reply->take<op::GETXATTR>(res)) {
    co_return std::move(res.get<NFS4_OK>()->value);
  }
  co_return session_.error_of(*reply, "GETXATTR", name);
}

async::Task<Result<change_info4>> Objects::set_xattr_once(Caller caller, nfs_fh4 handle, std::string name,
                                                          std::vector<std::byte> value,
                                                          setxattr_option4 option) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "SETXATTR", name);
  if (value.size() > kXattrValueMax) co_return status_error(NFS4ERR_XATTR2BIG, "SETXATTR", name);
  Compound compound = session_.begin("SETXATTR", caller);
  compound.add<op::PUTFH>({handle});
  compound.add<op::SETXATTR>({option, {name}, {std::move(value)}});
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  SETXATTR4res res;
  if (reply->take<op::PUTFH>() && reply->take<op::SETXATTR>(res)) co_return *res.get<NFS4_OK>();
  co_return session_.error_of(*reply, "SETXATTR", name);
}

async::Task<Result<change_info4>> Objects::remove_xattr_once(Caller caller, nfs_fh4 handle,
                                                             std::string name) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "REMOVEXATTR", name);
  Compound compound = session_.begin("REMOVEXATTR", caller);
  compound.add<op::PUTFH>({handle});
  compound.add<op::REMOVEXATTR>({{name}});
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  REMOVEXATTR4res res;
  if (reply->take<op::PUTFH>() && reply->take<op::REMOVEXATTR>(res)) co_return *res.get<NFS4_OK>();
  co_return session_.error_of(*reply, "REMOVEXATTR", name);
}

async::Task<Result<std::vector<std::string>>> Objects::list_xattrs(Caller caller, nfs_fh4 handle) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "LISTXATTRS", "");
  std::vector<std::string> names;
  std::size_t bytes = 0;
  nfs_cookie4 cookie = 0;
  for (;;) {
    Compound compound = session_.begin("LISTXATTRS", caller);
    compound.add<op::PUTFH>({handle});
    compound.add<op::LISTXATTRS>({cookie, std::min(kListBytes, session_.facts().max_response - 512)});
    auto reply = co_await session_.call(std::move(compound));
    if (!reply) co_return reply.error();
    LISTXATTRS4res res;
    if (!reply->take<op::PUTFH>() || !reply->take<op::LISTXATTRS>(res)) {
      co_return session_.error_of(*reply, "LISTXATTRS", "");
    }
    auto& ok = *res.get<NFS4_OK>();
    for (component4& name : ok.lxr_names.value) {
      bytes += name.value.size() + 1;
      names.push_back(std::move(name.value));
    }
    if (ok.lxr_eof) co_return std::move(names);
    if (ok.lxr_names.value.empty() || ok.lxr_cookie == cookie || bytes > kMostListed) {
      co_return Error(ErrorKind::protocol, bytes > kMostListed ? E2BIG : EPROTO, "LISTXATTRS", "",
                      "the server's list of extended attributes does not end; remove some");
    }
    cookie = ok.lxr_cookie;
  }
}

}  // namespace nfsrdma::nfs4
