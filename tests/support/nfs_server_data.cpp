// The test server's data: READ, WRITE, COMMIT, holes, copies (RFC 8881 18.3, 18.22, 18.32; RFC 7862 15).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;

constexpr std::uint64_t kLargestFile = 1ULL << 32;  // what a test may ever mean

std::string_view chars(xdr::ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
xdr::ConstBytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

constexpr mode4 kSetIds = 06000;

}  // namespace

verifier4 ServerState::write_verifier() const {
  verifier4 out{};
  xdr::store_u64(out.data(), 0xab00 + (boot << 32) + verifier_);
  return out;
}

void ServerState::drop_unstable(Inode& inode) {
  if (inode.content.volatile_bytes() == 0) return;
  used -= inode.content.size();
  inode.content.lose();
  used += inode.content.size();
  // What was seen of it is not what is there now.
  touch(inode);
}

void ServerState::resize(Inode& inode, std::uint64_t size) {
  size = std::min(size, kLargestFile);
  used += size - inode.content.size();
  inode.content.resize(size);
  touch(inode);
  inode.modified = inode.altered;
}

/// Whether the file may grow to `end`; up to where it may grow is left in `most`.
nfsstat4 ServerState::make_room(Inode& inode, std::uint64_t end, bool unstable, std::uint64_t& most) {
  if (end > kLargestFile) return NFS4ERR_FBIG;
  const std::uint64_t size = inode.content.size();
  if (!space || end <= size || used + (end - size) <= *space) return NFS4_OK;
  if (habits.late_no_space) {
    if (unstable && used <= *space) return NFS4_OK;
    // It was promised and cannot be kept.
    if (inode.content.volatile_bytes() != 0) ++verifier_;
    drop_unstable(inode);
    return habits.full_status;
  }
  most = size + (*space - std::min(*space, used));
  return most > size ? NFS4_OK : habits.full_status;
}

void ServerState::put(Execution& at, Inode& inode, std::uint64_t offset, std::string_view data, bool stable) {
  const std::uint64_t before = inode.content.size();
  inode.content.write(offset, data, stable);
  used += inode.content.size() - before;
  touch(inode);
  inode.modified = inode.altered;
  if (at.who.uid != 0) inode.mode &= ~kSetIds;
  if (habits.verifier_in_times) inode.exclusive.reset();
}

// ---- READ, WRITE, COMMIT ----

nfsstat4 ServerState::run(Execution& at, op::READ, const READ4args& args, READ4res& res) {
  if (const auto bad = check_io(args.stateid, at, OPEN4_SHARE_ACCESS_READ); bad != NFS4_OK) {
    return plain(res, bad);
  }
  const Inode& inode = *current(at);
  if (const auto bad = check_regular(inode); bad != NFS4_OK) return plain(res, bad);
  const std::uint64_t size = inode.content.size();
  const std::uint64_t begin = std::min(args.offset, size);
  const std::uint64_t count = std::min<std::uint64_t>({args.count, size - begin, habits.short_reads});
  READ4resok& ok = res.emplace<NFS4_OK>();
  ok.eof = begin + count == size;
  ok.data.data = bytes_of(at.answer->storage.emplace_back(inode.content.data(), begin, count));
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::WRITE, const WRITE4args& args, WRITE4res& res) {
  if (const auto bad = check_change(args.stateid, at); bad != NFS4_OK) return plain(res, bad);
  Inode& inode = *current(at);
  std::string_view data = chars(args.data.data).substr(0, habits.short_writes);
  const stable_how4 committed = habits.stable_writes ? FILE_SYNC4 : args.stable;
  std::uint64_t most = ~0ULL;
  const auto bad = make_room(inode, args.offset + data.size(), committed == UNSTABLE4, most);
  if (bad != NFS4_OK) return plain(res, bad);
  if (most <= args.offset && !data.empty()) return plain(res, habits.full_status);
  data = data.substr(0, most - args.offset);
  put(at, inode, args.offset, data, committed != UNSTABLE4);
  res.emplace<NFS4_OK>() = {static_cast<count4>(data.size()), committed, write_verifier()};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::COMMIT, const COMMIT4args& args, COMMIT4res& res) {
  Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (const auto bad = check_regular(*inode); bad != NFS4_OK) return plain(res, bad);
  if (habits.late_no_space && space && used > *space && inode->content.volatile_bytes() != 0) {
    drop_unstable(*inode);
    ++verifier_;
    return plain(res, habits.full_status);
  }
  const bool whole = habits.commits_whole_file || args.count == 0;
  inode->content.commit(habits.commits_whole_file ? 0 : args.offset,
                        whole ? ~0ULL : args.offset + args.count);
  res.emplace<NFS4_OK>().writeverf = write_verifier();
  return NFS4_OK;
}

// ---- holes ----

nfsstat4 ServerState::run(Execution& at, op::SEEK, const SEEK4args& args, SEEK4res& res) {
  if (const auto bad = check_io(args.sa_stateid, at, 0); bad != NFS4_OK) return plain(res, bad);
  const Content& content = current(at)->content;
  const bool wanted = args.sa_what == NFS4_CONTENT_DATA;
  if (args.sa_offset >= content.size()) return plain(res, NFS4ERR_NXIO);
  std::uint64_t next = args.sa_offset;
  while (next < content.size() && content.is_data(next) != wanted) next = content.end_of_piece(next);
  if (next < content.size()) {
    res.emplace<NFS4_OK>() = {false, next};
    return NFS4_OK;
  }
  if (wanted) return plain(res, NFS4ERR_NXIO);
  res.emplace<NFS4_OK>() = {true, content.size()};  // the hole behind the end
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::READ_PLUS, const READ_PLUS4args& args, READ_PLUS4res& res) {
  if (const auto bad = check_io(args.rpa_stateid, at, OPEN4_SHARE_ACCESS_READ); bad != NFS4_OK) {
    return plain(res, bad);
  }
  const Content& content = current(at)->content;
  const std::uint64_t size = content.size();
  std::uint64_t next = std::min(args.rpa_offset, size);
  const std::uint64_t end = std::min<std::uint64_t>(size, next + args.rpa_count);
  read_plus_res4& ok = res.emplace<NFS4_OK>();
  while (next < end && ok.rpr_contents.value.size() < kReadPlusElements) {
    const std::uint64_t stop = std::min(end, content.end_of_piece(next));
    if (content.is_data(next)) {
      const std::string& text = at.answer->storage.emplace_back(content.data(), next, stop - next);
      ok.rpr_contents.value.push_back(
          read_plus_content::of<NFS4_CONTENT_DATA>(data4{next, {bytes_of(text)}}));
    } else {
      ok.rpr_contents.value.push_back(read_plus_content::of<NFS4_CONTENT_HOLE>(
          data_info4{next + (gap ? 1 : 0), content.end_of_piece(next) - next}));
    }
    next = stop;
  }
  ok.rpr_eof = next == size;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::ALLOCATE, const ALLOCATE4args& args, ALLOCATE4res& res) {
  if (const auto bad = check_change(args.aa_stateid, at); bad != NFS4_OK) return plain(res, bad);
  Inode& inode = *current(at);
  const std::uint64_t end = args.aa_offset + args.aa_length;
  std::uint64_t most = ~0ULL;
  if (const auto bad = make_room(inode, end, false, most); bad != NFS4_OK) return plain(res, bad);
  if (most < end) return plain(res, habits.full_status);
  if (end > inode.content.size()) resize(inode, end);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::DEALLOCATE, const DEALLOCATE4args& args, DEALLOCATE4res& res) {
  if (const auto bad = check_change(args.da_stateid, at); bad != NFS4_OK) return plain(res, bad);
  Inode& inode = *current(at);
  inode.content.punch(args.da_offset, args.da_offset + args.da_length);
  touch(inode);
  inode.modified = inode.altered;
  return plain(res, NFS4_OK);
}

// ---- from file to file ----

nfsstat4 ServerState::check_two(Execution& at, const stateid4& from, const stateid4& to) {
  if (const auto bad = check_change(to, at); bad != NFS4_OK) return bad;
  if (!inodes.contains(at.saved)) return NFS4ERR_NOFILEHANDLE;
  const std::uint64_t current = std::exchange(at.current, at.saved);
  const auto stateid = std::exchange(at.current_stateid, at.saved_stateid);
  const nfsstat4 status = check_io(from, at, OPEN4_SHARE_ACCESS_READ);
  at.current = current;
  at.current_stateid = stateid;
  return status;
}

nfsstat4 ServerState::run(Execution& at, op::COPY, const COPY4args& args, COPY4res& res) {
  if (const auto bad = check_two(at, args.ca_src_stateid, args.ca_dst_stateid); bad != NFS4_OK) {
    return plain(res, bad);
  }
  if (!args.ca_synchronous || !args.ca_source_server.value.empty())
    problem("a COPY that is not the server's alone");
  const std::string& from = inodes.at(at.saved).content.data();
  const std::uint64_t wanted = args.ca_count == 0 ? ~0ULL : args.ca_count;
  std::string text = args.ca_src_offset < from.size() ? from.substr(args.ca_src_offset, wanted) : "";
  Inode& to = *current(at);
  std::uint64_t most = ~0ULL;
  const auto bad = make_room(to, args.ca_dst_offset + text.size(), habits.unstable_copies, most);
  if (bad != NFS4_OK) return plain(res, bad);
  if (most <= args.ca_dst_offset && !text.empty()) return plain(res, habits.full_status);
  text.resize(std::min<std::uint64_t>(text.size(), most - args.ca_dst_offset));
  put(at, to, args.ca_dst_offset, text, !habits.unstable_copies);
  COPY4resok& ok = res.emplace<NFS4_OK>();
  ok.cr_response.wr_count = text.size();
  ok.cr_response.wr_committed = habits.unstable_copies ? UNSTABLE4 : FILE_SYNC4;
  ok.cr_response.wr_writeverf = write_verifier();
  if (!habits.synchronous_copies) ok.cr_response.wr_callback_id.value.push_back(stateid_of(next_id++, 1));
  ok.cr_requirements = {true, habits.synchronous_copies};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::CLONE, const CLONE4args& args, CLONE4res& res) {
  if (const auto bad = check_two(at, args.cl_src_stateid, args.cl_dst_stateid); bad != NFS4_OK) {
    return plain(res, bad);
  }
  const std::string& from = inodes.at(at.saved).content.data();
  if (args.cl_src_offset > from.size()) return plain(res, NFS4ERR_INVAL);
  const std::uint64_t count = args.cl_count == 0 ? from.size() - args.cl_src_offset : args.cl_count;
  if (count > from.size() - args.cl_src_offset) return plain(res, NFS4ERR_INVAL);
  Inode& to = *current(at);
  std::uint64_t most = ~0ULL;
  const auto bad = make_room(to, args.cl_dst_offset + count, false, most);
  if (bad != NFS4_OK) return plain(res, bad);
  if (most < args.cl_dst_offset + count) return plain(res, habits.full_status);
  put(at, to, args.cl_dst_offset, std::string(from, args.cl_src_offset, count), true);
  return plain(res, NFS4_OK);
}

}  // namespace nfsrdma::testing
