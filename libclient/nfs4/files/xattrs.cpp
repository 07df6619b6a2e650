// Extended attributes (RFC 8276): ObjectOperations' operations on them.
#include <algorithm>
#include <cerrno>

#include "nfs4/files/object_operations.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

constexpr count4 kListBytes = 64 * 1024;
/// The most that Linux can list: XATTR_LIST_MAX. A server that sends more must not fill the memory.
constexpr std::size_t kMostListed = 64 * 1024;

setxattr_option4 to_wire(XattrMode mode) {
  if (mode == XattrMode::create) return SETXATTR4_CREATE;
  return mode == XattrMode::replace ? SETXATTR4_REPLACE : SETXATTR4_EITHER;
}

}  // namespace

template <class Op>
async::Task<Result<typename Op::Res>> ObjectOperations::xattr(Caller caller, FileHandle object,
                                                              std::string name, typename Op::Args args) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, Op::name, name);
  Spot spot(object);
  auto res = co_await at<typename Op::Res>(
      std::move(caller), spot, name, Op::name, [&](Compound& compound) { compound.add<Op>(args); },
      [](CompoundReply& reply, typename Op::Res& out) { return reply.take<Op>(out); });
  if (res || res.error().status() != NFS4ERR_NOXATTR) co_return res;
  // RFC 8276 8.4.1: NOXATTR means that the object has no attribute of that name.
  co_return Error(ErrorKind::usage, ENODATA, "xattr", res.error().peer(), "no such extended attribute");
}

async::Task<Result<std::vector<std::byte>>> ObjectOperations::get_xattr(Caller caller, FileHandle object,
                                                                        std::string name) {
  GETXATTR4args args{{name}};
  auto res = co_await xattr<op::GETXATTR>(std::move(caller), object, std::move(name), std::move(args));
  if (!res) co_return res.error();
  co_return std::move(res->get<NFS4_OK>()->value);
}

async::Task<Status> ObjectOperations::set_xattr_once(Caller caller, FileHandle object, std::string name,
                                                     std::vector<std::byte> value, XattrMode mode) {
  if (value.size() > kXattrValueMax && session_.facts().minor_version >= 2)
    co_return status_error(NFS4ERR_XATTR2BIG, "SETXATTR", name);
  SETXATTR4args args{to_wire(mode), {name}, {std::move(value)}};
  auto res = co_await xattr<op::SETXATTR>(std::move(caller), object, std::move(name), std::move(args));
  co_return res ? Status() : res.error();
}

async::Task<Status> ObjectOperations::remove_xattr_once(Caller caller, FileHandle object, std::string name) {
  REMOVEXATTR4args args{{name}};
  auto res = co_await xattr<op::REMOVEXATTR>(std::move(caller), object, std::move(name), std::move(args));
  co_return res ? Status() : res.error();
}

async::Task<Result<std::vector<std::string>>> ObjectOperations::list_xattrs(Caller caller,
                                                                            FileHandle object) {
  const CallLayer& calls = session_;
  std::vector<std::string> names;
  std::size_t bytes = 0;
  LISTXATTRS4args args;
  for (;;) {
    args.lxa_maxcount = std::min(kListBytes, session_.facts().max_response - 512);
    auto res = co_await xattr<op::LISTXATTRS>(caller, object, "", args);
    if (!res) co_return res.error();
    auto& ok = *res->get<NFS4_OK>();
    for (component4& name : ok.lxr_names.value) {
      bytes += name.value.size() + 1;
      names.push_back(std::move(name.value));
    }
    if (ok.lxr_eof) co_return std::move(names);
    if (ok.lxr_names.value.empty() || ok.lxr_cookie == args.lxa_cookie || bytes > kMostListed) {
      co_return Error(ErrorKind::protocol, bytes > kMostListed ? E2BIG : EPROTO, "LISTXATTRS", calls.server(),
                      "the server's list of extended attributes does not end; remove some");
    }
    args.lxa_cookie = ok.lxr_cookie;
  }
}

}  // namespace nfsrdma::nfs4
