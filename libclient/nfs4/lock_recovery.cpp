// Byte-range locks as the session sees them: who waits for one, and how they are claimed again after the
// server has forgotten them (RFC 8881 8.4.2, 18.10, 20.11).
#include <algorithm>
#include <cerrno>

#include "nfs4/session.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

/// In front of the number, so that a lock owner is no open owner's name.
constexpr std::uint32_t kLockOwnerMark = 0x6c6f636b;
constexpr std::size_t kLockOwnerSize = 4 + 8;

std::optional<std::uint64_t> number_of(const lock_owner4& owner) {
  const auto& bytes = owner.owner.value;
  if (bytes.size() != kLockOwnerSize || xdr::load_u32(bytes.data()) != kLockOwnerMark) return std::nullopt;
  return xdr::load_u64(bytes.data() + 4);
}

Error lock_lost(const std::string& path, const std::string& why) {
  return {ErrorKind::server, EIO, "LOCK", path,
          "a lock on the file was lost (" + why + "); close the file, and check what it protected"};
}

}  // namespace

lock_owner4 Session::lock_owner(std::uint64_t owner) const {
  lock_owner4 out;
  out.clientid = facts_.client_id;
  out.owner.value.resize(kLockOwnerSize);
  xdr::store_u32(out.owner.value.data(), kLockOwnerMark);
  xdr::store_u64(out.owner.value.data() + 4, owner);
  return out;
}

std::optional<std::uint64_t> Session::own_lock_owner(const lock_owner4& owner) const {
  return owner.clientid == facts_.client_id ? number_of(owner) : std::nullopt;
}

// ---- waiting ----

Session::LockWaiting::LockWaiting(Session& session, const nfs_fh4& file, std::uint64_t owner, LockWait& wait)
    : session_(session), file_(file), owner_(owner), wait_(wait) {
  session.lock_waits_.push_back(this);
}

Session::LockWaiting::~LockWaiting() {
  std::erase(session_.lock_waits_, this);
}

void Session::notify_lock(const nfs_fh4& file, const lock_owner4& owner) {
  // The backchannel is this client's: its client id need not be looked at.
  const auto number = number_of(owner);
  if (!number) return;
  for (LockWaiting* waiting : lock_waits_) {
    if (waiting->owner_ == *number && waiting->file_ == file) waiting->wait_.notify();
  }
}

// ---- losing and claiming ----

void Session::lose_locks(Open& open, std::uint64_t owner, const Error& why) {
  const auto found = open.locks.find(owner);
  if (found == open.locks.end()) return;
  if (const auto gone = std::exchange(found->second->stateid, std::nullopt)) free_beside(*gone);
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
    if (gone && !recovering) free_beside(*gone);  // else it went with the client id
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
    locker.lock_owner = lock_owner(owner);
  }
  Compound compound = begin("LOCK", open->caller);
  compound.add<op::PUTFH>({open->file});
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
