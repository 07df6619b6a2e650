// Access control lists by NFSACL (wire/nfs3/acl.h): the ACL operations of ObjectOperations.
//
// The Reply to GETACL has no bound of its own. At first room for 32 KiB is provided, which is more than Linux
// needs, then as much as a READ may return (RFC 8267 3.1.2).
#include <cerrno>

#include "acl/lists.h"
#include "nfs3/object_operations.h"
#include "wire/nfs3/status.h"

namespace nfsrdma::nfs3 {
namespace {

constexpr AclTag without_flag(std::uint32_t tag) {
  return static_cast<AclTag>(tag & ~NFS_ACL_DEFAULT);
}

Result<PosixAcl> list_of(const aclents& wire) {
  PosixAcl out;
  // Solaris sets bits above the permissions in masks; they have no meaning.
  constexpr std::uint32_t kPermissions = 7;
  for (const aclent& entry : wire.value)
    out.push_back({without_flag(entry.tag), entry.id, entry.perm & kPermissions});
  auto list = acl::ordered(std::move(out));
  if (!list) return list.error();
  // In a list of exactly four entries, a mask that allows what the owning group is allowed was added for the
  // wire, and is removed here.
  if (list->size() == 4 && (*list)[1].tag == AclTag::owning_group && (*list)[2].tag == AclTag::mask &&
      (*list)[1].permissions == (*list)[2].permissions)
    list->erase(list->begin() + 2);
  return list;
}

/// `attributes`: their uid and gid go into the entries of the owner and the owning group, for servers that
/// look at them.
aclents entries_of(const PosixAcl& list, const Attributes& attributes, std::uint32_t flag) {
  aclents out;
  for (const PosixAce& ace : list) {
    std::uint32_t id = ace.id;
    if (ace.tag == AclTag::owner) id = attributes.uid.value_or(0);
    if (ace.tag == AclTag::owning_group) id = attributes.gid.value_or(0);
    if (ace.tag == AclTag::other && list.size() == 3)
      out.value.push_back({static_cast<std::uint32_t>(AclTag::mask) | flag, 0, list[1].permissions});
    out.value.push_back({static_cast<std::uint32_t>(ace.tag) | flag, id, ace.permissions});
  }
  return out;
}

Error no_nfsacl(const std::string& server) {
  return {ErrorKind::server, EOPNOTSUPP, "acl", server,
          "the server does not speak NFSACL, which NFSv3 and NFSv2 need for access control lists; use "
          "vers=4.2, or turn NFSACL on there"};
}

Error broken_list(const std::string& server, const Error& why) {
  return {ErrorKind::protocol, EPROTO, "GETACL", server,
          "the server's access control list is malformed (" + why.message() + ")"};
}

}  // namespace

/// Calls P of NFSACL, and remembers if the server does not have the program.
template <class P>
async::Task<Result<Answer<P>>> ObjectOperations::ask_for_acl(Caller caller, typename P::Args args) {
  if (!has_acls_) co_return no_nfsacl(calls_.server());
  for (std::uint64_t room = reply_sizing::kAclReply;; room = limits_.most_read) {
    auto answer = co_await dialect_.ask_for_acl<P>(caller, args, room);
    if (answer) co_return answer;
    const Error& why = answer.error();
    if (why.errno_value() == EPROTONOSUPPORT) {
      has_acls_ = false;
      co_return no_nfsacl(calls_.server());
    }
    // ERR_CHUNK means that the answer does not fit.
    const bool too_long = why.kind() == ErrorKind::protocol && why.errno_value() == EREMOTEIO;
    if (!too_long || room >= limits_.most_read) co_return why;
  }
}

async::Task<Result<bool>> ObjectOperations::has_acls(Caller caller, FileHandle object) {
  auto acl = co_await get_acl(std::move(caller), object);
  if (acl) co_return true;
  if (acl.error().errno_value() == EOPNOTSUPP) co_return false;
  co_return acl.error();
}

async::Task<Result<Acl>> ObjectOperations::get_acl(Caller caller, FileHandle object) {
  if (Above::is_one(object)) co_return unsupported("GETACL", calls_.server());
  GETACL3args args;
  args.object = to_wire(object);
  args.mask = NA_ACL | NA_ACLCNT | NA_DFACL | NA_DFACLCNT;
  auto answer = co_await ask_for_acl<proc::GETACL>(std::move(caller), args);
  if (!answer) co_return answer.error();
  const GETACL3resok* ok = answer->res.get<NFS3_OK>();
  if (ok == nullptr) co_return status_error(answer->res.tag(), "GETACL", "");
  auto access = list_of(ok->acl.acl);
  if (!access) co_return broken_list(calls_.server(), access.error());
  auto inherited = list_of(ok->acl.dfacl);
  if (!inherited) co_return broken_list(calls_.server(), inherited.error());
  PosixAcls out;
  out.access = std::move(*access);
  out.inherited = std::move(*inherited);
  co_return Acl(std::move(out));
}

async::Task<Status> ObjectOperations::set_acl(Caller caller, FileHandle object, Acl acl) {
  if (Above::is_one(object)) co_return unsupported("SETACL", calls_.server());
  const auto* lists = std::get_if<PosixAcls>(&acl);
  if (lists == nullptr) {
    co_return Error(
        ErrorKind::usage, EOPNOTSUPP, "SETACL", calls_.server(),
        "NFSv3 and NFSv2 have POSIX ACLs only, such as user:joe:rw-; use vers=4.2 for NFSv4 ACLs");
  }
  auto now = co_await attributes(caller, object);
  if (!now) co_return now.error();
  SETACL3args args;
  args.object = to_wire(object);
  args.acl.mask = NA_ACL | NA_ACLCNT;
  args.acl.acl = entries_of(lists->access, *now, 0);
  args.acl.aclcnt = static_cast<std::uint32_t>(args.acl.acl.value.size());
  // For an object that is not a directory no default list is sent, unless the caller gave one. A server
  // removes a default list that the request does not mention.
  if (now->type == FileType::directory || !lists->inherited.empty()) {
    args.acl.mask |= NA_DFACL | NA_DFACLCNT;
    args.acl.dfacl = entries_of(lists->inherited, *now, NFS_ACL_DEFAULT);
    args.acl.dfaclcnt = static_cast<std::uint32_t>(args.acl.dfacl.value.size());
  }
  const engine::Modifications::Scope scope(modifications_, {.any = false, .handle = engine::hash_of(object)});
  auto answer = co_await ask_for_acl<proc::SETACL>(std::move(caller), std::move(args));
  if (!answer) co_return answer.error();
  if (answer->res.get<NFS3_OK>() == nullptr) co_return status_error(answer->res.tag(), "SETACL", "");
  co_return Status();
}

}  // namespace nfsrdma::nfs3
