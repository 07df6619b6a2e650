// The test server's byte-range locks (RFC 8881 9, 18.10 to 18.12, 18.18).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;

LockPiece piece_of(std::uint64_t offset, std::uint64_t length, nfs_lock_type4 type) {
  const std::uint64_t end = length > ~offset ? ~0ULL : offset + length;
  return {offset, end, type == WRITE_LT || type == WRITEW_LT};
}

bool overlap(const LockPiece& a, const LockPiece& b) {
  return a.begin < b.end && b.begin < a.end;
}

void cut(std::vector<LockPiece>& pieces, const LockPiece& out) {
  std::vector<LockPiece> left;
  for (const LockPiece& piece : pieces) {
    if (!overlap(piece, out)) {
      left.push_back(piece);
      continue;
    }
    if (piece.begin < out.begin) left.push_back({piece.begin, out.begin, piece.write});
    if (piece.end > out.end) left.push_back({out.end, piece.end, piece.write});
  }
  pieces = std::move(left);
}

void put(std::vector<LockPiece>& pieces, LockPiece in) {
  cut(pieces, in);
  for (auto at = pieces.begin(); at != pieces.end();) {
    const bool joins = at->write == in.write && (at->end == in.begin || at->begin == in.end);
    if (!joins) {
      ++at;
      continue;
    }
    in.begin = std::min(in.begin, at->begin);
    in.end = std::max(in.end, at->end);
    at = pieces.erase(at);
  }
  pieces.push_back(in);
}

}  // namespace

LOCK4denied* ServerState::conflict(std::uint64_t inode, const LockOwnerState& mine, const LockPiece& wanted,
                                   LOCK4denied& denied) {
  for (const auto& [number, one] : locks) {
    if (one.inode != inode || (one.client == mine.client && one.owner == mine.owner)) continue;
    for (const LockPiece& piece : one.pieces) {
      if (!overlap(piece, wanted) || (!piece.write && !wanted.write)) continue;
      denied.offset = piece.begin;
      denied.length = piece.end == ~0ULL ? ~0ULL : piece.end - piece.begin;
      denied.locktype = piece.write ? WRITE_LT : READ_LT;
      denied.owner.clientid = one.client;
      denied.owner.owner.value = one.owner;
      return &denied;
    }
  }
  return nullptr;
}

void ServerState::wake_waiters(std::uint64_t inode) {
  for (const LockOwnerState& one : waiting) {
    if (one.inode != inode || !notify_locks) continue;
    CB_NOTIFY_LOCK4args args;
    args.cnla_fh = handle_of(inode);
    args.cnla_lock_owner.clientid = one.client;
    args.cnla_lock_owner.owner.value = one.owner;
    call_waiter(one.client, args);
  }
  std::erase_if(waiting, [&](const LockOwnerState& one) { return one.inode == inode; });
}

void ServerState::lock_locally(std::uint64_t inode, LockPiece piece) {
  LockOwnerState& one = locks[next_id++];
  one.inode = inode;
  one.pieces = {piece};
}

void ServerState::unlock_locally(std::uint64_t inode) {
  std::erase_if(locks, [&](const auto& e) { return e.second.client == 0 && e.second.inode == inode; });
  wake_waiters(inode);
}

nfsstat4 ServerState::check_lock(const stateid4& stateid, const Context& at) {
  if (boot_of(stateid) != boot) return NFS4ERR_STALE_STATEID;
  const auto found = locks.find(number_of(stateid));
  if (found == locks.end() || found->second.client != at.client) return NFS4ERR_BAD_STATEID;
  if (stateid.seqid != 0 && stateid.seqid < found->second.seqid) return NFS4ERR_OLD_STATEID;
  return NFS4_OK;
}

/// The lock owner's state on the file, made if it is new.
nfsstat4 ServerState::find_lock_owner(const Context& at, const LOCK4args& args, std::uint64_t& number) {
  if (const exist_lock_owner4* known = args.locker.get<false>()) {
    number = number_of(known->lock_stateid);
    return check_lock(known->lock_stateid, at);
  }
  const open_to_lock_owner4& fresh = *args.locker.get<true>();
  if (const auto bad = check_state(fresh.open_stateid, at); bad != NFS4_OK) return bad;
  for (const auto& [key, one] : locks) {
    if (one.client == at.client && one.inode == at.current && one.owner == fresh.lock_owner.owner.value) {
      number = key;
      return NFS4_OK;
    }
  }
  number = next_id++;
  locks[number] = {at.client, at.current, number_of(fresh.open_stateid), 0, fresh.lock_owner.owner.value, {}};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::LOCK, const LOCK4args& args, LOCK4res& res) {
  if (args.reclaim && (!in_grace() || clients.at(at.client).reclaimed)) return plain(res, NFS4ERR_NO_GRACE);
  if (!args.reclaim && in_grace()) return plain(res, NFS4ERR_GRACE);
  if (args.length == 0) return plain(res, NFS4ERR_INVAL);
  std::uint64_t number = 0;
  if (const auto bad = find_lock_owner(at, args, number); bad != NFS4_OK) return plain(res, bad);
  LockOwnerState& mine = locks.at(number);
  const LockPiece wanted = piece_of(args.offset, args.length, args.locktype);
  const std::uint32_t needed = wanted.write ? OPEN4_SHARE_ACCESS_WRITE : OPEN4_SHARE_ACCESS_READ;
  if ((opens.at(mine.open).access & needed) == 0) return plain(res, NFS4ERR_OPENMODE);
  LOCK4denied denied;
  if (conflict(mine.inode, mine, wanted, denied) != nullptr) {
    if (args.locktype == READW_LT || args.locktype == WRITEW_LT) waiting.push_back(mine);
    if (mine.pieces.empty() && mine.seqid == 0) locks.erase(number);  // it never began
    res.emplace<NFS4ERR_DENIED>() = denied;
    return NFS4ERR_DENIED;
  }
  put(mine.pieces, wanted);
  res.emplace<NFS4_OK>().lock_stateid = stateid_of(number, ++mine.seqid);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::LOCKT, const LOCKT4args& args, LOCKT4res& res) {
  LockOwnerState mine;
  mine.client = at.client;
  mine.owner = args.owner.owner.value;
  LOCK4denied denied;
  const LockPiece wanted = piece_of(args.offset, args.length, args.locktype);
  if (conflict(at.current, mine, wanted, denied) == nullptr) return plain(res, NFS4_OK);
  res.emplace<NFS4ERR_DENIED>() = denied;
  return NFS4ERR_DENIED;
}

nfsstat4 ServerState::run(Context& at, op::LOCKU, const LOCKU4args& args, LOCKU4res& res) {
  if (const auto bad = check_lock(args.lock_stateid, at); bad != NFS4_OK) return plain(res, bad);
  const std::uint64_t number = number_of(args.lock_stateid);
  LockOwnerState& mine = locks.at(number);
  cut(mine.pieces, piece_of(args.offset, args.length, args.locktype));
  res.emplace<NFS4_OK>() = stateid_of(number, ++mine.seqid);
  wake_waiters(mine.inode);
  return NFS4_OK;
}

/// Linux lets it go back only to what it was opened with by itself (18.18.3 allows unions, too).
nfsstat4 ServerState::run(Context& at, op::OPEN_DOWNGRADE, const OPEN_DOWNGRADE4args& args,
                          OPEN_DOWNGRADE4res& res) {
  if (const auto bad = check_state(args.open_stateid, at); bad != NFS4_OK) return plain(res, bad);
  const std::uint64_t number = number_of(args.open_stateid);
  OpenState& open = opens.at(number);
  if ((open.had & (1U << args.share_access)) == 0) return plain(res, NFS4ERR_INVAL);
  open.access = args.share_access;
  open.had &= (1U << args.share_access) | (args.share_access == OPEN4_SHARE_ACCESS_BOTH ? 6U : 0U);
  res.emplace<NFS4_OK>().open_stateid = stateid_of(number, ++open.seqid);
  return NFS4_OK;
}

}  // namespace nfsrdma::testing
