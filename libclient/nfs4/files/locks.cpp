#include "nfs4/files/locks.h"

#include <cerrno>
#include <utility>

#include "async/backoff.h"
#include "nfs4/state/loss_limit.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

/// First and longest interval at which the server is asked again for a lock: without notifications by the
/// server, and with them.
constexpr async::Clock::duration kFirstPoll = 50ms, kSlowestPoll = 1s;
constexpr async::Clock::duration kFirstPollWithCallback = 1s, kSlowestPollWithCallback = 15s;

Error interrupted(const std::string& path) {
  return {ErrorKind::cancelled, EINTR, "LOCK", path, "the wait for the lock was given up"};
}

Error lost_again(const std::string& path) {
  return {ErrorKind::server, EIO, "LOCK", path,
          "the server repeatedly lost the state of the file; see its log"};
}

Error not_claimed(const std::string& path) {
  return {ErrorKind::timeout, ETIMEDOUT, "LOCKU", path,
          "the server has restarted, and the locks on the file were not all reclaimed in time"};
}

Error taken_meanwhile(const std::string& path) {
  return {ErrorKind::server, EAGAIN, "LOCK", path, "another process or client has locked it meanwhile"};
}

LockHolder holder_of(const ClientLease& session, const LOCK4denied& denied) {
  LockHolder out;
  // A length of 0 is not allowed (RFC 8881 18.10.3). Ganesha uses it for a lock that reaches to the end.
  out.range = {denied.offset, denied.length != 0 ? denied.length : LockRange::kToTheEnd};
  out.write = denied.locktype == WRITE_LT || denied.locktype == WRITEW_LT;
  if (const auto own = own_number(denied.owner, session.facts().client_id)) {
    out.ours = true;
    out.owner = *own;
  }
  return out;
}

std::shared_ptr<LockState> state_of(FileState& file, std::uint64_t owner) {
  auto& state = file.state().locks[owner];
  if (!state) state = std::make_shared<LockState>(file.session().loop());
  return state;
}

/// Returns LOCK's arguments for the present state.
LOCK4args arguments(ClientLease& session, const Open& open, LockState& state, const LockRequest& request,
                    bool blocking) {
  LOCK4args args;
  args.locktype = request.write ? (blocking ? WRITEW_LT : WRITE_LT) : (blocking ? READW_LT : READ_LT);
  args.offset = request.range.offset;
  args.length = request.range.length;
  if (state.stateid) {
    args.locker.emplace<false>().lock_stateid = *state.stateid;
  } else {
    open_to_lock_owner4& locker = args.locker.emplace<true>();
    locker.open_stateid = open.current();
    locker.lock_owner = lock_owner_of(session.facts().client_id, request.owner, state.unique);
  }
  return args;
}

/// Makes an NFSv4.0 server forget a lock owner that has nothing locked any more. RELEASE_LOCKOWNER has a
/// COMPOUND of its own, because behind a LOCKU Ganesha 4.3 frees memory that it goes on to use, and ends.
async::Task<void> release_owner(ClientLease& session, Caller caller, lock_owner4 owner,
                                std::uint64_t unique) {
  Compound compound = session.begin("RELEASE_LOCKOWNER", caller);
  compound.by({}, unique);
  compound.add<op::RELEASE_LOCKOWNER>({std::move(owner)});
  // The answer does not matter, because nothing is locked under the owner.
  auto reply = co_await session.call(std::move(compound));
}

}  // namespace

/// A LOCK that runs by itself, and the task that waits for it.
struct Locks::Attempt {
  LockRequest request;
  bool blocking = false;
  std::shared_ptr<LockWait> waiter;  // woken when it has ended
  bool abandoned = false;            // no task wants the lock any more
  bool undoes = false;               // it undoes what another attempt has done
  bool ended = false;
  Status status;                      // of the LOCK: an Error except DENIED
  std::optional<LockHolder> refused;  // set if the answer was DENIED
  std::vector<LockRange> gained;      // what was not held before
  std::vector<HeldLock> changed;      // what was held before as the other kind
  [[nodiscard]] bool granted() const { return ended && status && !refused; }
};

async::Task<Status> Locks::try_once(std::shared_ptr<FileState> file, std::shared_ptr<Attempt> attempt) {
  const auto state = state_of(*file, attempt->request.owner);
  const async::Mutex::Lock turn = co_await state->turn.lock();
  co_return co_await lock_in_turn(file, state, attempt);
}

/// Ends with the LOCK granted, refused or failed. If the server has lost the lock stateid, the LOCK begins
/// anew from the open's stateid if nothing was locked under it; else the locks are lost.
async::Task<Status> Locks::lock_in_turn(std::shared_ptr<FileState> file, std::shared_ptr<LockState> state,
                                        std::shared_ptr<Attempt> attempt) {
  const async::TimePoint deadline = session_.default_deadline();
  const LockRequest& request = attempt->request;
  Open& open = file->state();
  // The name is chosen within the turn, because the task that had the turn before may have
  // given the earlier one up.
  if (state->unique == 0 && session_.version().keeps_seqids) state->unique = session_.opens().next_owner();
  bool completed = false;  // see FileState::regain_access()
  for (LossLimit losses(session_.loop(), deadline);;) {
    // A task that closes the file waits for the turn, to unlock, so an attempt that locks nothing new must
    // not wait for that task.
    bool settled = true;
    if (!attempt->undoes && !attempt->abandoned) settled = co_await file->settled(deadline);
    if (!settled) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "LOCK", open.path,
                      "an earlier close of the file has not completed in time");
    }
    if (auto error = file->useless_for("LOCK")) co_return *std::move(error);
    if (attempt->abandoned) co_return interrupted(open.path);
    const stateid4 used_open = open.stateid;
    const auto used_lock = state->stateid;
    Compound compound = session_.begin_on(open.file, "LOCK", open.caller);
    if (used_lock)
      compound.by({}, state->unique);
    else
      compound.by(open.owner, state->unique);
    compound.add<op::LOCK>(arguments(session_, open, *state, request, attempt->blocking));
    auto reply = co_await session_.call(std::move(compound), deadline);
    if (!reply) co_return reply.error();
    LOCK4res res;
    if (reply->take<op::PUTFH>() && reply->take<op::LOCK>(res)) {
      // If the state that the lock was set under was lost before the Reply came, the lock went with it.
      const bool stands = reply->epoch() == session_.epoch() && open.stateid.other == used_open.other &&
                          state->stateid == used_lock;
      const bool again = co_await losses.again(!stands);
      if (again) continue;
      if (!stands) co_return lost_again(open.path);
      state->stateid = session_.to_keep(res.get<NFS4_OK>()->lock_stateid);
      attempt->gained = state->held.not_held(request.range);
      for (const HeldLock& piece : state->held.within(request.range)) {
        if (piece.write != request.write) attempt->changed.push_back(piece);
      }
      state->held.lock(request.range, request.write);
      co_return Status();
    }
    const nfsstat4 status = reply->failed_status();
    if (const LOCK4denied* denied = res.get<NFS4ERR_DENIED>()) {
      attempt->refused = holder_of(session_, *denied);
      co_return Status();
    }
    if (status == NFS4ERR_OPENMODE) {
      auto regained = co_await file->regain_access(used_open, completed, deadline);
      if (!regained) co_return regained.error();
      if (*regained) continue;
    }
    const bool again = co_await losses.again(CallLayer::is_lost_state(status));
    if (!again) co_return session_.error_of(*reply, "LOCK", open.path);
    if (state->stateid != used_lock) continue;  // it was claimed again meanwhile
    if (used_lock) {
      session_.lock_recovery().lose(open, request.owner, session_.error_of(*reply, "LOCK", open.path));
      continue;
    }
    auto reopened = co_await file->reopen(used_open, status, deadline);
    if (!reopened) co_return reopened;
  }
}

async::Task<void> Locks::run(Locks self, std::shared_ptr<FileState> file, std::shared_ptr<Attempt> attempt) {
  attempt->status = co_await self.try_once(file, attempt);
  attempt->ended = true;
  attempt->waiter->wake();
  if (attempt->abandoned && attempt->granted()) co_await undo(self, file, attempt);
}

/// Undoes a lock that no task took: what was not held before is unlocked, the rest gets
/// its earlier kind again.
async::Task<void> Locks::undo(Locks self, std::shared_ptr<FileState> file, std::shared_ptr<Attempt> attempt) {
  const std::uint64_t owner = attempt->request.owner;
  const auto found = file->state().locks.find(owner);
  if (found == file->state().locks.end()) co_return;
  const auto state = found->second;
  const async::Mutex::Lock turn = co_await state->turn.lock();
  for (const LockRange& range : attempt->gained) {
    auto done = co_await self.unlock_in_turn(file, state, owner, range, false);
  }
  for (const HeldLock& piece : attempt->changed) co_await self.give_again(file, state, owner, piece);
}

/// Locks what is still held of the piece as the piece's kind. If another owner is in the way by now, the lock
/// is lost, because the program believes that it has it.
async::Task<void> Locks::give_again(std::shared_ptr<FileState> file, std::shared_ptr<LockState> state,
                                    std::uint64_t owner, HeldLock piece) {
  const auto held = state->held.within(piece.range);
  for (const HeldLock& now : held) {
    if (now.write == piece.write) continue;
    auto again = std::make_shared<Attempt>();
    again->undoes = true;
    again->request.owner = owner;
    again->request.write = piece.write;
    again->request.range = now.range;
    auto done = co_await lock_in_turn(file, state, again);
    const bool good = done && !again->refused;
    if (good || !file->is_open()) continue;
    const Error why = done ? taken_meanwhile(file->path()) : done.error();
    session_.lock_recovery().lose(file->state(), owner, now.range, why);
  }
}

/// Makes one attempt and waits for it, or for `attempt->waiter` to be cancelled.
async::Task<Status> Locks::attempt_lock(std::shared_ptr<FileState> file, std::shared_ptr<Attempt> attempt) {
  // If this task ends before the lock is handed over, for whatever reason, the lock is not wanted.
  struct Owner {
    ClientLease& session;
    std::shared_ptr<FileState> file;
    std::shared_ptr<Attempt> attempt;
    bool taken = false;
    ~Owner() {
      if (taken) return;
      attempt->abandoned = true;
      if (attempt->granted() && !session.ending())
        session.background().spawn(undo(Locks(session), file, attempt));
    }
  };
  Owner owner{session_, file, attempt};
  session_.background().spawn(run(*this, file, attempt));
  while (!attempt->ended) {
    if (attempt->waiter->cancelled()) co_return interrupted(file->path());
    (void)co_await attempt->waiter->until(async::TimePoint::max());
  }
  owner.taken = true;
  co_return attempt->status;
}

async::Task<Result<std::optional<LockHolder>>> Locks::set(std::shared_ptr<FileState> file,
                                                          LockRequest request) {
  auto attempt = std::make_shared<Attempt>();
  attempt->request = request;
  attempt->waiter = std::make_shared<LockWait>(session_.loop());
  auto done = co_await attempt_lock(std::move(file), attempt);
  if (!done) co_return done.error();
  co_return attempt->refused;
}

async::Task<Status> Locks::wait(std::shared_ptr<FileState> file, LockRequest request,
                                std::shared_ptr<LockWait> cancelled) {
  auto waiter = cancelled ? std::move(cancelled) : std::make_shared<LockWait>(session_.loop());
  // The guard exists before the first LOCK is sent, because the server's call may overtake the Reply.
  const LockWaits::Guard waiting(session_.lock_waits(), file->handle(), request.owner, *waiter);
  const bool told = file->state().notifies_locks && session_.facts().backchannel;
  async::Backoff pause(told ? kFirstPollWithCallback : kFirstPoll,
                       told ? kSlowestPollWithCallback : kSlowestPoll);
  for (;;) {
    if (waiter->cancelled()) co_return interrupted(file->path());
    auto attempt = std::make_shared<Attempt>();
    attempt->request = request;
    attempt->blocking = true;
    attempt->waiter = waiter;
    auto done = co_await attempt_lock(file, attempt);
    if (!done || !attempt->refused) co_return done;
    const async::TimePoint next = session_.loop().now() + pause.take();
    while (!waiter->cancelled() && !waiter->take_notified()) {
      const bool woken = co_await waiter->until(next);
      if (!woken) break;
    }
  }
}

async::Task<Result<std::optional<LockHolder>>> Locks::test(std::shared_ptr<FileState> file,
                                                           LockRequest request) {
  Compound compound = session_.begin_on(file->handle(), "LOCKT", file->state().caller);
  LOCKT4args args;
  args.locktype = request.write ? WRITE_LT : READ_LT;
  args.offset = request.range.offset;
  args.length = request.range.length;
  const auto own = file->state().locks.find(request.owner);
  const std::uint64_t unique = own != file->state().locks.end() ? own->second->unique : 0;
  // The server knows the owner by a name that ends with the owner's generation.
  if (unique != 0) compound.by({}, unique);
  args.owner = lock_owner_of(session_.facts().client_id, request.owner, unique);
  compound.add<op::LOCKT>(args);
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  LOCKT4res res;
  if (reply->take<op::PUTFH>() && reply->take<op::LOCKT>(res)) co_return std::optional<LockHolder>();
  if (const LOCK4denied* denied = res.get<NFS4ERR_DENIED>()) {
    co_return std::optional(holder_of(session_, *denied));
  }
  co_return session_.error_of(*reply, "LOCKT", file->path());
}

async::Task<Status> Locks::unlock(std::shared_ptr<FileState> file, std::uint64_t owner, LockRange range,
                                  bool free) {
  const auto found = file->state().locks.find(owner);
  if (found == file->state().locks.end()) co_return Status();
  const auto state = found->second;
  const async::Mutex::Lock turn = co_await state->turn.lock();
  co_return co_await unlock_in_turn(file, state, owner, range, free);
}

/// Sends LOCKU for the range; with `free` the server forgets the lock owner, too.
async::Task<Status> Locks::unlock_in_turn(std::shared_ptr<FileState> file, std::shared_ptr<LockState> state,
                                          std::uint64_t owner, LockRange range, bool free) {
  Open& open = file->state();
  // A lock that is being claimed may still be granted, and has to be unlocked by the
  // stateid that comes with it.
  const bool claimed = co_await session_.lock_recovery().claimed(open, session_.default_deadline());
  // From now on another owner may have the lock, so it must not be claimed again, whatever
  // becomes of the LOCKU.
  state->held.unlock(range);
  if (!claimed) co_return not_claimed(open.path);
  for (LossLimit losses(session_.loop(), session_.default_deadline());;) {
    if (!state->stateid || !file->is_open()) co_return Status();  // nothing is locked
    const stateid4 used = *state->stateid;
    Compound compound = session_.begin_on(open.file, "LOCKU", open.caller);
    compound.by({}, state->unique);
    compound.add<op::LOCKU>({WRITE_LT, 0, used, range.offset, range.length});
    const bool frees = free && session_.version().frees_stateids;
    if (frees) compound.add<op::FREE_STATEID>({used});
    auto reply = co_await session_.call(std::move(compound));
    if (!reply) co_return reply.error();
    LOCKU4res res;
    const bool unlocked = reply->take<op::PUTFH>() && reply->take<op::LOCKU>(res);
    if (unlocked && state->stateid != used) continue;  // the owner's remaining locks were claimed again
    if (unlocked) {
      state->stateid = session_.to_keep(*res.get<NFS4_OK>());
      if (!free) co_return Status();
      state->stateid.reset();
      if (!frees) {
        lock_owner4 who = lock_owner_of(session_.facts().client_id, owner, state->unique);
        co_await release_owner(session_, open.caller, std::move(who), state->unique);
      }
      if (state->unique != 0) session_.forget_lock_owner(std::exchange(state->unique, 0));
      co_return Status();
    }
    const nfsstat4 status = reply->failed_status();
    const bool again = co_await losses.again(CallLayer::is_lost_state(status));
    if (!again) co_return session_.error_of(*reply, "LOCKU", open.path);
    if (state->stateid != used) continue;  // it was claimed again meanwhile
    // The server has lost the stateid, and with it this lock, as was wanted. The owner's
    // remaining locks are lost.
    session_.lock_recovery().lose(open, owner, session_.error_of(*reply, "LOCKU", open.path));
    co_return Status();
  }
}

async::Task<Status> Locks::clear(std::shared_ptr<FileState> file, std::uint64_t owner, LockRange range) {
  return unlock(std::move(file), owner, range, false);
}

async::Task<Status> Locks::release(std::shared_ptr<FileState> file, std::uint64_t owner) {
  auto done = co_await unlock(file, owner, LockRange(), true);
  Open& open = file->state();
  open.lost_locks.erase(owner);
  const auto found = open.locks.find(owner);
  if (found == open.locks.end() || !found->second->held.empty()) co_return done;
  // Any other task that holds on to the LockState waits for the turn, to lock under it.
  if (found->second.use_count() != 1) co_return done;
  if (found->second->unique != 0) session_.forget_lock_owner(found->second->unique);
  open.locks.erase(found);
  co_return done;
}

}  // namespace nfsrdma::nfs4
