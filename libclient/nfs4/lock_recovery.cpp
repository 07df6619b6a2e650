// Byte-range locks as the session sees them: who waits for one, and how they are claimed again after the
// server has forgotten them (RFC 8881 8.4.2, 18.10, 20.11).
#include <algorithm>
#include <cerrno>

#include "nfs4/session.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

Error lock_lost(const std::string& path, const std::string& why) {
  return {ErrorKind::server, EIO, "LOCK", path,
          "a lock on the file was lost (" + why + "); close the file, and check what it protected"};
}

}  // namespace

void Session::notify_lock(const nfs_fh4& file, const lock_owner4& owner) {
  lock_waits_.notify(file, owner);
}

// ---- losing and claiming ----

void Session::lose_locks(Open& open, std::uint64_t owner, const Error& why) {
  const auto found = open.locks.find(owner);
  if (found == open.locks.end()) return;
  if (const auto gone = std::exchange(found->second->stateid, std::nullopt)) leftovers_.free_beside(*gone);
  if (found->second->held.empty()) return;
  found->second->held.clear();
  const Error error = lock_lost(open.path, why.message());
  notices_(error.text());
  open.lost_locks.insert_or_assign(owner, error);
}

void Session::lose_locks(Open& open) {
  const Error why(ErrorKind::server, EIO, "LOCK", open.path, "the server had closed the file");
  for (const auto& [owner, state] : open.locks) lose_locks(open, owner, why);
}

/// Every lock of every owner, under the open's new stateid. Those that are refused are lost, and nothing else
/// fails; an Error is about the connection.
async::Task<Status> Session::claim_locks(std::shared_ptr<Open> open, bool reclaim, bool recovering,
                                         async::TimePoint deadline) {
  const auto owners = open->locks;  // keeps the states alive while others come and go
  open->claiming_locks = true;
  for (const auto& [owner, state] : owners) {
    const auto gone = std::exchange(state->stateid, std::nullopt);
    if (gone && !recovering) leftovers_.free_beside(*gone);  // else it went with the client id
    const std::vector<HeldLock> held = state->held.list();
    for (const HeldLock& lock : held) {
      nfsstat4 status = NFS4_OK;
      auto done = co_await claim_lock(open, state, owner, lock, reclaim, recovering, deadline, status);
      if (done) continue;
      if (status == NFS4_OK || status == NFS4ERR_DELAY) co_return done;
      lose_locks(*open, owner, done.error());
      break;
    }
  }
  open->claiming_locks = false;
  co_return Status();
}

async::Task<Status> Session::claim_lock(std::shared_ptr<Open> open, std::shared_ptr<LockState> state,
                                        std::uint64_t owner, HeldLock held, bool reclaim, bool recovering,
                                        async::TimePoint deadline, nfsstat4& status) {
  LOCK4args args;
  args.locktype = held.write ? WRITE_LT : READ_LT;
  args.reclaim = reclaim;
  args.offset = held.range.offset;
  args.length = held.range.length;
  if (state->stateid) {
    exist_lock_owner4& locker = args.locker.emplace<false>();
    locker.lock_stateid = *state->stateid;
  } else {
    open_to_lock_owner4& locker = args.locker.emplace<true>();
    locker.open_stateid = open->current();
    locker.lock_owner = lock_owner_of(facts_.client_id, owner);
  }
  Compound compound = begin_on(open->file, "LOCK", open->caller);
  compound.add<op::LOCK>(args);
  auto pending =
      recovering ? call_in_recovery(std::move(compound), deadline) : call(std::move(compound), deadline);
  auto reply = co_await pending;
  if (!reply) co_return reply.error();
  LOCK4res res;
  if (!reply->take<op::PUTFH>() || !reply->take<op::LOCK>(res)) {
    status = reply->failed_status();
    co_return error_of(*reply, "LOCK", open->path);
  }
  state->stateid = res.get<NFS4_OK>()->lock_stateid;
  state->stateid->seqid = 0;  // as it is, whatever Reply comes first
  co_return Status();
}

}  // namespace nfsrdma::nfs4
