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

async::Task<Result<std::vector<std::byte>>> Objects::get_xattr(Caller caller, Spot spot, std::string name) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "GETXATTR", name);
  GETXATTR4res res;
  auto done = co_await at(
      std::move(caller), spot, name, "GETXATTR",
      [&](Compound& compound) { compound.add<op::GETXATTR>({{name}}); },
      [&](CompoundReply& reply) { return reply.take<op::GETXATTR>(res); });
  if (!done) co_return done.error();
  co_return std::move(res.get<NFS4_OK>()->value);
}

async::Task<Result<change_info4>> Objects::set_xattr_once(Caller caller, Spot spot, std::string name,
                                                          std::vector<std::byte> value,
                                                          setxattr_option4 option) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "SETXATTR", name);
  if (value.size() > kXattrValueMax) co_return status_error(NFS4ERR_XATTR2BIG, "SETXATTR", name);
  SETXATTR4res res;
  auto done = co_await at(
      std::move(caller), spot, name, "SETXATTR",
      [&](Compound& compound) { compound.add<op::SETXATTR>({option, {name}, {value}}); },
      [&](CompoundReply& reply) { return reply.take<op::SETXATTR>(res); });
  if (!done) co_return done.error();
  co_return *res.get<NFS4_OK>();
}

async::Task<Result<change_info4>> Objects::remove_xattr_once(Caller caller, Spot spot, std::string name) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "REMOVEXATTR", name);
  REMOVEXATTR4res res;
  auto done = co_await at(
      std::move(caller), spot, name, "REMOVEXATTR",
      [&](Compound& compound) { compound.add<op::REMOVEXATTR>({{name}}); },
      [&](CompoundReply& reply) { return reply.take<op::REMOVEXATTR>(res); });
  if (!done) co_return done.error();
  co_return *res.get<NFS4_OK>();
}

async::Task<Result<std::vector<std::string>>> Objects::list_xattrs(Caller caller, Spot spot) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "LISTXATTRS", spot.text());
  std::vector<std::string> names;
  std::size_t bytes = 0;
  nfs_cookie4 cookie = 0;
  for (;;) {
    LISTXATTRS4res res;
    auto done = co_await at(
        caller, spot, "", "LISTXATTRS",
        [&](Compound& compound) {
          compound.add<op::LISTXATTRS>({cookie, std::min(kListBytes, session_.facts().max_response - 512)});
        },
        [&](CompoundReply& reply) { return reply.take<op::LISTXATTRS>(res); });
    if (!done) co_return done.error();
    auto& ok = *res.get<NFS4_OK>();
    for (component4& name : ok.lxr_names.value) {
      bytes += name.value.size() + 1;
      names.push_back(std::move(name.value));
    }
    if (ok.lxr_eof) co_return std::move(names);
    if (ok.lxr_names.value.empty() || ok.lxr_cookie == cookie || bytes > kMostListed) {
      co_return Error(ErrorKind::protocol, bytes > kMostListed ? E2BIG : EPROTO, "LISTXATTRS", spot.text(),
                      "the server's list of extended attributes does not end; remove some");
    }
    cookie = ok.lxr_cookie;
  }
}

}  // namespace nfsrdma::nfs4
