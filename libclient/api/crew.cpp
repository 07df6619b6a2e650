#include "api/crew.h"

#include <poll.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <semaphore>
#include <system_error>
#include <utility>

#include "async/listed.h"

namespace nfsrdma::api {

using std::chrono::milliseconds;

namespace {

/// Interval at which a thread polls its descriptors if it has no wake-up descriptor to sleep on.
constexpr milliseconds kLookEvery(50);

}  // namespace

/// The semaphore on which a thread sleeps. It belongs to the thread and outlives its waits, because the
/// thread is woken only after the mutex has been released, and may have left the list of waiters by then.
struct Crew::Sleeper {
  std::counting_semaphore<> woken{0};
  static const std::shared_ptr<Sleeper>& own() {
    thread_local const auto sleeper = std::make_shared<Sleeper>();
    return sleeper;
  }
};

struct Crew::Waiter {
  const std::function<bool()>& over;
  const async::TimePoint deadline;
  std::span<const int> also;
  const std::shared_ptr<Sleeper> sleeper = Sleeper::own();
  bool told = false;  // asked to look again: its wait is over, or it is to lead
  bool interrupted = false;
  bool ready = false;  // a descriptor of `also` is readable
  // Replaces the sleeper of a thread that polls descriptors; empty if no descriptor was left for it.
  std::optional<async::Wakeup> wake = std::nullopt;

  [[nodiscard]] bool is_over() const { return ready || interrupted || over(); }
  void make_wake() {
    try {
      wake.emplace();
    } catch (const std::system_error&) {
      wake.reset();  // follow() sleeps in short steps then
    }
  }
};

/// While an Away lives, the mutex is free.
class Crew::Away {
 public:
  explicit Away(Crew& crew) : crew_(crew) { crew_.leave(); }
  ~Away() { crew_.enter(std::this_thread::get_id()); }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  Crew& crew_;
};

/// The leader is away while the loop waits.
class Crew::Outside final : public async::Loop::WaitGuard {
 public:
  explicit Outside(Crew& crew) : crew_(crew) {}
  void leave(async::TimePoint until) override {
    crew_.asleep_ = true;
    crew_.sleeps_until_ = until;
    away_.emplace(crew_);
  }
  void enter() override {
    away_.reset();
    crew_.asleep_ = false;
  }

 private:
  Crew& crew_;
  std::optional<Away> away_;
};

/// While a Leading lives, its thread runs the loop.
class Crew::Leading {
 public:
  Leading(Crew& crew, Waiter& waiter) : crew_(crew) { crew.leader_ = &waiter; }
  ~Leading() { crew_.leader_ = nullptr; }
  Leading(const Leading&) = delete;
  Leading& operator=(const Leading&) = delete;

 private:
  Crew& crew_;
};

Crew::Crew(async::Loop& loop, bool threads) : loop_(loop) {
  if (!threads) return;
  wake_.emplace();
  loop_.watch(wake_->descriptor(), POLLIN, [this](std::uint32_t) { wake_->clear(); });
}

Crew::~Crew() {
  assert(waiters_.empty());
  if (wake_) loop_.unwatch(wake_->descriptor());
}

// ---- in and out ----

Crew::Inside::Inside(Crew& crew) : crew_(crew) {
  const std::thread::id own = std::this_thread::get_id();
  nested_ = crew_.is_inside(own);
  if (crew_.is_inherited()) return;
  if (!nested_) crew_.enter(own);
  entered_ = true;
}

Crew::Inside::Inside(Crew& crew, std::try_to_lock_t) : crew_(crew) {
  const std::thread::id own = std::this_thread::get_id();
  nested_ = crew_.is_inside(own);
  if (crew_.is_inherited()) return;
  entered_ = nested_ || crew_.mutex_.try_lock();
  if (entered_ && !nested_) crew_.begin(own);
}

Crew::Inside::~Inside() {
  if (entered_ && !nested_) crew_.leave();
}

void Crew::enter(std::thread::id own) {
  mutex_.lock();
  begin(own);
}

void Crew::leave() {
  if (is_inherited()) return;
  end();
  if (woken_.empty()) {
    mutex_.unlock();
  } else {
    unlock_and_wake();
  }
}

/// Unlocks the mutex, and then wakes the sleepers, because each of them locks the mutex.
void Crew::unlock_and_wake() {
  thread_local std::vector<std::shared_ptr<Sleeper>> waking;
  waking.swap(woken_);
  mutex_.unlock();
  for (const auto& sleeper : waking) sleeper->woken.release();
  waking.clear();
}

/// Called when the mutex has just been locked, with the id of the calling thread.
void Crew::begin(std::thread::id own) {
  owner_.store(own, std::memory_order_relaxed);
  loop_.begin_visit();
}

/// Called just before the mutex is unlocked.
void Crew::end() {
  if (!waiters_.empty()) tell();
  loop_.end_visit();
  owner_.store(std::thread::id(), std::memory_order_relaxed);
}

/// Wakes the waiters that have to look again: those whose wait is over, and the leader if the loop has
/// something to do before the leader would wake up.
void Crew::tell() {
  for (Waiter* waiter : waiters_) {
    if (waiter != leader_ && waiter->is_over()) tell(*waiter);
  }
  if (leader_ == nullptr) {
    if (!waiters_.empty()) tell(*waiters_.front());
  } else if (asleep_ && (loop_.due() < sleeps_until_ || leader_->is_over())) {
    if (wake_) wake_->set();
    sleeps_until_ = async::TimePoint::min();  // one wake-up is enough
  }
}

void Crew::interrupt() {
  for (Waiter* waiter : waiters_) waiter->interrupted = true;
}

void Crew::tell(Waiter& waiter) {
  if (waiter.told) return;
  if (waiter.wake) {
    waiter.wake->set();
  } else {
    woken_.push_back(waiter.sleeper);
  }
  waiter.told = true;
}

// ---- waiting ----

bool Crew::wait(const std::function<bool()>& over, async::TimePoint deadline, std::span<const int> also) {
  Waiter me{.over = over, .deadline = deadline, .also = also};
  if (!also.empty()) me.make_wake();
  // A callback of the loop may throw (std::bad_alloc, for instance). Then the thread is neither listed nor leads any more,
  // so that other threads and later calls go on.
  const async::Listed listed(waiters_, me);
  const auto late = [&] { return deadline != async::TimePoint::max() && loop_.now() >= deadline; };
  // Even a caller that does not wait (a deadline in the past) has the loop do what is due.
  while (!is_inherited() && !me.is_over()) {
    if (leader_ != nullptr) {
      follow(me);
    } else {
      const Leading leading(*this, me);
      do turn(me);
      while (!is_inherited() && !me.is_over() && !late());
    }
    if (late()) break;
  }
  if (is_inherited()) return false;  // a callback has called fork(2), and this is the child
  return me.is_over();
}

/// Runs one turn of the loop.
void Crew::turn(Waiter& leader) {
  Outside outside(*this);
  if (leader.also.empty()) {
    loop_.turn(leader.deadline, &outside);
  } else if (!loop_.turn(async::TimePoint::min())) {
    const auto until = std::min(leader.deadline, loop_.due());
    outside.leave(until);
    const bool ready = poll(leader, until, loop_.descriptor());
    outside.enter();
    leader.ready = ready;
  }
  if (!is_inherited()) tell();
}

/// Sleeps while another thread leads.
void Crew::follow(Waiter& waiter) {
  bool ready = false;
  {
    const Away away(*this);
    if (waiter.wake) {
      ready = poll(waiter, waiter.deadline, waiter.wake->descriptor());
    } else if (!waiter.also.empty()) {
      ready = poll(waiter, async::TimePoint::min(), -1);  // poll(2) ignores the descriptor -1
      const auto step = std::min(waiter.deadline, async::Clock::now() + kLookEvery);
      if (!ready) (void)waiter.sleeper->woken.try_acquire_until(step);
    } else if (waiter.deadline == async::TimePoint::max()) {
      waiter.sleeper->woken.acquire();
    } else {
      (void)waiter.sleeper->woken.try_acquire_until(waiter.deadline);
    }
  }
  if (waiter.wake) waiter.wake->clear();
  waiter.told = false;
  waiter.ready = ready;
}

/// Called without the mutex. Returns whether one of `also` is ready; also returns when `wake` is ready.
bool Crew::poll(const Waiter& waiter, async::TimePoint until, int wake) {
  constexpr milliseconds kLongest(60'000);
  std::vector<pollfd> fds;
  fds.reserve(waiter.also.size() + 1);
  for (const int fd : waiter.also) fds.push_back({fd, POLLIN, 0});
  fds.push_back({wake, POLLIN, 0});
  const auto now = async::Clock::now();
  const auto left = until <= now
                        ? milliseconds(0)
                        : std::min(kLongest, std::chrono::ceil<milliseconds>(
                                                 std::min<async::Clock::duration>(until - now, kLongest)));
  ::poll(fds.data(), fds.size(), static_cast<int>(left.count()));
  return std::ranges::any_of(std::span(fds).first(waiter.also.size()),
                             [](const pollfd& f) { return f.revents != 0; });
}

}  // namespace nfsrdma::api
