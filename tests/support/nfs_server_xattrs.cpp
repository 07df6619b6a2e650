// The test server's extended attributes (RFC 8276).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

using namespace nfs4;

nfsstat4 ServerState::run(Execution& at, op::GETXATTR, const GETXATTR4args& args, GETXATTR4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  const auto found = inode->xattrs.find(args.gxa_name.value);
  if (found == inode->xattrs.end()) return plain(res, NFS4ERR_NOXATTR);
  res.emplace<NFS4_OK>().value = found->second;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::SETXATTR, const SETXATTR4args& args, SETXATTR4res& res) {
  Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  const bool there = inode->xattrs.contains(args.sxa_key.value);
  if (there && args.sxa_option == SETXATTR4_CREATE) return plain(res, NFS4ERR_EXIST);
  if (!there && args.sxa_option == SETXATTR4_REPLACE) return plain(res, NFS4ERR_NOXATTR);
  if (const auto late = recall_others(at, inode->id); late != NFS4_OK) return plain(res, late);
  inode->xattrs[args.sxa_key.value] = args.sxa_value.value;
  touch(*inode);
  res.emplace<NFS4_OK>() = changed(*inode);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::REMOVEXATTR, const REMOVEXATTR4args& args,
                          REMOVEXATTR4res& res) {
  Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (!inode->xattrs.contains(args.rxa_name.value)) return plain(res, NFS4ERR_NOXATTR);
  if (const auto late = recall_others(at, inode->id); late != NFS4_OK) return plain(res, late);
  inode->xattrs.erase(args.rxa_name.value);
  touch(*inode);
  res.emplace<NFS4_OK>() = changed(*inode);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::LISTXATTRS, const LISTXATTRS4args& args, LISTXATTRS4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  LISTXATTRS4resok ok;
  std::uint64_t cookie = 0, size = 8 + 4 + 4;
  for (const auto& [name, value] : inode->xattrs) {
    if (cookie++ < args.lxa_cookie) continue;
    size += 4 + xdr::padded(name.size());
    if (size > args.lxa_maxcount || ok.lxr_names.value.size() == habits.xattrs_at_once) break;
    ok.lxr_names.value.push_back({name});
    ok.lxr_cookie = cookie;
  }
  ok.lxr_eof = args.lxa_cookie + ok.lxr_names.value.size() == inode->xattrs.size();
  if (ok.lxr_names.value.empty() && !ok.lxr_eof) return plain(res, NFS4ERR_TOOSMALL);
  res.emplace<NFS4_OK>() = std::move(ok);
  return NFS4_OK;
}

}  // namespace nfsrdma::testing
