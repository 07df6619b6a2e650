#include "nfs3/locks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <ranges>
#include <vector>

#include "async/backoff.h"

namespace nfsrdma::nfs3 {
namespace {

using namespace std::chrono_literals;
using Verdict = LockManager::Verdict;

constexpr async::Clock::duration kFirstPoll = 50ms, kSlowestPoll = 2s;
/// Poll intervals of a waiter that the server has queued, whose call may be lost.
constexpr async::Clock::duration kFirstQueuedPoll = 1s, kSlowestQueuedPoll = 10s;
constexpr async::Clock::duration kFirstGracePause = 1s, kLongestGracePause = 5s;
/// Well below the grace periods of servers, which are 45 s and more.
constexpr async::Clock::duration kWatchEvery = 10s, kWatchTime = 5s;
/// Bounds how often all locks are claimed: in one grace period several requests may ask for it.
constexpr async::Clock::duration kReclaimEvery = 10s;
constexpr async::Clock::duration kLongestWithoutLocks = 2min;
constexpr std::uint64_t kNobody = ~std::uint64_t{0};  // a lock owner without locks

Error no_locks(const std::string& path) {
  return {ErrorKind::server, ENOLCK, "lock", path, "there is no lock service for this mount"};
}
Error given_up(const std::string& path) {
  return {ErrorKind::cancelled, EINTR, "lock", path, "the wait for the lock was given up"};
}
Error still_in_grace(const std::string& path) {
  return {ErrorKind::timeout, ETIMEDOUT, "lock", path,
          "the server has restarted and grants no new locks until its grace period ends; try again"};
}
Error lock_lost(const std::string& path) {
  return {ErrorKind::server, EIO, "lock", path,
          "the server has restarted, and this lock could not be recovered; close the file to go on"};
}

}  // namespace

/// The locks of one owner on one file.
struct LockState {
  LockState(async::Loop& loop, std::shared_ptr<FileRecord> in, LockedFile of, std::uint64_t by)
      : record(std::move(in)), file(std::move(of)), owner(by), turn(loop) {}
  const std::shared_ptr<FileRecord> record;  // the record holds this state until tidy() removes it
  LockedFile file;
  const std::uint64_t owner;
  locking::HeldLocks held;
  bool doubtful = false;  // the answer to a request was lost: the server may hold more than `held`
  bool released = false;  // release() was called and has not succeeded: the remaining locks are not wanted
  std::optional<Error> lost;
  // Since when the server has answered ENOLCK to claims of these locks.
  std::optional<async::TimePoint> has_none_since;
  async::Mutex turn;  // held during a request, so that there is one at a time
};

/// A request for a lock, which runs as a task of its own, and the waiter for its result.
struct Locks::Attempt {
  LockRequest request;
  std::shared_ptr<locking::LockWait> waiter;  // woken when the request has ended
  bool queues = false;                        // asks to be queued, and to be called when the lock is granted
  bool abandoned = false;                     // the waiter is gone: the lock is not wanted any more
  locking::HeldLocks before;                  // what the owner held when the request began
  bool doubts = false;    // the owner is doubtful only because this request may have been granted
  bool weakened = false;  // `held` has read locks in place of write locks, because of this request

  std::shared_ptr<State> queued;  // set while queued, so that tidy() keeps the owner's state
  bool ended = false;
  bool in_grace = false;  // the grace period lasted longer than the request was tried
  // Ended without a last question to the server, which would have restored what is weakened.
  bool unasked = false;
  Status status;
  Verdict verdict = Verdict::grace;  // valid if `status` is success

  void end(Status how) {
    status = std::move(how);
    ended = true;
    waiter->wake();
  }
  [[nodiscard]] bool is(Verdict which) const { return ended && status && verdict == which; }
};

std::shared_ptr<Locks::State> Locks::state_of(const LockedFile& file, std::uint64_t owner) {
  const auto record = files_.of(file.handle);
  auto& state = record->locks[owner];
  if (!state) state = std::make_shared<State>(loop_, record, file, owner);
  return state;
}

/// Returns null if the owner has nothing on the file.
std::shared_ptr<Locks::State> Locks::known(const FileHandle& file, std::uint64_t owner) const {
  const auto record = files_.find(file);
  if (!record) return nullptr;
  const auto found = record->locks.find(owner);
  return found != record->locks.end() ? found->second : nullptr;
}

std::vector<std::shared_ptr<Locks::State>> Locks::all() const {
  std::vector<std::shared_ptr<State>> out;
  files_.each([&out](const auto& file) {
    std::ranges::copy(std::views::values(file->locks), std::back_inserter(out));
  });
  return out;
}

/// Breaks the cycles of references: a state and its record hold each other.
Locks::~Locks() {
  background_.drop();
  for (const auto& state : all()) state->record->locks.clear();
}

bool Locks::knows(const FileHandle& file, std::uint64_t owner) const {
  return known(file, owner) != nullptr;
}

std::optional<Error> Locks::lost(const FileHandle& file) const {
  const auto record = files_.find(file);
  if (!record) return std::nullopt;
  for (const auto& [owner, state] : record->locks) {
    if (state->lost) return state->lost;
  }
  return std::nullopt;
}

std::size_t Locks::held() const {
  std::size_t out = 0;
  for (const auto& state : all()) out += state->held.list().size();
  return out;
}

// ---- questions ----

LockManager::Question Locks::question_of(const LockedFile& file, const LockRequest& request) {
  LockManager::Question out;
  out.caller = file.caller;
  out.file = file.handle;
  out.lock = request;
  return out;
}

/// Asks the server once, while holding the owner's turn. Returns false if the server is in its grace period.
async::Task<bool> Locks::ask(LockedFile file, std::shared_ptr<State> state, std::shared_ptr<Attempt> one,
                             async::TimePoint until) {
  const async::Mutex::Lock turn = co_await state->turn.lock(until);
  const LockRequest& request = one->request;
  std::optional<Error> refused = state->lost;
  if (!turn) refused = still_in_grace(file.label);
  if (one->abandoned) refused = given_up(file.label);
  if (refused) {
    one->unasked = true;
    one->end(*refused);
    co_return true;
  }
  if (!one->weakened) one->before = state->held;
  // If a write lock becomes a read lock, others may read the range from now on. Therefore the write lock must
  // not be claimed again, whatever becomes of this request.
  for (const locking::HeldLock& piece : one->before.within(request.range)) {
    if (request.write || !piece.write) continue;
    one->weakened = true;
    state->held.lock(piece.range, false);
  }
  LockManager::Question question = question_of(file, request);
  if (one->queues) {
    question.when_given = [waiter = std::weak_ptr(one->waiter)] {
      if (const auto there = waiter.lock()) there->notify();
    };
  }
  auto verdict = co_await manager_->lock(question, until);
  if (verdict && *verdict == Verdict::grace && !one->abandoned) co_return false;
  if (verdict) one->verdict = *verdict;
  if (verdict && *verdict == Verdict::queued) one->queued = state;
  if (verdict && *verdict == Verdict::granted) state->held.lock(request.range, request.write);
  // If the answer was lost, the server may have granted the lock.
  const bool perhaps = !verdict && verdict.error().kind() != ErrorKind::server;
  one->doubts = perhaps && !state->doubtful;
  if (perhaps) state->doubtful = true;
  one->end(verdict ? Status() : Status(verdict.error()));
  const bool there = one->is(Verdict::granted) || one->is(Verdict::queued);
  if (perhaps || (one->abandoned && there)) {
    co_await undo(file, state, one);
  } else if (one->weakened && !one->is(Verdict::granted)) {
    const auto pieces = as_it_was(*state, *one).within(request.range);
    for (const locking::HeldLock& piece : pieces) co_await give_again(file, state, piece);
  }
  co_return true;
}

/// Asks until the server has ended its grace period.
async::Task<void> Locks::run(LockedFile file, std::shared_ptr<Attempt> one) {
  co_await begin_watch();
  const async::TimePoint until = deadline();
  auto state = state_of(file, one->request.owner);
  for (async::Backoff pause(kFirstGracePause, kLongestGracePause);;) {
    const bool ended = co_await ask(file, state, one, until);
    if (ended) break;
    co_await reclaim();
    const async::TimePoint next = loop_.now() + pause.take();
    if (next >= until) {
      one->in_grace = true;
      one->unasked = true;
      one->end(still_in_grace(file.label));
      break;
    }
    co_await loop_.sleep_until(next);
  }
  // To the program the weakened locks are still write locks, so they are restored. The locks of an owner that
  // has lost some are not.
  if (one->weakened && one->unasked && !state->lost) co_await undo_later(file, one);
  state.reset();
  tidy(file.handle, one->request.owner);
}

/// Forgets the owner if it has nothing on the file and no task uses its state.
void Locks::tidy(const FileHandle& file, std::uint64_t owner) {
  const auto record = files_.find(file);
  if (!record) return;
  const auto found = record->locks.find(owner);
  if (found == record->locks.end()) return;
  const State& state = *found->second;
  const bool has_something = !state.held.empty() || state.doubtful || state.lost;
  if (has_something || found->second.use_count() != 1) return;
  manager_->forget(state.file.handle, state.owner);
  record->locks.erase(found);
}

// ---- undoing what is not wanted ----

/// Returns what the owner holds if the attempt comes to nothing: as before the attempt, without what the
/// owner has unlocked since.
locking::HeldLocks Locks::as_it_was(const State& state, const Attempt& one) {
  if (one.is(Verdict::granted)) return one.before;
  locking::HeldLocks out = state.held;
  if (!one.weakened) return out;
  for (const locking::HeldLock& piece : one.before.within(one.request.range)) {
    if (!piece.write) continue;
    for (const locking::HeldLock& left : state.held.within(piece.range)) out.lock(left.range, true);
  }
  return out;
}

/// Called in the owner's turn. Restores what the program believes to be held, even if the server has granted
/// more.
async::Task<void> Locks::undo(LockedFile file, std::shared_ptr<State> state, std::shared_ptr<Attempt> one) {
  const LockRequest request = one->request;
  const locking::HeldLocks wanted = as_it_was(*state, *one);
  const auto pieces = wanted.within(request.range);
  const bool doubtful = state->doubtful && !one->doubts;
  // `held` changes at once, so that what is given up now is not claimed again.
  state->held.unlock(request.range);
  for (const locking::HeldLock& piece : pieces) state->held.lock(piece.range, piece.write);
  state->doubtful = true;
  bool sure = true;
  const bool perhaps_queued = one->queues && !one->status;
  if (one->is(Verdict::queued) || perhaps_queued) {
    auto left = co_await manager_->cancel(question_of(file, request), deadline());
    sure = static_cast<bool>(left);
  }
  for (const LockRange& range : wanted.not_held(request.range)) {
    LockManager::Question question = question_of(file, request);
    question.lock.range = range;
    auto verdict = co_await manager_->unlock(question, deadline());
    // A verdict of grace means that the restart has removed the lock, unless it was claimed again before this
    // request arrived.
    const bool claimed = verdict && *verdict == Verdict::grace && one->is(Verdict::granted);
    sure = sure && verdict && !claimed;
  }
  for (const locking::HeldLock& piece : pieces) {
    if (piece.write == request.write) continue;
    const bool good = co_await give_again(file, state, piece);
    sure = sure && good;
  }
  if (sure) state->doubtful = doubtful;
  one->queued.reset();
}

async::Task<void> Locks::undo_later(LockedFile file, std::shared_ptr<Attempt> one) {
  auto state = state_of(file, one->request.owner);
  {
    const async::Mutex::Lock turn = co_await state->turn.lock(deadline());
    if (turn)
      co_await undo(file, state, one);
    else
      state->doubtful = true;
  }
  one->queued.reset();
  state.reset();
  tidy(file.handle, one->request.owner);
}

/// Locks a piece that the program holds and that the server may have in another mode. If the server refuses,
/// the piece is lost. Returns false if the server could not be asked.
async::Task<bool> Locks::give_again(LockedFile file, std::shared_ptr<State> state, locking::HeldLock piece) {
  state->held.lock(piece.range, piece.write);
  LockRequest request;
  request.owner = state->owner;
  request.write = piece.write;
  request.range = piece.range;
  LockManager::Question question = question_of(file, request);
  auto verdict = co_await manager_->lock(question, deadline());
  if (!verdict && verdict.error().kind() != ErrorKind::server) co_return false;
  bool good = verdict && *verdict == Verdict::granted;
  if (verdict && *verdict == Verdict::grace) {
    // The restart has removed the lock. It may since have been claimed in the other mode, and nothing else
    // claims it a second time.
    question.reclaim = true;
    auto have = co_await have_again(state, question, deadline());
    if (!have) co_return false;
    good = *have;
  }
  if (!good) {
    state->held.unlock(piece.range);
    state->lost = lock_lost(file.label);
  }
  co_return true;
}

// ---- locking ----

/// Makes one attempt and waits for it, or for its waiter to be cancelled.
async::Task<Status> Locks::attempt(LockedFile file, std::shared_ptr<Attempt> one) {
  // If this task ends before the lock is handed over, the lock is not wanted: ~Owner() abandons the attempt.
  struct Owner {
    Locks& locks;
    LockedFile file;
    std::shared_ptr<Attempt> attempt;
    bool taken = false;
    Owner(Locks& all, LockedFile of, std::shared_ptr<Attempt> made)
        : locks(all), file(std::move(of)), attempt(std::move(made)) {}
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
      if (taken) return;
      attempt->abandoned = true;
      const bool there = attempt->is(Verdict::granted) || attempt->is(Verdict::queued);
      if (there) locks.background_.spawn(locks.undo_later(file, attempt));
    }
  };
  Owner owner(*this, file, one);
  background_.spawn(run(file, one));
  while (!one->ended) {
    if (one->waiter->cancelled()) co_return given_up(file.label);
    (void)co_await one->waiter->until(async::TimePoint::max());
  }
  owner.taken = true;
  co_return one->status;
}

async::Task<Result<std::optional<LockHolder>>> Locks::set(LockedFile file, LockRequest request) {
  if (manager_ == nullptr) co_return no_locks(file.label);
  back_again(file, request.owner);
  auto one = std::make_shared<Attempt>();
  one->request = request;
  one->waiter = std::make_shared<locking::LockWait>(loop_);
  auto done = co_await attempt(file, one);
  if (!done) co_return done.error();
  if (one->is(Verdict::granted)) co_return std::optional<LockHolder>();
  // NLM_LOCK does not report the holder of a conflicting lock, so ask for it.
  auto holder = co_await test(std::move(file), request);
  if (holder && *holder) co_return *holder;
  LockHolder somebody;
  somebody.range = request.range;
  somebody.write = true;
  co_return std::optional(somebody);
}

/// A place in the server's queue. The destructor gives it up.
class Locks::Queued {
 public:
  Queued(Locks& all, LockedFile of) : locks_(all), file_(std::move(of)) {}
  ~Queued() {
    if (by_) locks_.background_.spawn(locks_.undo_later(file_, by_));
  }
  Queued(const Queued&) = delete;
  Queued& operator=(const Queued&) = delete;
  void keep(std::shared_ptr<Attempt> by) { by_ = std::move(by); }
  void forget() { by_.reset(); }

 private:
  Locks& locks_;
  const LockedFile file_;
  std::shared_ptr<Attempt> by_;  // null: no place is held
};

async::Task<Status> Locks::wait(LockedFile file, LockRequest request,
                                std::shared_ptr<locking::LockWait> cancelled) {
  if (manager_ == nullptr) co_return no_locks(file.label);
  back_again(file, request.owner);
  auto waiter = cancelled ? std::move(cancelled) : std::make_shared<locking::LockWait>(loop_);
  Queued place(*this, file);
  async::Backoff pause(kFirstPoll, kSlowestPoll), queued_pause(kFirstQueuedPoll, kSlowestQueuedPoll);
  for (;;) {
    if (waiter->cancelled()) co_return given_up(file.label);
    auto one = std::make_shared<Attempt>();
    one->request = request;
    one->waiter = waiter;
    one->queues = true;
    auto done = co_await attempt(file, one);
    if (!done && !one->in_grace) co_return done;
    if (one->is(Verdict::granted)) {
      place.forget();
      co_return done;
    }
    const bool queued = one->is(Verdict::queued);
    if (queued) place.keep(one);
    const async::TimePoint next = loop_.now() + (queued ? queued_pause : pause).take();
    while (!waiter->cancelled() && !waiter->take_notified()) {
      const bool woken = co_await waiter->until(next);
      if (!woken) break;
    }
  }
}

async::Task<Result<std::optional<LockHolder>>> Locks::test(LockedFile file, LockRequest request) {
  if (manager_ == nullptr) co_return no_locks(file.label);
  const async::TimePoint until = deadline();
  for (async::Backoff pause(kFirstGracePause, kLongestGracePause);;) {
    auto holder = co_await manager_->test(question_of(file, request), until);
    const async::TimePoint next = loop_.now() + pause.take();
    const bool in_grace = !holder && holder.error().errno_value() == EAGAIN;
    if (!in_grace || next >= until) co_return holder;
    co_await loop_.sleep_until(next);
  }
}

// ---- unlocking ----

async::Task<Status> Locks::clear(LockedFile file, std::uint64_t owner, LockRange range) {
  const auto state = known(file.handle, owner);
  if (!state) co_return Status();
  const async::TimePoint until = deadline();
  bool asked = false, doubtful = false;  // doubtful: whether anything else of this owner was in doubt before
  for (async::Backoff pause(kFirstGracePause, kLongestGracePause);;) {
    {
      const async::Mutex::Lock turn = co_await state->turn.lock(until);
      if (!turn) co_return still_in_grace(file.label);
      if (state->held.empty() && !state->doubtful) co_return Status();
      // From now on another owner may get the range. Therefore it must not be claimed again, whatever becomes
      // of this request.
      if (!std::exchange(asked, true)) doubtful = state->doubtful;
      state->held.unlock(range);
      state->doubtful = true;
      LockRequest request;
      request.owner = owner;
      request.range = range;
      auto verdict = co_await manager_->unlock(question_of(file, request), until);
      if (!verdict) co_return verdict.error();
      if (*verdict == Verdict::granted) {
        state->doubtful = doubtful && range != LockRange();
        co_return Status();
      }
      // In a grace period the restart has removed the lock. A lock that was claimed again before this request
      // arrived is unlocked by the next try, after the grace period.
    }
    co_await reclaim();
    const async::TimePoint next = loop_.now() + pause.take();
    if (next >= until) co_return still_in_grace(file.label);
    co_await loop_.sleep_until(next);
  }
}

async::Task<Status> Locks::release(LockedFile file, std::uint64_t owner) {
  if (const auto state = known(file.handle, owner)) state->released = true;
  auto done = co_await clear(file, owner, LockRange());
  if (const auto state = known(file.handle, owner)) {
    state->lost.reset();
    if (done) state->released = false;
  }
  tidy(file.handle, owner);
  co_return done;
}

async::Task<void> Locks::release_quietly(LockedFile file, std::uint64_t owner) {
  auto done = co_await release(std::move(file), owner);
}

void Locks::release_in_background(LockedFile file, std::uint64_t owner) {
  background_.spawn(release_quietly(std::move(file), owner));
}

/// Called when the owner asks for locks again: its next release covers what an earlier release has left.
void Locks::back_again(const LockedFile& file, std::uint64_t owner) {
  if (const auto state = known(file.handle, owner)) state->released = false;
}

/// Tries again to unlock what release() has left, if no other task works for its owner.
void Locks::release_left() {
  std::vector<std::pair<FileHandle, std::uint64_t>> all_keys;
  for (const auto& state : all()) all_keys.emplace_back(state->file.handle, state->owner);
  for (const auto& [file, owner] : all_keys) {
    tidy(file, owner);  // reclaim() may have used the state when its last lock went
    const auto state = known(file, owner);
    // The record's reference, and this one.
    const bool left = state && state->released && state.use_count() == 2;
    if (left) background_.spawn(release_again(file, owner));
  }
}

/// Asks once, while holding the owner's turn: a later request of the owner waits for the turn, so its lock is
/// not removed by this.
async::Task<void> Locks::release_again(FileHandle file, std::uint64_t owner) {
  auto state = known(file, owner);
  if (!state) co_return;
  {
    const async::TimePoint until = deadline();
    const async::Mutex::Lock turn = co_await state->turn.lock(until);
    if (!turn || !state->released) co_return;
    state->held.clear();
    state->doubtful = true;
    LockRequest request;
    request.owner = state->owner;
    auto verdict = co_await manager_->unlock(question_of(state->file, request), until);
    const bool gone = verdict && *verdict == Verdict::granted;
    if (!gone) co_return;
    state->lost.reset();
    state->doubtful = false;
    state->released = false;
  }
  state.reset();
  tidy(file, owner);
}

// ---- restarts of the server ----

/// Called before the first lock: asks for the server's state number, which tells later whether the server has
/// restarted since. Others who come meanwhile wait for the answer, because a lock from before a restart would
/// otherwise be taken for one from after it, and never be claimed again.
async::Task<void> Locks::begin_watch() {
  const async::Mutex::Lock turn = co_await watch_turn_.lock(deadline());
  if (!turn || watching_) co_return;
  watching_ = true;
  auto now = co_await manager_->server_state(loop_.now() + kWatchTime);
  server_state_.reset();
  if (now) server_state_ = *now;
  connections_seen_ = connections_.number();
  connections_.hold(true);
  background_.spawn(watch());
}

async::Task<void> Locks::watch() {
  do {
    co_await loop_.sleep_for(kWatchEvery);
    release_left();
    std::optional<std::uint32_t> state = server_state_;
    if (state) {
      auto now = co_await manager_->server_state(loop_.now() + kWatchTime);
      if (now) state = *now;
    }
    const std::uint64_t connections = connections_.number();
    if (state == server_state_ && connections == connections_seen_) continue;
    reclaimed_ = async::TimePoint::min();
    co_await reclaim();
    // The new values are stored only after reclaim() has succeeded; until then it is tried again.
    if (reclaimed_ == async::TimePoint::min()) continue;
    server_state_ = state;
    connections_seen_ = connections;
  } while (!all().empty());
  connections_.hold(false);
  watching_ = false;
}

/// Claims all held locks, unless that has just been done.
async::Task<void> Locks::reclaim() {
  const bool just_done = reclaimed_ != async::TimePoint::min() && loop_.now() - reclaimed_ < kReclaimEvery;
  if (reclaiming_ || just_done) co_return;
  struct Flag {
    explicit Flag(bool& which) : flag(which) { flag = true; }
    ~Flag() { flag = false; }
    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;
    bool& flag;
  };
  const Flag reclaiming(reclaiming_);
  bool done = true;
  const auto states = all();
  for (const auto& state : states) {
    const bool one = co_await reclaim_of(state);
    done = done && one;
  }
  if (done) reclaimed_ = loop_.now();
}

/// Claims the locks of one owner on one file. Returns false if the server could not be asked.
async::Task<bool> Locks::reclaim_of(std::shared_ptr<State> state) {
  const async::TimePoint until = deadline();
  const async::Mutex::Lock turn = co_await state->turn.lock(until);
  if (!turn) co_return false;
  if (state->released) {
    // The locks are not wanted. If there was no restart, the server may still have them.
    if (!state->held.empty()) state->doubtful = true;
    state->held.clear();
  }
  const auto pieces = state->held.list();
  for (const locking::HeldLock& piece : pieces) {
    LockRequest request;
    request.owner = state->owner;
    request.write = piece.write;
    request.range = piece.range;
    LockManager::Question question = question_of(state->file, request);
    question.reclaim = true;
    auto have = co_await have_again(state, question, until);
    if (!have) co_return false;
    if (*have) continue;
    state->held.unlock(piece.range);
    state->lost = lock_lost(state->file.label);
  }
  co_return true;
}

/// Claims one lock. Returns whether the owner has it again; an Error means that the server could not be
/// asked.
async::Task<Result<bool>> Locks::have_again(std::shared_ptr<State> state, LockManager::Question question,
                                            async::TimePoint until) {
  for (bool asked = false;; asked = true) {
    auto verdict = co_await manager_->lock(question, until);
    if (!verdict && verdict.error().kind() != ErrorKind::server) co_return verdict.error();
    // After a restart the lock service may answer before the services that it depends on are up.
    const bool has_none = !verdict && verdict.error().errno_value() == ENOLCK;
    if (!has_none) state->has_none_since.reset();
    if (has_none && !state->has_none_since) state->has_none_since = loop_.now();
    if (has_none && loop_.now() - *state->has_none_since < kLongestWithoutLocks) co_return verdict.error();
    if (verdict && *verdict == Verdict::granted) co_return true;
    if (asked || !verdict || *verdict != Verdict::grace) co_return false;
    // The server accepts no claims: there was no restart, or the grace period has ended since this lock was
    // claimed before. If the server does not have the lock, it may have restarted at this very moment, so the
    // lock is claimed once more.
    auto there = co_await is_there(question, until);
    if (!there || *there) co_return there;
  }
}

/// Returns whether the server has the lock. The question is asked in the name of an owner without locks, so
/// that the owner's lock is reported as a conflict. An Error means that the server could not be asked.
async::Task<Result<bool>> Locks::is_there(LockManager::Question question, async::TimePoint until) {
  const LockRange range = question.lock.range;
  const bool write = question.lock.write;
  const std::uint64_t owner = question.lock.owner;
  question.reclaim = false;
  question.lock.owner = kNobody;
  question.lock.write = true;
  auto holder = co_await manager_->test(question, until);
  if (!holder && holder.error().kind() == ErrorKind::server) co_return false;
  if (!holder) co_return holder.error();
  if (!*holder) co_return false;
  const LockHolder& who = **holder;
  const bool covers = who.range.offset <= range.offset && range.end() <= who.range.end();
  const bool is_it = who.ours && who.owner == owner && who.write == write && covers;
  // A read lock of another owner hides this one in the answer. It would not be there if somebody had locked
  // the range for writing since.
  const bool hidden = !write && !who.write;
  co_return is_it || hidden;
}

}  // namespace nfsrdma::nfs3
