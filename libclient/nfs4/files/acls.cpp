// Access control lists: the operations of ObjectOperations on the attribute acl (RFC 8881 6.2.1). The
// attribute has no row in attributes.h, because no other attribute is ever requested with it: the value of an
// fattr4 with this attribute alone is the list, nfsace4<>.
//
// The Reply has room for the largest attrlist4 that is accepted here, 64 KiB. This is as much as Linux hands
// out as an extended attribute, and holds more than 500 entries with long names.
#include <cerrno>

#include "acl/octets.h"
#include "nfs4/files/object_operations.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

// g++ 12 does not take a braced list inside a coroutine.
const bitmap4& acl_only() {
  static const bitmap4 map = bitmap_of({FATTR4_ACL});
  return map;
}
const bitmap4& supported_only() {
  static const bitmap4 map = bitmap_of({FATTR4_SUPPORTED_ATTRS});
  return map;
}

Error no_acls(std::string server) {
  return {ErrorKind::server, EOPNOTSUPP, "acl", std::move(server),
          "the server's file system does not support this kind of access control list"};
}

}  // namespace

async::Task<Result<bool>> ObjectOperations::has_acls(Caller caller, FileHandle object) {
  auto got = co_await getattr(std::move(caller), Spot(object), supported_only());
  if (!got) co_return got.error();
  co_return got->supported_attrs&& has_bit(*got->supported_attrs, FATTR4_ACL);
}

async::Task<Result<Acl>> ObjectOperations::get_acl(Caller caller, FileHandle object) {
  const CallLayer& calls = session_;
  Spot spot(object);
  auto res = co_await at<GETATTR4res>(
      std::move(caller), spot, "", "GETATTR",
      [](Compound& compound) { compound.add<op::GETATTR>({acl_only()}); },
      [](CompoundReply& reply, GETATTR4res& out) { return reply.take<op::GETATTR>(out); });
  if (!res) {
    if (res.error().status() == NFS4ERR_ATTRNOTSUPP) co_return no_acls(calls.server());
    co_return res.error();
  }
  const fattr4& got = res->get<NFS4_OK>()->obj_attributes;
  if (!has_bit(got.attrmask, FATTR4_ACL)) co_return no_acls(calls.server());
  auto list = acl::nfs4_of(got.attr_vals.value);
  if (!list) {
    co_return Error(
        ErrorKind::protocol, EPROTO, "GETATTR", calls.server(),
        "the server's access control list cannot be decoded; please report this with a capture of "
        "the traffic");
  }
  co_return Acl(std::move(*list));
}

async::Task<Status> ObjectOperations::set_acl(Caller caller, FileHandle object, Acl acl) {
  const CallLayer& calls = session_;
  const auto* list = std::get_if<Nfs4Acl>(&acl);
  if (list == nullptr) {
    co_return Error(
        ErrorKind::usage, EOPNOTSUPP, "SETATTR", calls.server(),
        "NFSv4 has its own form of ACLs, such as A::joe@example.org:rwaxtncy; use vers=3 for POSIX ACLs");
  }
  fattr4 wanted;
  wanted.attrmask = acl_only();
  wanted.attr_vals.value = acl::nfs4_octets(*list);
  if (wanted.attr_vals.value.size() > kAttrlistMax) {
    co_return Error(ErrorKind::usage, E2BIG, "SETATTR", calls.server(),
                    "the access control list is longer than 64 KiB; make it shorter");
  }
  session_.delegations().rights_change(object);
  Spot spot(object);
  auto done = co_await at<xdr::Void>(
      std::move(caller), spot, "", "SETATTR",
      [&](Compound& compound) { compound.add<op::SETATTR>({stateid4(), wanted}); },
      [](CompoundReply& reply, xdr::Void& /*out*/) { return reply.take<op::SETATTR>(); });
  if (done) co_return Status();
  if (done.error().status() == NFS4ERR_ATTRNOTSUPP) co_return no_acls(calls.server());
  co_return done.error();
}

}  // namespace nfsrdma::nfs4
