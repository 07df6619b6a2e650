#include "nfs4/state/lock_recovery.h"

#include <cerrno>
#include <utility>

#include "nfs4/compound/retries.h"
#include "nfs4/state/lock_waits.h"

namespace nfsrdma::nfs4 {
namespace {

Error lock_lost(const std::string& path, const std::string& why) {
  return {ErrorKind::server, EIO, "LOCK", path,
          "a lock on the file was lost (" + why + "); close the file, and check what it protected"};
}

LOCK4args arguments_of(const Open& open, const LockState& state, const lock_owner4& owner,
                       const HeldLock& held, Claim how) {
  LOCK4args args;
  args.locktype = held.write ? WRITE_LT : READ_LT;
  args.reclaim = how == Claim::reclaim;
  args.offset = held.range.offset;
  args.length = held.range.length;
  if (state.stateid) {
    args.locker.emplace<false>().lock_stateid = *state.stateid;
  } else {
    open_to_lock_owner4& locker = args.locker.emplace<true>();
    locker.open_stateid = open.current();
    locker.lock_owner = owner;
  }
  return args;
}

}  // namespace

void LockRecovery::lose(Open& open, std::uint64_t owner, const Error& why) {
  const auto found = open.locks.find(owner);
  if (found == open.locks.end()) return;
  if (const auto gone = std::exchange(found->second->stateid, std::nullopt))
    leftovers_.free_in_background(*gone);
  lose(open, owner, LockRange(), why);
}

void LockRecovery::lose(Open& open, std::uint64_t owner, const LockRange& range, const Error& why) {
  const auto found = open.locks.find(owner);
  if (found == open.locks.end() || found->second->held.within(range).empty()) return;
  found->second->held.unlock(range);
  const Error error = lock_lost(open.path, why.message());
  calls_.notice(error.text());
  open.lost_locks.insert_or_assign(owner, error);
}

void LockRecovery::lose(Open& open) {
  const Error why(ErrorKind::server, EIO, "LOCK", open.path, "the server had closed the file");
  for (const auto& [owner, state] : open.locks) lose(open, owner, why);
  // Nothing is left to be claimed. Another claim would be made outside the grace period, and
  // would lose healthy locks.
  end_claim(open);
}

void LockRecovery::end_claim(Open& open) {
  open.claiming_locks = false;
  ended_.notify_all();
}

async::Task<Status> LockRecovery::claim(std::shared_ptr<Open> open, Claim how, async::TimePoint deadline) {
  /// Ends a claim by Claim::anew in any case, because such a claim is not repeated.
  struct Ending {
    LockRecovery& locks;
    Open& open;
    const bool ends;
    ~Ending() {
      if (ends) locks.end_claim(open);
    }
  };
  const auto owners = open->locks;  // keeps the states alive while others come and go
  open->claiming_locks = true;
  const Ending ending{*this, *open, how == Claim::anew};
  // All stateids are dropped before the first lock is claimed, so that a task that uses one of them meanwhile
  // sees that it must not be used.
  for (const auto& [owner, state] : owners) {
    const auto gone = std::exchange(state->stateid, std::nullopt);
    // Stateids that a reclaim replaces went with the client id, and need not be freed.
    if (gone && how == Claim::anew) leftovers_.free_in_background(*gone);
  }
  Retries retries(calls_.loop(), deadline);
  for (const auto& [owner, state] : owners) {
    // The locks are looked up anew after each LOCK, because a lock that is lost meanwhile
    // must not be claimed.
    for (std::uint64_t from = 0;;) {
      const auto left = state->held.within(LockRange::between(from, LockRange::kToTheEnd));
      if (left.empty()) break;
      const HeldLock lock = left.front();
      nfsstat4 status = NFS4_OK;
      auto done = co_await claim_one(open, state, owner, lock, how, deadline, status);
      if (!done && retry_of(status) == Retry::some_times) {
        const bool again = co_await retries.again(status);
        if (again) continue;
      }
      from = lock.range.end();
      if (done) continue;
      const Retry retry = retry_of(status);
      if (status == NFS4_OK || retry == Retry::later || retry == Retry::with_new_session) co_return done;
      // Locks that were claimed before this one stay under their stateid at the server,
      // until the owner lets go.
      lose(*open, owner, LockRange(), done.error());
    }
  }
  end_claim(*open);
  co_return Status();
}

/// Claims one lock. `status`: the server's answer; NFS4_OK also if there was none.
async::Task<Status> LockRecovery::claim_one(std::shared_ptr<Open> open, std::shared_ptr<LockState> state,
                                            std::uint64_t owner, HeldLock held, Claim how,
                                            async::TimePoint deadline, nfsstat4& status) {
  Compound compound = calls_.begin_on(open->file, "LOCK", open->caller);
  if (state->stateid)
    compound.by({}, state->unique);
  else
    compound.by(open->owner, state->unique);
  compound.add<op::LOCK>(
      arguments_of(*open, *state, lock_owner_of(calls_.facts().client_id, owner, state->unique), held, how));
  auto reply = co_await call_for(how, calls_, std::move(compound), deadline);
  if (!reply) co_return reply.error();
  LOCK4res res;
  if (!reply->take<op::PUTFH>() || !reply->take<op::LOCK>(res)) {
    status = reply->failed_status();
    co_return calls_.error_of(*reply, "LOCK", open->path);
  }
  state->stateid = calls_.to_keep(res.get<NFS4_OK>()->lock_stateid);
  co_return Status();
}

}  // namespace nfsrdma::nfs4
