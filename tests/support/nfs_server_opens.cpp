// The test server's open files and stateids (RFC 8881 8.2, 9.1, 18.2, 18.16, 18.18).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;

std::uint32_t access_of(const OPEN4args& args) {
  return args.share_access & OPEN4_SHARE_ACCESS_BOTH;
}

bool is_zero(const stateid4& stateid) {
  return stateid.other == stateid4{}.other;
}

bool is_all_ones(const stateid4& stateid) {
  return stateid.seqid == ~0U &&
         std::ranges::all_of(stateid.other, [](std::byte one) { return one == std::byte{0xff}; });
}

/// 8.2.3: all zeros, or all ones.
bool is_anonymous(const stateid4& stateid) {
  return stateid == stateid4{} || is_all_ones(stateid);
}

/// Whether the create fails with NFS4ERR_EXIST, as this is there already: GUARDED4 always does, an exclusive
/// one does unless an exclusive one with the same verifier has made it.
bool refuses(const createhow4& how, const Inode& there) {
  if (const verifier4* bare = how.get<EXCLUSIVE4>()) return there.exclusive != *bare;
  if (const auto* exclusive = how.get<EXCLUSIVE4_1>()) return there.exclusive != exclusive->cva_verf;
  return how.tag() == GUARDED4;
}

}  // namespace

/// What one OPEN has found and made.
struct ServerState::Opening {
  Inode* file = nullptr;
  std::uint64_t directory = 0;  // that the name is in; 0: no name
  std::string name;
  const createhow4* how = nullptr;
  bool made = false;
  bitmap4 attrset;
};

// ---- stateids ----

/// Puts the current stateid in the place of the special one that stands for it (8.2.3).
nfsstat4 ServerState::resolve(const stateid4& given, Execution& at, stateid4& stateid) {
  stateid = given;
  if (!is_zero(given) || given.seqid == 0) return NFS4_OK;
  if (at.minor == 0) return NFS4ERR_BAD_STATEID;
  if (given.seqid != 1 || !at.current_stateid) return NFS4ERR_BAD_STATEID;
  stateid = *at.current_stateid;
  return NFS4_OK;
}

/// What can be wrong with a stateid that is known.
nfsstat4 ServerState::check_known(const stateid4& stateid, std::uint32_t seqid, clientid4 owner,
                                  std::uint64_t inode, Revoked revoked, Execution& at) {
  if (at.minor == 0) at.client = owner;
  if (owner != at.client) {
    problem("a stateid of another client's");
    return NFS4ERR_BAD_STATEID;
  }
  if (revoked != Revoked::no) return status_of_revoked(revoked, NFS4ERR_BAD_STATEID);
  if (inode != at.current) {
    problem("a stateid with another file's handle");
    return NFS4ERR_BAD_STATEID;
  }
  if (at.minor == 0) clients.at(owner).renewed = now_();
  if (stateid.seqid == 0 && at.minor == 0) {
    problem("a stateid without a seqid in NFSv4.0");
    return NFS4ERR_BAD_STATEID;
  }
  if (stateid.seqid == 0) return NFS4_OK;
  if (is_older_seqid(stateid.seqid, seqid)) return NFS4ERR_OLD_STATEID;
  if (stateid.seqid == seqid) return NFS4_OK;
  problem("a stateid that is newer than the server's");
  return NFS4ERR_BAD_STATEID;
}

nfsstat4 ServerState::check_open(const stateid4& given, Execution& at, std::uint64_t& number) {
  stateid4 stateid;
  if (const auto bad = resolve(given, at, stateid); bad != NFS4_OK) return bad;
  if (is_anonymous(stateid)) return NFS4ERR_BAD_STATEID;
  if (boot_of(stateid) != boot) return status_of_old_boot();
  number = number_of(stateid);
  if (number >= next_id) problem("a stateid that nobody gave");
  const auto found = opens.find(number);
  if (found == opens.end()) return expired_.contains(number) ? NFS4ERR_EXPIRED : NFS4ERR_BAD_STATEID;
  const OpenState& one = found->second;
  if (one.unconfirmed) {
    problem("a stateid is used that was not confirmed");
    return NFS4ERR_BAD_STATEID;
  }
  return check_known(stateid, one.seqid, one.client, one.inode, one.revoked, at);
}

nfsstat4 ServerState::check_io(const stateid4& given, Execution& at, std::uint32_t access) {
  const Inode* inode = current(at);
  if (inode == nullptr) return NFS4ERR_NOFILEHANDLE;
  stateid4 stateid;
  if (const auto bad = resolve(given, at, stateid); bad != NFS4_OK) return bad;
  if (is_anonymous(stateid)) {
    note_stateid('a');
    // 8.4.2.1: somebody may still reclaim what denies it.
    if (access != 0 && in_grace()) return NFS4ERR_GRACE;
    const bool denied = std::ranges::any_of(opens, [&](const auto& entry) {
      const OpenState& one = entry.second;
      return one.inode == at.current && one.revoked == Revoked::no && (one.deny & access) != 0;
    });
    return denied ? NFS4ERR_LOCKED : NFS4_OK;
  }
  if (boot_of(stateid) != boot) return status_of_old_boot();
  std::uint64_t number = number_of(stateid);
  if (const auto found = delegations.find(number); found != delegations.end()) {
    const DelegationState& one = found->second;
    note_stateid('d');
    const auto bad = check_known(stateid, one.seqid, one.client, one.inode, one.revoked, at);
    if (bad != NFS4_OK) return bad;
    return (access & OPEN4_SHARE_ACCESS_WRITE) != 0 && !one.writes ? NFS4ERR_OPENMODE : NFS4_OK;
  }
  if (const auto found = locks.find(number); found != locks.end()) {
    note_stateid('l');
    if (const auto bad = check_lock(stateid, at, number); bad != NFS4_OK) return bad;
    number = found->second.open;
    if (!opens.contains(number)) return NFS4ERR_BAD_STATEID;
  } else {
    note_stateid('o');
    if (const auto bad = check_open(stateid, at, number); bad != NFS4_OK) return bad;
    if ((access & OPEN4_SHARE_ACCESS_WRITE) != 0 && !at.may_pass_locks) look_for_lost_locks(number, at);
  }
  return (opens.at(number).access & access) == access ? NFS4_OK : NFS4ERR_OPENMODE;
}

void ServerState::note_stateid(char kind) {
  if (keeps_stateids) seen_stateids += kind;
}

/// Whether the client has the answer by which the first lock was granted.
bool ServerState::is_known(const LockOwnerState& lock) const {
  const auto session = sessions.find(lock.session);
  return session != sessions.end() && session->second.slots.at(lock.slot).sequence != lock.sequence;
}

/// The client knows of the lock and not of its loss, so it writes on the strength of a lock that somebody else may have by
/// now. Not so by a request that arrived before the loss and was executed late, nor by one that it sent before it knew of
/// the lock, which it makes again as it was when it was asked to wait, or when the answer was lost and is not cached.
void ServerState::look_for_lost_locks(std::uint64_t open, const Execution& at) {
  const auto delayed = delayed_.find({at.client, at.digest});
  for (const auto& [number, one] : locks) {
    if (one.open != open || one.client != at.client || !one.was_lost || one.told || !is_known(one)) continue;
    if (at.losses_before < one.loss) continue;
    const bool is_older = delayed != delayed_.end() && !delayed->second.contains(number);
    if (!is_older) problem("a change under the open's stateid behind the loss of a lock");
  }
}

void ServerState::note_delayed(const Execution& at) {
  const std::pair request(at.client, at.digest);
  if (!at.in_session) return;
  if (at.status != NFS4ERR_DELAY && at.status != NFS4ERR_GRACE) {
    delayed_.erase(request);
    return;
  }
  delayed_.try_emplace(request, known_locks(at.client));
}

std::set<std::uint64_t> ServerState::known_locks(clientid4 client) const {
  std::set<std::uint64_t> out;
  for (const auto& [number, one] : locks) {
    if (one.client == client && is_known(one)) out.insert(number);
  }
  return out;
}

/// For what changes a file's data.
nfsstat4 ServerState::check_change(const stateid4& given, Execution& at) {
  const Inode* inode = current(at);
  if (inode == nullptr) return NFS4ERR_NOFILEHANDLE;
  if (const auto bad = check_regular(*inode); bad != NFS4_OK) return bad;
  if (const auto bad = check_writable(*inode); bad != NFS4_OK) return bad;
  if (const auto bad = check_io(given, at, OPEN4_SHARE_ACCESS_WRITE); bad != NFS4_OK) return bad;
  return recall_others(at, inode->id);
}

stateid4 ServerState::stateid_of(std::uint64_t number, std::uint32_t seqid) const {
  stateid4 out;
  out.seqid = seqid;
  xdr::store_u32(out.other.data(), static_cast<std::uint32_t>(boot));
  xdr::store_u64(out.other.data() + 4, number);
  return out;
}

nfsstat4 ServerState::run(Execution& at, op::TEST_STATEID, const TEST_STATEID4args& args,
                          TEST_STATEID4res& res) {
  auto& ok = res.emplace<NFS4_OK>();
  const auto state_of = [&](const auto& one, const stateid4& stateid, std::uint32_t seqid) {
    if (one.client != at.client) return NFS4ERR_BAD_STATEID;
    if (one.revoked != Revoked::no) return status_of_revoked(one.revoked, NFS4ERR_BAD_STATEID);
    if (stateid.seqid == 0 || stateid.seqid == seqid) return NFS4_OK;
    return is_older_seqid(stateid.seqid, seqid) ? NFS4ERR_OLD_STATEID : NFS4ERR_BAD_STATEID;
  };
  for (const stateid4& stateid : args.ts_stateids.value) {
    const std::uint64_t number = number_of(stateid);
    nfsstat4 status = NFS4ERR_BAD_STATEID;
    if (boot_of(stateid) != boot) {
      status = status_of_old_boot();
    } else if (const auto open = opens.find(number); open != opens.end()) {
      status = state_of(open->second, stateid, open->second.seqid);
    } else if (const auto lock = locks.find(number); lock != locks.end()) {
      status = state_of(lock->second, stateid, lock->second.seqid);
      if (lock->second.client == at.client) lock->second.told = lock->second.revoked != Revoked::no;
    } else if (const auto held = delegations.find(number); held != delegations.end()) {
      status = state_of(held->second, stateid, held->second.seqid);
    }
    ok.tsr_status_codes.value.push_back(status);
  }
  return NFS4_OK;
}

/// 18.38.3: only what is not in use any more.
nfsstat4 ServerState::run(Execution& at, op::FREE_STATEID, const FREE_STATEID4args& args,
                          FREE_STATEID4res& res) {
  const std::uint64_t number = number_of(args.fsa_stateid);
  if (boot_of(args.fsa_stateid) != boot) return plain(res, status_of_old_boot());
  const auto free = [&](auto& states, bool in_use) {
    const auto found = states.find(number);
    if (found->second.client != at.client) return NFS4ERR_BAD_STATEID;
    if (found->second.revoked == Revoked::no && in_use) return NFS4ERR_LOCKS_HELD;
    states.erase(found);
    note_freed(at.client);
    return NFS4_OK;
  };
  if (const auto lock = locks.find(number); lock != locks.end()) {
    return plain(res, free(locks, !lock->second.pieces.empty()));
  }
  if (const auto open = opens.find(number); open != opens.end()) {
    doomed_.insert(open->second.inode);
    return plain(res, free(opens, true));
  }
  return plain(res, delegations.contains(number) ? free(delegations, true) : NFS4ERR_BAD_STATEID);
}

// ---- OPEN ----

/// Which file is meant; for a name, `opening.file` is null where there is none.
nfsstat4 ServerState::check_claim(Execution& at, const OPEN4args& args, Opening& opening) {
  Inode* inode = current(at);
  if (inode == nullptr) return NFS4ERR_NOFILEHANDLE;
  const component4* name = args.claim.get<CLAIM_NULL>();
  if (const auto* under = args.claim.get<CLAIM_DELEGATE_CUR>()) {
    name = &under->file;
    if (const auto bad = delegation_status(under->delegate_stateid, at); bad != NFS4_OK) return bad;
  }
  if (const stateid4* under = args.claim.get<CLAIM_DELEG_CUR_FH>()) {
    if (const auto bad = delegation_status(*under, at); bad != NFS4_OK) return bad;
  }
  if (args.claim.tag() == CLAIM_DELEGATE_PREV || args.claim.tag() == CLAIM_DELEG_PREV_FH) {
    return NFS4ERR_NOTSUPP;
  }
  opening.how = args.openhow.get<OPEN4_CREATE>();
  if (name == nullptr) {
    opening.file = inode;
    return opening.how != nullptr ? NFS4ERR_INVAL : NFS4_OK;
  }
  if (const auto bad = check_directory(at, inode); bad != NFS4_OK) return bad;
  if (const auto bad = check_name(name->value); bad != NFS4_OK) return bad;
  opening.directory = inode->id;
  opening.name = name->value;
  opening.file = child(*inode, name->value);
  return NFS4_OK;
}

/// Linux (nfsd4_create_file) stores the words of the verifier, without their top bits, as the seconds of the times, and
/// names the times in attrset.
void ServerState::keep_verifier(Inode& made, const verifier4& verifier, bitmap4& attrset) const {
  made.exclusive = verifier;
  if (!habits.verifier_in_times) return;
  constexpr std::uint32_t kMostSeconds = 0x7fffffff;
  made.modified = {xdr::load_u32(verifier.data()) & kMostSeconds, 0};
  made.accessed = {xdr::load_u32(verifier.data() + 4) & kMostSeconds, 0};
  set_bit(attrset, FATTR4_TIME_ACCESS);
  set_bit(attrset, FATTR4_TIME_MODIFY);
}

/// 18.16.3: the ways to create.
nfsstat4 ServerState::create(Execution& at, const createhow4& how, Opening& opening) {
  const creatverfattr* exclusive = how.get<EXCLUSIVE4_1>();
  const verifier4* bare = how.get<EXCLUSIVE4>();
  const fattr4* unchecked = how.get<UNCHECKED4>();
  const fattr4* guarded = how.get<GUARDED4>();
  const fattr4 none;
  const fattr4& wanted = exclusive != nullptr   ? exclusive->cva_attrs
                         : unchecked != nullptr ? *unchecked
                         : guarded != nullptr   ? *guarded
                                                : none;
  const verifier4* verifier = exclusive != nullptr ? &exclusive->cva_verf : bare;
  WireChanges changes;
  if (!decode_changes(wanted, changes)) return NFS4ERR_ATTRNOTSUPP;
  // As Linux, which keeps the verifier in the times.
  if (exclusive != nullptr && (changes.time_access_set || changes.time_modify_set)) return NFS4ERR_INVAL;
  if (opening.file == nullptr) {
    Inode& directory = inodes.at(opening.directory);
    if (const auto bad = check_writable(directory); bad != NFS4_OK) return bad;
    if (is_full()) return habits.full_status;
    Inode& made = fresh(NF4REG, directory.file_system);
    if (at.who.known) made.owner = std::to_string(at.who.uid);
    if (at.who.known) made.group = std::to_string(at.who.gid);
    (void)set_attributes(made, wanted);
    attach(inodes.at(opening.directory), opening.name, made.id);
    opening.file = &made;
    opening.made = true;
    opening.attrset = wanted.attrmask;
    if (verifier != nullptr) keep_verifier(made, *verifier, opening.attrset);
    return NFS4_OK;
  }
  // Linux (nfsd4_open) names the times for an exclusive create that it has executed before, too.
  if (verifier != nullptr && habits.verifier_in_times) {
    set_bit(opening.attrset, FATTR4_TIME_ACCESS);
    set_bit(opening.attrset, FATTR4_TIME_MODIFY);
  }
  if (unchecked != nullptr && changes.size == 0U) {
    if (const auto late = recall_others(at, opening.file->id); late != NFS4_OK) return late;
    resize(*opening.file, 0);
    set_bit(opening.attrset, FATTR4_SIZE);
  }
  return NFS4_OK;
}

nfsstat4 ServerState::create_named(Execution& at, const std::string& name, const createhow4& how) {
  Inode* directory = nullptr;
  if (const auto bad = check_place(at, name, directory); bad != NFS4_OK) return bad;
  Opening opening{.file = child(*directory, name),
                  .directory = directory->id,
                  .name = name,
                  .how = &how,
                  .made = false,
                  .attrset = {}};
  if (opening.file != nullptr && refuses(how, *opening.file)) return NFS4ERR_EXIST;
  if (opening.file != nullptr && opening.file->type != NF4REG) return check_regular(*opening.file);
  const nfsstat4 status = create(at, how, opening);
  if (status == NFS4_OK) set_current(at, opening.file->id);
  return status;
}

/// Share reservations (9.7). Whose lease has run out does not stand in anybody's way.
nfsstat4 ServerState::check_share(const Execution& at, const OPEN4args& args, const Inode& inode,
                                  nfsstat4 conflict) {
  std::set<clientid4> late;
  for (const auto& [number, one] : opens) {
    if (one.inode != inode.id || one.revoked != Revoked::no) continue;
    if (one.client == at.client && one.owner == args.owner.owner.value) continue;
    if ((one.access & args.share_deny) == 0 && (one.deny & access_of(args)) == 0) continue;
    if (one.client == at.client || !is_expired(clients.at(one.client))) return conflict;
    late.insert(one.client);
  }
  for (const clientid4 client : late) end_courtesy(client);
  return NFS4_OK;
}

/// RFC 8881 9.1.4: one stateid for an owner and a file; its seqid counts.
stateid4 ServerState::grant(const Execution& at, const OPEN4args& args, const Inode& inode) {
  const std::uint32_t access = access_of(args);
  clients.at(at.client).opened[inode.id] |= access;
  for (auto& [number, open] : opens) {
    if (open.client != at.client || open.inode != inode.id || open.owner != args.owner.owner.value ||
        open.revoked != Revoked::no) {
      continue;
    }
    open.access |= access;
    open.deny |= args.share_deny;
    open.had |= 1U << access;
    open.seqid = seqid_behind(open.seqid);
    return stateid_of(number, open.seqid);
  }
  const std::uint64_t number = next_id++;
  OpenState& open = opens[number];
  open.client = at.client;
  open.inode = inode.id;
  open.access = access;
  open.deny = args.share_deny;
  open.owner = args.owner.owner.value;
  open.had = 1U << access;
  open.seqid = first_seqid;
  return stateid_of(number, open.seqid);
}

nfsstat4 ServerState::run(Execution& at, op::OPEN, const OPEN4args& args, OPEN4res& res) {
  if (keeps_opens) seen_opens.push_back(args);
  if (at.minor == 0) {
    if (const auto bad = name_client(at, args.owner.clientid); bad != NFS4_OK) return plain(res, bad);
    if (args.claim.tag() == CLAIM_FH || (args.share_access & ~OPEN4_SHARE_ACCESS_BOTH) != 0) {
      problem("an OPEN that NFSv4.0 does not have");
      return plain(res, NFS4ERR_INVAL);
    }
  }
  ClientState& client = clients.at(at.client);
  const bool reclaim = args.claim.tag() == CLAIM_PREVIOUS;
  if (reclaim) {
    if (const auto bad = check_reclaim(at); bad != NFS4_OK) return plain(res, bad);
    const auto before = opened_before_.find(client.owner);
    const bool had = before != opened_before_.end() && before->second.contains(at.current) &&
                     (access_of(args) & ~before->second.at(at.current)) == 0;
    if (!had && client.v40) return plain(res, NFS4ERR_RECLAIM_BAD);
    if (!had) problem("an OPEN is reclaimed that never was: " + std::to_string(at.current));
  } else if (!client.reclaimed && !client.v40) {
    // 18.51.3: RECLAIM_COMPLETE comes first, also for who has nothing to reclaim.
    // One whose session lives on may not know of the restart yet.
    if (!in_grace() && !client.survived) problem("an OPEN before RECLAIM_COMPLETE");
    return plain(res, NFS4ERR_GRACE);
  } else if (in_grace()) {
    return plain(res, NFS4ERR_GRACE);
  }
  if (access_of(args) == 0) return plain(res, NFS4ERR_INVAL);
  Opening opening;
  if (const auto bad = check_claim(at, args, opening); bad != NFS4_OK) return plain(res, bad);
  if (opening.file != nullptr) {
    if (opening.how != nullptr && refuses(*opening.how, *opening.file)) return plain(res, NFS4ERR_EXIST);
    if (opening.file->type == NF4LNK) return plain(res, NFS4ERR_SYMLINK);
    if (const auto bad = check_regular(*opening.file); bad != NFS4_OK) return plain(res, bad);
    const nfsstat4 conflict = reclaim ? NFS4ERR_RECLAIM_CONFLICT : NFS4ERR_SHARE_DENIED;
    const auto bad = check_share(at, args, *opening.file, conflict);
    if (bad != NFS4_OK) return plain(res, bad);
    const bool for_writing =
        (access_of(args) & OPEN4_SHARE_ACCESS_WRITE) != 0 || (args.share_deny & OPEN4_SHARE_DENY_READ) != 0;
    const auto late = recall_others(at, opening.file->id, !for_writing);
    if (late != NFS4_OK) return plain(res, late);
  }
  if (opening.how != nullptr) {
    const auto bad = create(at, *opening.how, opening);
    if (bad != NFS4_OK) return plain(res, bad);
  }
  if (opening.file == nullptr) return plain(res, NFS4ERR_NOENT);
  const Inode& file = *opening.file;
  OPEN4resok ok;
  const bool unconfirmed = needs_confirmation(at, args);
  ok.stateid = grant(at, args, file);
  opens.at(number_of(ok.stateid)).unconfirmed = unconfirmed;
  if (client.v40) recorded_.insert(client.owner);
  ok.attrset = opening.attrset;
  ok.rflags = OPEN4_RESULT_LOCKTYPE_POSIX | (unconfirmed ? OPEN4_RESULT_CONFIRM : 0);
  if (habits.notify_locks && at.minor != 0) ok.rflags |= OPEN4_RESULT_MAY_NOTIFY_LOCK;
  if (habits.preserves_unlinked) ok.rflags |= OPEN4_RESULT_PRESERVE_UNLINKED;
  if (at.minor != 0) delegate(at, args, file, ok.delegation);
  if (opening.directory != 0) {
    const Inode& directory = inodes.at(opening.directory);
    ok.cinfo = changed(directory, directory.change - (opening.made ? 1 : 0));
  }
  at.current = file.id;
  at.current_stateid = ok.stateid;
  res.emplace<NFS4_OK>() = ok;
  return NFS4_OK;
}

// ---- CLOSE, OPEN_DOWNGRADE ----

bool ServerState::is_open(std::uint64_t inode) const {
  return std::ranges::any_of(opens, [&](const auto& entry) {
    return entry.second.inode == inode && entry.second.revoked == Revoked::no;
  });
}

/// With the locks that were made under it.
void ServerState::erase_open(std::uint64_t number) {
  const std::uint64_t inode = opens.at(number).inode;
  // Where a session was lost it may not know: the answer to a LOCK was lost with it.
  const auto client = clients.find(opens.at(number).client);
  const bool knows = client != clients.end() && client->second.sessions == 1;
  const auto is_of = [&](const auto& entry) {
    return entry.second.client != 0 && entry.second.open == number;
  };
  const bool locked =
      std::ranges::any_of(locks, [&](const auto& e) { return is_of(e) && !e.second.pieces.empty(); });
  opens.erase(number);
  std::erase_if(locks, is_of);
  doomed_.insert(inode);
  if (!locked) return;
  if (knows) problem("a file is closed that is still locked: " + std::to_string(inode));
  wake_waiters(inode);
}

nfsstat4 ServerState::run(Execution& at, op::CLOSE, const CLOSE4args& args, CLOSE4res& res) {
  stateid4 closed = args.open_stateid;
  if (habits.careless_close && at.minor != 0) closed.seqid = 0;
  std::uint64_t number = 0;
  if (const auto bad = check_open(closed, at, number); bad != NFS4_OK) return plain(res, bad);
  if (at.minor == 0) closed_[number] = {at.client, false, opens.at(number).owner};
  erase_open(number);
  // 18.2.4: what is given back stands for nothing.
  stateid4 invalid;
  invalid.seqid = ~0U;
  res.emplace<NFS4_OK>() = invalid;
  at.current_stateid = invalid;
  return NFS4_OK;
}

/// 18.18.3: to what OPENs have asked for, or to unions of it. Linux takes only the former.
nfsstat4 ServerState::run(Execution& at, op::OPEN_DOWNGRADE, const OPEN_DOWNGRADE4args& args,
                          OPEN_DOWNGRADE4res& res) {
  std::uint64_t number = 0;
  if (const auto bad = check_open(args.open_stateid, at, number); bad != NFS4_OK) return plain(res, bad);
  OpenState& open = opens.at(number);
  const std::uint32_t access = access_of({.share_access = args.share_access});
  std::uint32_t reachable = 0;
  for (std::uint32_t one = 1; one <= OPEN4_SHARE_ACCESS_BOTH; ++one) {
    if ((open.had & (1U << one)) != 0 && (one & ~access) == 0) reachable |= one;
  }
  const bool allowed = habits.downgrades_to_unions ? reachable == access : (open.had & (1U << access)) != 0;
  if (access == 0 || !allowed) return plain(res, NFS4ERR_INVAL);
  open.access = access;
  open.deny = args.share_deny;
  open.had &= (1U << access) | (access == OPEN4_SHARE_ACCESS_BOTH ? 6U : 0U);
  open.seqid = seqid_behind(open.seqid);
  res.emplace<NFS4_OK>().open_stateid = stateid_of(number, open.seqid);
  at.current_stateid = stateid_of(number, open.seqid);
  return NFS4_OK;
}

}  // namespace nfsrdma::testing
