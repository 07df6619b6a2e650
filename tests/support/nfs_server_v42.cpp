// The test server's operations of NFSv4.2 (RFC 7862 15) and extended attributes (RFC 8276), and what of 4.1
// only a mount uses.
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;

void grow(Inode& inode, std::uint64_t size) {
  if (inode.data.size() < size) inode.data.resize(size);
}

}  // namespace

// ---- names ----

nfsstat4 ServerState::run(Context& at, op::LOOKUPP, const xdr::Void&, LOOKUPP4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  for (const auto& [id, inode] : inodes) {
    for (const auto& [cookie, entry] : inode.entries) {
      if (entry.second != directory->id) continue;
      at.current = id;
      return plain(res, NFS4_OK);
    }
  }
  return plain(res, NFS4ERR_NOENT);
}

nfsstat4 ServerState::run(Context& at, op::RESTOREFH, const xdr::Void&, RESTOREFH4res& res) {
  if (at.saved == 0) return plain(res, NFS4ERR_RESTOREFH);
  at.current = at.saved;
  return plain(res, NFS4_OK);
}

// ---- data and holes ----

bool ServerState::is_data(const Inode& inode, std::uint64_t offset) {
  if (inode.extents.empty()) return true;
  auto extent = inode.extents.upper_bound(offset);
  return extent != inode.extents.begin() && offset < (--extent)->second;
}

/// Where the data or the hole at `offset` ends.
std::uint64_t ServerState::end_of_piece(const Inode& inode, std::uint64_t offset) {
  std::uint64_t end = inode.data.size();
  for (const auto& [begin, stop] : inode.extents) {
    for (const std::uint64_t edge : {begin, stop}) {
      if (edge > offset && is_data(inode, edge) != is_data(inode, offset)) end = std::min(end, edge);
    }
  }
  return end;
}

nfsstat4 ServerState::run(Context& at, op::READ_PLUS, const READ_PLUS4args& args, READ_PLUS4res& res) {
  const Inode* inode = current(at);
  if (const auto bad = check_state(args.rpa_stateid, at); bad != NFS4_OK) return plain(res, bad);
  const std::uint64_t size = inode->data.size();
  std::uint64_t next = std::min(args.rpa_offset, size);
  const std::uint64_t end = std::min<std::uint64_t>(size, next + args.rpa_count);
  read_plus_res4& ok = res.emplace<NFS4_OK>();
  while (next < end && ok.rpr_contents.value.size() < kReadPlusElements) {
    const std::uint64_t stop = std::min(end, end_of_piece(*inode, next));
    if (is_data(*inode, next)) {
      std::string& text = at.answer->storage.emplace_back(inode->data.substr(next, stop - next));
      ok.rpr_contents.value.push_back(read_plus_content::of<NFS4_CONTENT_DATA>(
          data4{next, {std::as_bytes(std::span(text.data(), text.size()))}}));
    } else {
      ok.rpr_contents.value.push_back(read_plus_content::of<NFS4_CONTENT_HOLE>(
          data_info4{next + (gap ? 1 : 0), end_of_piece(*inode, next) - next}));
    }
    next = stop;
  }
  ok.rpr_eof = next == size;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::ALLOCATE, const ALLOCATE4args& args, ALLOCATE4res& res) {
  if (const auto bad = check_state(args.aa_stateid, at); bad != NFS4_OK) return plain(res, bad);
  grow(*current(at), args.aa_offset + args.aa_length);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Context& at, op::DEALLOCATE, const DEALLOCATE4args& args, DEALLOCATE4res& res) {
  if (const auto bad = check_state(args.da_stateid, at); bad != NFS4_OK) return plain(res, bad);
  Inode& inode = *current(at);
  const std::uint64_t begin = std::min<std::uint64_t>(args.da_offset, inode.data.size());
  const std::uint64_t end = std::min<std::uint64_t>(args.da_offset + args.da_length, inode.data.size());
  std::fill(inode.data.begin() + static_cast<std::ptrdiff_t>(begin),
            inode.data.begin() + static_cast<std::ptrdiff_t>(end), '\0');
  inode.stable = inode.data;
  ++inode.change;
  return plain(res, NFS4_OK);
}

// ---- from file to file ----

nfsstat4 ServerState::check_two(Context& at, const stateid4& from, const stateid4& to) {
  if (const auto bad = check_state(to, at); bad != NFS4_OK) return bad;
  Context source = at;
  source.current = at.saved;
  return check_state(from, source);
}

nfsstat4 ServerState::run(Context& at, op::COPY, const COPY4args& args, COPY4res& res) {
  if (const auto bad = check_two(at, args.ca_src_stateid, args.ca_dst_stateid); bad != NFS4_OK) {
    return plain(res, bad);
  }
  if (!args.ca_synchronous || !args.ca_source_server.value.empty())
    problem("a COPY that is not the server's alone");
  const std::string from = inodes.at(at.saved).data;
  const std::string text =
      args.ca_src_offset < from.size() ? from.substr(args.ca_src_offset, args.ca_count) : "";
  Inode& to = *current(at);
  grow(to, args.ca_dst_offset + text.size());
  to.data.replace(args.ca_dst_offset, text.size(), text);
  if (!unstable_copies) to.stable = to.data;
  ++to.change;
  COPY4resok& ok = res.emplace<NFS4_OK>();
  ok.cr_response.wr_count = text.size();
  ok.cr_response.wr_committed = unstable_copies ? UNSTABLE4 : FILE_SYNC4;
  ok.cr_response.wr_writeverf = write_verifier();
  if (!synchronous_copies) ok.cr_response.wr_callback_id.value.push_back(stateid_of(next_id++, 1));
  ok.cr_requirements = {true, synchronous_copies};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::CLONE, const CLONE4args& args, CLONE4res& res) {
  if (const auto bad = check_two(at, args.cl_src_stateid, args.cl_dst_stateid); bad != NFS4_OK) {
    return plain(res, bad);
  }
  const std::string from = inodes.at(at.saved).data;
  const std::uint64_t count = args.cl_count == 0 ? from.size() - args.cl_src_offset : args.cl_count;
  if (args.cl_src_offset + count > from.size()) return plain(res, NFS4ERR_INVAL);
  Inode& to = *current(at);
  grow(to, args.cl_dst_offset + count);
  to.data.replace(args.cl_dst_offset, count, from.substr(args.cl_src_offset, count));
  to.stable = to.data;
  ++to.change;
  return plain(res, NFS4_OK);
}

// ---- extended attributes ----

nfsstat4 ServerState::run(Context& at, op::GETXATTR, const GETXATTR4args& args, GETXATTR4res& res) {
  const Inode* inode = current(at);
  const auto found = inode->xattrs.find(args.gxa_name.value);
  if (found == inode->xattrs.end()) return plain(res, NFS4ERR_NOXATTR);
  res.emplace<NFS4_OK>().value = found->second;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::SETXATTR, const SETXATTR4args& args, SETXATTR4res& res) {
  Inode* inode = current(at);
  const bool there = inode->xattrs.contains(args.sxa_key.value);
  if (there && args.sxa_option == SETXATTR4_CREATE) return plain(res, NFS4ERR_EXIST);
  if (!there && args.sxa_option == SETXATTR4_REPLACE) return plain(res, NFS4ERR_NOXATTR);
  inode->xattrs[args.sxa_key.value] = args.sxa_value.value;
  ++inode->change;
  res.emplace<NFS4_OK>() = {true, inode->change - 1, inode->change};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::REMOVEXATTR, const REMOVEXATTR4args& args, REMOVEXATTR4res& res) {
  Inode* inode = current(at);
  if (inode->xattrs.erase(args.rxa_name.value) == 0) return plain(res, NFS4ERR_NOXATTR);
  ++inode->change;
  res.emplace<NFS4_OK>() = {true, inode->change - 1, inode->change};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::LISTXATTRS, const LISTXATTRS4args& args, LISTXATTRS4res& res) {
  const Inode* inode = current(at);
  LISTXATTRS4resok ok;
  std::uint64_t cookie = 0, used = 8 + 4 + 4;
  for (const auto& [name, value] : inode->xattrs) {
    if (cookie++ < args.lxa_cookie) continue;
    used += 4 + xdr::padded(name.size());
    if (used > args.lxa_maxcount || ok.lxr_names.value.size() == xattrs_at_once) break;
    ok.lxr_names.value.push_back({name});
    ok.lxr_cookie = cookie;
  }
  ok.lxr_eof = args.lxa_cookie + ok.lxr_names.value.size() == inode->xattrs.size();
  if (ok.lxr_names.value.empty() && !ok.lxr_eof) return plain(res, NFS4ERR_TOOSMALL);
  res.emplace<NFS4_OK>() = std::move(ok);
  return NFS4_OK;
}

}  // namespace nfsrdma::testing
