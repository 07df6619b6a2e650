// The test server's byte-range locks (RFC 8881 9, 18.10 to 18.12).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;

bool is_write(nfs_lock_type4 type) {
  return type == WRITE_LT || type == WRITEW_LT;
}

/// A length of all ones means up to the end, whatever it will be; one that goes beyond is invalid (18.10.3).
bool is_range(std::uint64_t offset, std::uint64_t length) {
  return length != 0 && (length == ~0ULL || length <= ~offset);
}

LockPiece piece_of(std::uint64_t offset, std::uint64_t length, nfs_lock_type4 type) {
  const std::uint64_t end = length > ~offset ? ~0ULL : offset + length;
  return {offset, end, is_write(type)};
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

void join(std::vector<LockPiece>& pieces, LockPiece in) {
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

/// Whether somebody else's lock is in the way. One whose lease has run out loses it here.
bool ServerState::conflict(std::uint64_t inode, const LockOwnerState& mine, const LockPiece& wanted,
                           LOCK4denied& denied) {
  std::set<clientid4> late;
  bool found = false;
  for (const auto& [number, one] : locks) {
    if (one.inode != inode || (one.client == mine.client && one.owner == mine.owner)) continue;
    for (const LockPiece& piece : one.pieces) {
      if (found || !overlap(piece, wanted) || (!piece.write && !wanted.write)) continue;
      if (one.client != 0 && one.client != mine.client && is_expired(clients.at(one.client))) {
        late.insert(one.client);
        continue;
      }
      denied.offset = piece.begin;
      denied.length = piece.end == ~0ULL ? ~0ULL : piece.end - piece.begin;
      denied.locktype = piece.write ? WRITE_LT : READ_LT;
      denied.owner.clientid = one.client;
      denied.owner.owner.value = one.owner;
      found = true;
    }
  }
  for (const clientid4 client : late) end_courtesy(client);
  return found;
}

void ServerState::wake_waiters(std::uint64_t inode) {
  std::vector<LockOwnerState> woken;
  std::erase_if(waiting, [&](const LockOwnerState& one) {
    if (one.inode == inode) woken.push_back(one);
    return one.inode == inode;
  });
  if (!habits.notify_locks || !call_waiter) return;
  for (const LockOwnerState& one : woken) {
    CB_NOTIFY_LOCK4args args;
    args.cnla_fh = handle_of(inode);
    args.cnla_lock_owner.clientid = one.client;
    args.cnla_lock_owner.owner.value = one.owner;
    call_waiter(one.client, args);
  }
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

nfsstat4 ServerState::check_lock(const stateid4& given, Execution& at, std::uint64_t& number) {
  stateid4 stateid;
  if (const auto bad = resolve(given, at, stateid); bad != NFS4_OK) return bad;
  if (boot_of(stateid) != boot) return status_of_old_boot();
  number = number_of(stateid);
  const auto found = locks.find(number);
  if (found == locks.end()) return expired_.contains(number) ? NFS4ERR_EXPIRED : NFS4ERR_BAD_STATEID;
  LockOwnerState& one = found->second;
  const nfsstat4 status = check_known(stateid, one.seqid, one.client, one.inode, one.revoked, at);
  one.told = one.told || (one.revoked != Revoked::no && one.client == at.client);
  return status;
}

/// The lock owner's state on the file, made if it is new.
nfsstat4 ServerState::find_lock_owner(Execution& at, const LOCK4args& args, std::uint64_t& number) {
  if (const exist_lock_owner4* known = args.locker.get<false>()) {
    return check_lock(known->lock_stateid, at, number);
  }
  const open_to_lock_owner4& asked = *args.locker.get<true>();
  std::uint64_t open = 0;
  if (const auto bad = check_open(asked.open_stateid, at, open); bad != NFS4_OK) return bad;
  for (const auto& [key, one] : locks) {
    if (one.client == at.client && one.inode == at.current && one.owner == asked.lock_owner.owner.value &&
        one.revoked == Revoked::no) {
      number = key;
      return NFS4_OK;
    }
  }
  number = next_id++;
  LockOwnerState& made = locks[number];
  made.client = at.client;
  made.inode = at.current;
  made.open = open;
  made.owner = asked.lock_owner.owner.value;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::LOCK, const LOCK4args& args, LOCK4res& res) {
  if (at.minor == 0) {
    if (const auto bad = client_of_lock(at, args); bad != NFS4_OK) return plain(res, bad);
  }
  if (args.reclaim) {
    if (const auto bad = check_reclaim(at); bad != NFS4_OK) return plain(res, bad);
    // 8.4.3: somebody else may have had the lock since.
    if (taken_before_.contains({clients.at(at.client).owner, at.current}))
      return plain(res, NFS4ERR_RECLAIM_BAD);
  } else if (in_grace()) {
    return plain(res, NFS4ERR_GRACE);
  }
  if (current(at) == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (!is_range(args.offset, args.length)) return plain(res, NFS4ERR_INVAL);
  std::uint64_t number = 0;
  if (const auto bad = find_lock_owner(at, args, number); bad != NFS4_OK) return plain(res, bad);
  const LockPiece wanted = piece_of(args.offset, args.length, args.locktype);
  const std::uint32_t needed = wanted.write ? OPEN4_SHARE_ACCESS_WRITE : OPEN4_SHARE_ACCESS_READ;
  LOCK4denied denied;
  nfsstat4 status = NFS4_OK;
  if ((opens.at(locks.at(number).open).access & needed) == 0) {
    status = NFS4ERR_OPENMODE;
  } else if (conflict(at.current, locks.at(number), wanted, denied)) {
    status = args.reclaim ? NFS4ERR_RECLAIM_CONFLICT : NFS4ERR_DENIED;
    const bool waits = args.locktype == READW_LT || args.locktype == WRITEW_LT;
    if (waits && !args.reclaim) waiting.push_back(locks.at(number));
  }
  LockOwnerState& mine = locks.at(number);
  if (status != NFS4_OK) {
    if (mine.seqid == 0) locks.erase(number);  // it never began
    if (status != NFS4ERR_DENIED) return plain(res, status);
    res.emplace<NFS4ERR_DENIED>() = denied;
    return status;
  }
  if (mine.seqid == 0) {
    mine.granted = now_();
    mine.session = at.session;
    mine.slot = at.slot;
    mine.sequence = at.sequence;
  }
  join(mine.pieces, wanted);
  mine.seqid = mine.seqid == 0 ? first_seqid : seqid_behind(mine.seqid);
  res.emplace<NFS4_OK>().lock_stateid = stateid_of(number, mine.seqid);
  at.current_stateid = stateid_of(number, mine.seqid);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::LOCKT, const LOCKT4args& args, LOCKT4res& res) {
  const Inode* inode = current(at);
  if (at.minor == 0) {
    if (const auto bad = name_client(at, args.owner.clientid); bad != NFS4_OK) return plain(res, bad);
  }
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (const auto bad = check_regular(*inode); bad != NFS4_OK) return plain(res, bad);
  if (in_grace()) return plain(res, NFS4ERR_GRACE);
  if (!is_range(args.offset, args.length)) return plain(res, NFS4ERR_INVAL);
  LockOwnerState mine;
  mine.client = at.client;
  mine.owner = args.owner.owner.value;
  LOCK4denied denied;
  const LockPiece wanted = piece_of(args.offset, args.length, args.locktype);
  if (!conflict(at.current, mine, wanted, denied)) return plain(res, NFS4_OK);
  res.emplace<NFS4ERR_DENIED>() = denied;
  return NFS4ERR_DENIED;
}

nfsstat4 ServerState::run(Execution& at, op::LOCKU, const LOCKU4args& args, LOCKU4res& res) {
  std::uint64_t number = 0;
  if (current(at) == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (const auto bad = check_lock(args.lock_stateid, at, number); bad != NFS4_OK) return plain(res, bad);
  if (!is_range(args.offset, args.length)) return plain(res, NFS4ERR_INVAL);
  LockOwnerState& mine = locks.at(number);
  cut(mine.pieces, piece_of(args.offset, args.length, args.locktype));
  mine.seqid = seqid_behind(mine.seqid);
  res.emplace<NFS4_OK>() = stateid_of(number, mine.seqid);
  at.current_stateid = stateid_of(number, mine.seqid);
  wake_waiters(mine.inode);
  return NFS4_OK;
}

}  // namespace nfsrdma::testing
