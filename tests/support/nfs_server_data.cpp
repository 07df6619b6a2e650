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

std::uint64_t ServerState::writer_of(const Execution& at) {
  constexpr std::uint64_t kConnections = std::uint64_t{1} << 63;
  return at.client != 0 ? at.client : kConnections | at.connection;
}

void ServerState::drop_unstable(Inode& inode) {
  inode.unstable_of.clear();
  if (inode.content.volatile_bytes() == 0) return;
  const std::uint64_t before = inode.content.size();
  used -= before;
  inode.content.lose();
  used += inode.content.size();
  // What was seen of it is not what is there now.
  touch(inode);
  inode.loss = {inode.change, before};
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

void ServerState::put(const Principal& who, Inode& inode, std::uint64_t offset, std::string_view data,
                      bool stable) {
  const std::uint64_t before = inode.content.size();
  inode.content.write(offset, data, stable);
  used += inode.content.size() - before;
  touch(inode);
  inode.modified = inode.altered;
  if (who.uid != 0) inode.mode &= ~kSetIds;
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
  const std::uint64_t most = habits.most_read == 0 ? ~0ULL : habits.most_read;
  const std::uint64_t count = std::min<std::uint64_t>({args.count, size - begin, habits.short_reads, most});
  if (count == 0) at.answer->empty_results.push_back(at.answer->message.items.size());
  READ4resok& ok = res.emplace<NFS4_OK>();
  ok.eof = begin + count == size;
  ok.data.data = bytes_of(at.answer->storage.emplace_back(inode.content.data(), begin, count));
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::WRITE, const WRITE4args& args, WRITE4res& res) {
  if (const auto bad = check_change(args.stateid, at); bad != NFS4_OK) return plain(res, bad);
  Inode& inode = *current(at);
  std::string_view data = chars(args.data.data).substr(0, habits.short_writes);
  if (habits.most_written != 0 && args.data.data.size() > habits.most_written)
    problem("a WRITE over maxwrite");
  if (chance.percent(habits.new_verifier_percent)) ++verifier_;
  stable_how4 committed = habits.stable_writes ? FILE_SYNC4 : args.stable;
  if (habits.ignores_stability) committed = UNSTABLE4;
  std::uint64_t most = ~0ULL;
  const auto bad = make_room(inode, args.offset + data.size(), committed == UNSTABLE4, most);
  if (bad != NFS4_OK) return plain(res, bad);
  if (most <= args.offset && !data.empty()) return plain(res, habits.full_status);
  data = data.substr(0, most - args.offset);
  put(at.who, inode, args.offset, data, committed != UNSTABLE4);
  if (committed == UNSTABLE4) inode.unstable_of.insert(writer_of(at));
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
  // Not what another client wrote, too: it could not know before its own COMMIT.
  const bool is_own = inode->unstable_of == std::set{writer_of(at)};
  if (inode->content.volatile_bytes() != 0 && is_own && chance.percent(habits.lost_at_commit_percent)) {
    drop_unstable(*inode);
    ++verifier_;
  }
  if (chance.percent(habits.new_verifier_percent)) ++verifier_;
  const bool whole = habits.commits_whole_file || args.count == 0;
  inode->content.commit(habits.commits_whole_file ? 0 : args.offset,
                        whole ? ~0ULL : args.offset + args.count);
  if (inode->content.volatile_bytes() == 0) inode->unstable_of.clear();
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
  using enum Habits::Elements;
  if (!habits.has_read_plus) return plain(res, NFS4ERR_NOTSUPP);
  if (const auto bad = check_io(args.rpa_stateid, at, OPEN4_SHARE_ACCESS_READ); bad != NFS4_OK) {
    return plain(res, bad);
  }
  const Inode& inode = *current(at);
  if (const auto bad = check_regular(inode); bad != NFS4_OK) return plain(res, bad);
  const Content& content = inode.content;
  const std::uint64_t size = content.size();
  const std::uint64_t most = habits.most_read == 0 ? ~0ULL : habits.most_read;
  std::uint64_t next = std::min(args.rpa_offset, size);
  const std::uint64_t end =
      next + std::min<std::uint64_t>({args.rpa_count, size - next, habits.short_reads, most});
  read_plus_res4& ok = res.emplace<NFS4_OK>();
  ok.rpr_eof = habits.elements == nothing;
  if (ok.rpr_eof) {
    at.answer->empty_results.push_back(at.answer->message.items.size());
    return NFS4_OK;
  }
  auto& elements = ok.rpr_contents.value;
  const std::size_t wanted = habits.elements == one ? 1 : kReadPlusElements;
  const std::size_t items = at.answer->message.items.size();
  std::size_t with_data = 0;
  while (next < end && elements.size() < wanted) {
    std::uint64_t stop = habits.elements == data_only ? end : std::min(end, content.end_of_piece(next));
    if (habits.elements == data_only || content.is_data(next)) {
      // Linux, which doubles data, does not split it. If the Reply's stream has all of split data in it, it has 4 bytes of
      // padding more than a client can expect.
      const bool splits = habits.elements == split && habits.plus_chunk == Habits::PlusChunk::used;
      if (splits && stop - next > 1 && elements.empty()) stop = next + (stop - next) / 2;
      const std::string& text = at.answer->storage.emplace_back(content.data(), next, stop - next);
      elements.push_back(read_plus_content::of<NFS4_CONTENT_DATA>(data4{next, {bytes_of(text)}}));
      const bool first = with_data++ == 0;
      if (!first || habits.plus_chunk == Habits::PlusChunk::unused)
        at.answer->kept_inline.push_back(items + with_data - 1);
      if (first && habits.plus_chunk == Habits::PlusChunk::doubled) at.answer->doubled.push_back(items);
    } else {
      const std::uint64_t told = habits.elements == within ? stop : content.end_of_piece(next);
      elements.push_back(
          read_plus_content::of<NFS4_CONTENT_HOLE>(data_info4{next + (gap ? 1 : 0), told - next}));
    }
    next = stop;
  }
  if (with_data == 0) at.answer->empty_results.push_back(items);
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

nfsstat4 ServerState::copy(const CopyState& one, std::uint64_t& copied) {
  copied = 0;
  if (!inodes.contains(one.from) || !inodes.contains(one.to)) return NFS4ERR_STALE;
  const std::string& from = inodes.at(one.from).content.data();
  const std::uint64_t wanted = one.count == 0 ? ~0ULL : one.count;
  std::string text =
      one.from_offset < from.size() ? from.substr(one.from_offset, std::min(wanted, habits.most_copied)) : "";
  Inode& to = inodes.at(one.to);
  std::uint64_t most = ~0ULL;
  const auto bad = make_room(to, one.to_offset + text.size(), habits.unstable_copies, most);
  if (bad != NFS4_OK) return bad;
  if (most <= one.to_offset && !text.empty()) return habits.full_status;
  text.resize(std::min<std::uint64_t>(text.size(), most - one.to_offset));
  put(one.who, to, one.to_offset, text, !habits.unstable_copies);
  if (habits.unstable_copies) to.unstable_of.insert(one.client);
  copied = text.size();
  return NFS4_OK;
}

void ServerState::end_copy(std::uint64_t number) {
  CopyState& one = copies.at(number);
  one.ended = copy_fails ? *copy_fails : copy(one, one.copied);
}

nfsstat4 ServerState::run(Execution& at, op::COPY, const COPY4args& args, COPY4res& res) {
  if (const auto bad = check_two(at, args.ca_src_stateid, args.ca_dst_stateid); bad != NFS4_OK) {
    return plain(res, bad);
  }
  if (!args.ca_source_server.value.empty()) problem("a COPY that is not the server's alone");
  using Copies = Habits::Copies;
  const bool at_once = habits.copies == Copies::at_once;
  if (habits.copies == Copies::in_background && args.ca_synchronous) {
    res.emplace<NFS4ERR_OFFLOAD_NO_REQS>() = {true, false};
    return NFS4ERR_OFFLOAD_NO_REQS;
  }
  CopyState one;
  one.client = at.client;
  one.from = at.saved;
  one.to = at.current;
  one.from_offset = args.ca_src_offset;
  one.to_offset = args.ca_dst_offset;
  one.count = args.ca_count;
  one.who = at.who;
  COPY4resok ok;
  ok.cr_response.wr_committed = habits.unstable_copies ? UNSTABLE4 : FILE_SYNC4;
  ok.cr_response.wr_writeverf = write_verifier();
  ok.cr_requirements = {true, at_once};
  if (at_once) {
    if (const auto bad = copy(one, ok.cr_response.wr_count); bad != NFS4_OK) return plain(res, bad);
  } else {
    const std::uint64_t number = next_id++;
    copies[number] = one;
    ok.cr_response.wr_callback_id.value.push_back(stateid_of(number, 1));
    if (call_copier) call_copier(number);
  }
  res.emplace<NFS4_OK>() = ok;
  return NFS4_OK;
}

// Not as unknown operations, which would be OP_ILLEGAL: a client takes both for the same.
nfsstat4 ServerState::check_copy(const Execution& at, const stateid4& stateid) const {
  if (!habits.knows_of_copies) return NFS4ERR_NOTSUPP;
  if (boot_of(stateid) != boot) return status_of_old_boot();
  const auto found = copies.find(number_of(stateid));
  return found != copies.end() && found->second.client == at.client ? NFS4_OK : NFS4ERR_BAD_STATEID;
}

nfsstat4 ServerState::run(Execution& at, op::OFFLOAD_STATUS, const OFFLOAD_STATUS4args& args,
                          OFFLOAD_STATUS4res& res) {
  if (current(at) == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (const auto bad = check_copy(at, args.osa_stateid); bad != NFS4_OK) return plain(res, bad);
  const CopyState& one = copies.at(number_of(args.osa_stateid));
  OFFLOAD_STATUS4resok& ok = res.emplace<NFS4_OK>();
  ok.osr_count = one.copied;
  if (one.ended) ok.osr_complete.value.push_back(*one.ended);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::OFFLOAD_CANCEL, const OFFLOAD_CANCEL4args& args,
                          OFFLOAD_CANCEL4res& res) {
  if (current(at) == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (const auto bad = check_copy(at, args.oca_stateid); bad != NFS4_OK) return plain(res, bad);
  copies.erase(number_of(args.oca_stateid));
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::CLONE, const CLONE4args& args, CLONE4res& res) {
  if (const auto bad = check_two(at, args.cl_src_stateid, args.cl_dst_stateid); bad != NFS4_OK) {
    return plain(res, bad);
  }
  const std::string& from = inodes.at(at.saved).content.data();
  const auto at_block = [&](std::uint64_t offset) { return offset % clone_block == 0; };
  const bool to_the_end = args.cl_count == 0 || args.cl_src_offset + args.cl_count == from.size();
  if (!at_block(args.cl_src_offset) || !at_block(args.cl_dst_offset) ||
      (!at_block(args.cl_count) && !to_the_end)) {
    return plain(res, NFS4ERR_INVAL);
  }
  if (args.cl_src_offset > from.size()) return plain(res, NFS4ERR_INVAL);
  const std::uint64_t count = args.cl_count == 0 ? from.size() - args.cl_src_offset : args.cl_count;
  if (count > from.size() - args.cl_src_offset) return plain(res, NFS4ERR_INVAL);
  Inode& to = *current(at);
  std::uint64_t most = ~0ULL;
  const auto bad = make_room(to, args.cl_dst_offset + count, false, most);
  if (bad != NFS4_OK) return plain(res, bad);
  if (most < args.cl_dst_offset + count) return plain(res, habits.full_status);
  put(at.who, to, args.cl_dst_offset, std::string(from, args.cl_src_offset, count), true);
  return plain(res, NFS4_OK);
}

}  // namespace nfsrdma::testing
