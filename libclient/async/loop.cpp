#include "async/loop.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "async/descriptor.h"

namespace nfsrdma::async {
namespace {

constexpr auto kTidyEvery = std::chrono::seconds(5);

/// Detects whether a function that was called has forked, and this is the child. The rest of the turn then
/// belongs to the parent only.
class ForkWatch {
 public:
  [[nodiscard]] bool is_child() const { return here_.is_inherited(); }

 private:
  const Birth here_;
};

}  // namespace

/// While an object of this class exists, now() does not change.
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

Loop::Loop() : system_(system_world()), world_(*system_), now_(world_.now()) {}
Loop::Loop(World& world) : world_(world), now_(world_.now()) {}

Loop::~Loop() {
  drop_tasks();
}

/// Returns the tag of a watch: the descriptor and the low half of the watch's id. With the id, an event that
/// was queued for a descriptor that has been closed since does not reach the next descriptor with this
/// number.
std::uint64_t Loop::tag_of(int fd, std::uint64_t id) {
  return id << 32U | static_cast<std::uint32_t>(fd);
}

void Loop::watch(int fd, std::uint32_t events, FdCallback callback) {
  const auto watch = std::make_shared<Watch>(Watch{next_id_++, std::move(callback)});
  world_.watch(fd, events, tag_of(fd, watch->id));
  watches_[fd] = watch;
}

void Loop::change(int fd, std::uint32_t events) {
  world_.change(fd, events, tag_of(fd, watches_.at(fd)->id));
}

void Loop::unwatch(int fd) {
  if (watches_.erase(fd) != 0) world_.unwatch(fd);
}

void Loop::set(Timer& timer, TimePoint when) {
  timer.cancel();
  timer.when_ = when;
  // Most timers are deadlines, and so are later than those that are set already.
  timers_.insert(timers_.end(), timer);
}

/// A timer of at().
struct Loop::Callback final : Timer {
  Callback(Loop& l, TimerId i, std::function<void()> c) : loop(l), id(i), call(std::move(c)) {}
  virtual ~Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  void on_time() override {
    const auto own = loop.callbacks_.extract(id);
    call();
  }
  Loop& loop;
  const TimerId id;
  const std::function<void()> call;
};

Loop::TimerId Loop::at(TimePoint when, std::function<void()> callback) {
  const TimerId id = next_id_++;
  auto& one = callbacks_[id] = std::make_unique<Callback>(*this, id, std::move(callback));
  set(*one, when);
  return id;
}

void Loop::cancel(TimerId id) {
  callbacks_.erase(id);
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
  co_await task;
  loop.ended_.push_back(id);
  // The task's frame, with all that it holds, is destroyed here and not at the end of the turn with this frame.
  const Task<void> ended = std::move(task);
}

std::uint64_t Loop::spawn(Task<void> task) {
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<std::uint32_t>(spawned_.size()));
    spawned_.emplace_back();
    assert(spawned_.size() <= std::size_t{1} << kPlaceBits);
  }
  Spawned& one = spawned_[free_places_.back()];
  const std::uint64_t id = ++last_spawned_ << kPlaceBits | free_places_.back();
  free_places_.pop_back();
  one.id = id;
  one.task.emplace(run_spawned(*this, id, std::move(task)));
  one.task->handle().resume();  // may spawn other tasks and move the table, so `one` is not used after this
  return id;
}

/// Removes a spawned task from the table and returns it; nothing if it has ended already.
std::optional<Task<void>> Loop::take_spawned(std::uint64_t id) {
  const auto place = static_cast<std::uint32_t>(id & ((std::uint64_t{1} << kPlaceBits) - 1));
  if (id == 0 || place >= spawned_.size() || spawned_[place].id != id) return std::nullopt;
  Spawned& one = spawned_[place];
  one.id = 0;
  free_places_.push_back(place);
  return std::exchange(one.task, std::nullopt);
}

void Loop::drop(std::uint64_t id) {
  // Destroying the task may spawn other tasks or drop some, so the tables are made consistent first.
  const auto dead = take_spawned(id);
}

void Loop::reap() {
  if (ended_.empty()) return;
  std::vector<std::uint64_t> all = std::move(reaped_);
  all.swap(ended_);
  for (const std::uint64_t id : all) drop(id);
  all.clear();
  reaped_ = std::move(all);
}

void Loop::drop_tasks() {
  while (free_places_.size() < spawned_.size()) {
    for (std::size_t place = 0; place < spawned_.size(); ++place) {
      if (spawned_[place].id != 0) drop(spawned_[place].id);
    }
  }
  ended_.clear();
}

/// Calls `function`. If it throws, throw_failure() throws the same later, so that the rest of the turn is done first.
template <class Function>
void Loop::call(const Function& function) {
  try {
    function();
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
}

void Loop::throw_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Loop::run_timers() {
  const TimePoint current = now_;
  const ForkWatch fork;
  while (!fork.is_child() && !timers_.empty() && timers_.begin()->when_ <= current) {
    Timer& first = *timers_.begin();
    first.cancel();
    call([&first] { first.on_time(); });
  }
}

void Loop::run_woken() {
  const ForkWatch fork;
  while (!fork.is_child() && !woken_.empty()) {
    Wake& first = woken_.front();
    first.leave();
    call([&first] { first.on_wake(); });
  }
}

void Loop::run_posted() {
  std::vector<std::function<void()>> batch;
  batch.swap(posted_);
  const ForkWatch fork;
  for (const auto& fn : batch) {
    if (fork.is_child()) return;
    call(fn);
  }
}

void Loop::run_hooks() {
  const ForkWatch fork;
  // A hook may remove itself or any other, so the next one is looked up by its id.
  for (auto at = hooks_.begin(); !fork.is_child() && at != hooks_.end();) {
    const std::uint64_t id = at->first;
    call(at->second);
    at = hooks_.upper_bound(id);
  }
}

void Loop::finish_turn() {
  const ForkWatch fork;
  run_woken();
  run_posted();
  run_woken();
  if (fork.is_child()) return;
  run_hooks();
  if (fork.is_child()) return;
  call([this] { reap(); });
  call([this] { tidy_later(); });
}

void Loop::end_turn() {
  finish_turn();
  throw_failure();
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
    wall_seconds_ = world_.wall_seconds();
    wall_read_ = now_;
  }
  return wall_seconds_;
}

void Loop::random(std::span<std::byte> out) {
  if (out.size() > chance_.size()) return world_.random(out);
  if (chance_.size() - chance_used_ < out.size()) {
    world_.random(chance_);
    chance_used_ = 0;
  }
  const auto part = std::span(chance_).subspan(chance_used_, out.size());
  std::ranges::copy(part, out.begin());
  std::ranges::fill(part, std::byte{});
  chance_used_ += out.size();
}

void Loop::run_ready(const Ready& ready) {
  const int fd = static_cast<int>(static_cast<std::uint32_t>(ready.tag));
  const auto found = watches_.find(fd);
  // An earlier callback of this turn may have removed this watch.
  if (found == watches_.end() || tag_of(fd, found->second->id) != ready.tag) return;
  const std::shared_ptr<Watch> keep = found->second;
  keep->callback(ready.events);
}

bool Loop::turn(TimePoint latest, WaitGuard* guard) {
  std::array<Ready, 64> ready;  // NOLINT(cppcoreguidelines-pro-type-member-init): wait() fills it
  const TimePoint until = std::min(latest, due());
  if (until <= now_) guard = nullptr;
  if (guard != nullptr) guard->leave(until);
  const std::size_t count = world_.wait(until, ready);
  if (guard != nullptr) guard->enter();
  look_at_clock();
  turn_lease_.reset();
  if (count == 0 && due() > now_) return false;
  const InTurn turn(*this);
  const ForkWatch fork;
  run_timers();
  for (const Ready& one : std::span(ready).first(count)) {
    if (!fork.is_child()) call([this, &one] { run_ready(one); });
  }
  if (!fork.is_child()) finish_turn();
  throw_failure();
  return true;
}

}  // namespace nfsrdma::async
