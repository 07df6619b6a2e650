#include "async/loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <ctime>
#include <span>
#include <utility>

namespace nfsrdma::async {
namespace {

constexpr auto kNear = std::chrono::milliseconds(100);
constexpr auto kTidyEvery = std::chrono::seconds(5);

int wait_for(int epoll, std::span<epoll_event> events, const timespec* timeout) {
  // Timers of less than a millisecond matter (fabric/iwarp/gathering.h). Linux before 5.11 rounds them up.
  static std::atomic<bool> precise = true;
  if (precise) {
    const int count = ::epoll_pwait2(epoll, events.data(), static_cast<int>(events.size()), timeout, nullptr);
    if (count >= 0 || errno != ENOSYS) return count;
    precise = false;
  }
  constexpr long kMilli = 1000000;
  const long ms = timeout == nullptr ? -1 : timeout->tv_sec * 1000 + (timeout->tv_nsec + kMilli - 1) / kMilli;
  return ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), static_cast<int>(ms));
}

}  // namespace

/// now() stands still while one lives.
class Loop::InTurn {
 public:
  explicit InTurn(Loop& loop) : loop_(loop), before_(std::exchange(loop.in_turn_, true)) {}
  ~InTurn() { loop_.in_turn_ = before_; }
  InTurn(const InTurn&) = delete;
  InTurn& operator=(const InTurn&) = delete;

 private:
  Loop& loop_;
  const bool before_;
};

struct Loop::Watch {
  std::uint64_t id;
  FdCallback callback;
};

Loop::Loop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) std::abort();  // out of descriptors before anything began
}

Loop::~Loop() {
  drop_tasks();
  ::close(epoll_);
}

void Loop::watch(int fd, std::uint32_t events, FdCallback callback) {
  const auto watch = std::make_shared<Watch>(Watch{next_id_++, std::move(callback)});
  control(EPOLL_CTL_ADD, fd, events, watch->id);
  watches_[fd] = watch;
}

void Loop::change(int fd, std::uint32_t events) {
  control(EPOLL_CTL_MOD, fd, events, watches_.at(fd)->id);
}

void Loop::unwatch(int fd) {
  if (watches_.erase(fd) != 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

/// An event carries the descriptor and the low half of its watch's id: one that was queued for a descriptor
/// that has been closed since does not reach the next with the same number.
void Loop::control(int operation, int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id << 32U | static_cast<std::uint32_t>(fd);
  [[maybe_unused]] const int rc = ::epoll_ctl(epoll_, operation, fd, &event);
  assert(rc == 0);
}

Loop::TimerId Loop::at(TimePoint when, std::function<void()> callback) {
  const TimerId id = next_id_++;
  timers_.emplace(std::pair(when, id), std::move(callback));
  timer_times_.emplace(id, when);
  return id;
}

void Loop::cancel(TimerId id) {
  const auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase(std::pair(found->second, id));
  timer_times_.erase(found);
}

void Loop::post(std::function<void()> fn) {
  posted_.push_back(std::move(fn));
}

std::uint64_t Loop::at_end_of_turn(std::function<void()> hook) {
  const std::uint64_t id = next_id_++;
  hooks_.emplace(id, std::move(hook));
  return id;
}

void Loop::remove_end_of_turn(std::uint64_t id) {
  hooks_.erase(id);
}

Task<void> Loop::run_spawned(Loop& loop, std::uint64_t id, Task<void> task) {
  co_await std::move(task);
  loop.ended_.push_back(id);
}

std::uint64_t Loop::spawn(Task<void> task) {
  const std::uint64_t id = next_id_++;
  const auto at = spawned_.emplace(id, run_spawned(*this, id, std::move(task))).first;
  at->second.handle().resume();
  return id;
}

void Loop::drop(std::uint64_t id) {
  const auto dead = spawned_.extract(id);
}

void Loop::reap() {
  // What a task owns may spawn another when it dies, or end one: the lists are whole by then.
  for (const std::uint64_t id : std::exchange(ended_, {})) drop(id);
}

void Loop::drop_tasks() {
  while (!spawned_.empty()) {
    const auto dead = std::exchange(spawned_, {});
  }
  ended_.clear();
}

void Loop::run_timers() {
  const TimePoint current = now_;
  while (!timers_.empty() && timers_.begin()->first.first <= current) {
    auto callback = std::move(timers_.begin()->second);
    timer_times_.erase(timers_.begin()->first.second);
    timers_.erase(timers_.begin());
    callback();
  }
}

void Loop::run_posted() {
  std::vector<std::function<void()>> batch;
  batch.swap(posted_);
  for (auto& fn : batch) fn();
}

void Loop::end_turn() {
  run_posted();
  // A hook may remove itself or any other: looked up anew each time.
  for (auto at = hooks_.begin(); at != hooks_.end();) {
    const std::uint64_t id = at->first;
    at->second();
    at = hooks_.upper_bound(id);
  }
  reap();
  tidy_later();
}

void Loop::tidy_later() {
  if (tidying_ || memory_.spare_bytes() == 0) return;
  tidying_ = true;
  at(now() + kTidyEvery, [this] {
    tidying_ = false;
    memory_.drop_unused();
  });
}

std::int64_t Loop::wall_seconds() {
  if (wall_read_ == TimePoint::min() || now() - wall_read_ >= std::chrono::seconds(1)) {
    wall_seconds_ = std::time(nullptr);
    wall_read_ = now_;
  }
  return wall_seconds_;
}

bool Loop::turn(TimePoint latest) {
  TimePoint until = latest;
  if (!timers_.empty()) until = std::min(until, timers_.begin()->first.first);
  if (!posted_.empty()) until = TimePoint::min();
  timespec wait{};
  timespec* timeout = nullptr;
  if (until != TimePoint::max()) timeout = &wait;
  if (until != TimePoint::max() && until != TimePoint::min()) {
    // For what is far away the clock of the last turn will do.
    if (until - now_ < kNear) look_at_clock();
    const auto left = std::min<Clock::duration>(until - std::min(until, now_), std::chrono::hours(24));
    wait.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
    wait.tv_nsec = (left % std::chrono::seconds(1)).count();
  }
  std::array<epoll_event, 64> events;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by the kernel
  const int count = wait_for(epoll_, events, timeout);
  look_at_clock();
  const bool timer_due = !timers_.empty() && timers_.begin()->first.first <= now_;
  if (count <= 0 && !timer_due && posted_.empty()) return false;
  const InTurn turn(*this);
  run_timers();
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    const auto found = watches_.find(static_cast<int>(static_cast<std::uint32_t>(event.data.u64)));
    // An earlier callback of this turn may have taken it off.
    if (found == watches_.end() || found->second->id << 32U != (event.data.u64 & ~0xffffffffULL)) continue;
    const std::shared_ptr<Watch> keep = found->second;
    keep->callback(event.events);
  }
  end_turn();
  return true;
}

}  // namespace nfsrdma::async
