#include "sim/simulation.h"

#include <algorithm>

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

/// So many steps at one time are a loop that feeds itself.
constexpr std::uint64_t kMostSteps = 1'000'000;
constexpr std::int64_t kWallEpoch = 1'800'000'000;
/// Beyond this a point in time is never.
constexpr Duration kNever = 24h * 365 * 100;

}  // namespace

// ---- hosts ----

class Host::World final : public async::World {
 public:
  explicit World(Host& host) : host_(host) {}

  async::TimePoint now() override { return host_.now(); }
  async::LeaseTime lease_now() override {
    return async::LeaseTime(host_.epoch_.time_since_epoch() + host_.simulation_.now().time_since_epoch());
  }
  std::int64_t wall_seconds() override {
    const auto passed = host_.simulation_.now().time_since_epoch();
    return kWallEpoch + (std::chrono::duration_cast<std::chrono::seconds>(passed) + host_.ahead_).count();
  }
  void random(std::span<std::byte> out) override { host_.chance_.fill(out); }
  bool whim(const char* file, unsigned line, unsigned percent) override {
    if (host_.whims_ == 0) return false;
    const std::string_view path(file);
    std::uint64_t place = host_.whims_ + line;
    for (const char c : path.substr(path.rfind('/') + 1)) {
      place = place * 1'099'511'628'211U + static_cast<unsigned char>(c);
    }
    return Random(place).one_in(4) && host_.chance_.below(100) < percent;
  }

  std::size_t wait(async::TimePoint until, std::span<async::Ready> /*ready*/) override {
    if (until == async::TimePoint::min()) return 0;
    while (!host_.due()) {
      // The clock of a host that sleeps stands still: `until` does not come before somebody wakes it.
      const Time limit = host_.runs() ? host_.to_global(until) : Time::max();
      if (host_.simulation_.now() >= limit) break;
      if (!host_.simulation_.step(limit, &host_) && limit == Time::max()) {
        throw Stuck(host_.name_ + " waits, and nothing will ever happen any more");
      }
    }
    return 0;
  }

 private:
  Host& host_;
};

Host::Host(Simulation& simulation, unsigned number, std::string name)
    : simulation_(simulation),
      number_(number),
      name_(std::move(name)),
      epoch_(number * 1000h),
      chance_(simulation.random().split()),
      world_(std::make_shared<World>(*this)),
      loop_(std::make_unique<async::Loop>(*world_)) {}

async::TimePoint Host::now() const {
  const Time time = state_ == State::asleep ? asleep_since_ : simulation_.now_;
  return epoch_ + (time.time_since_epoch() - slept_);
}

Time Host::to_global(async::TimePoint local) const {
  if (local <= epoch_) return Time::min();
  if (local - epoch_ > kNever) return Time::max();
  return Time(local - epoch_ + slept_);
}

Time Host::next_due() const {
  return runs() ? to_global(loop_->due()) : Time::max();
}

bool Host::due() const {
  return next_due() <= simulation_.now_;
}

void Host::sleep() {
  if (state_ != State::running) return;
  simulation_.note(number_, "falls asleep");
  state_ = State::asleep;
  asleep_since_ = simulation_.now_;
}

void Host::stop() {
  if (state_ != State::running) return;
  simulation_.note(number_, "is stopped");
  state_ = State::stopped;
}

void Host::wake() {
  if (state_ == State::running) return;
  simulation_.note(number_, "wakes up");
  if (state_ == State::asleep) slept_ += simulation_.now_ - asleep_since_;
  state_ = State::running;
  for (const auto& fn : on_wake_) fn();
}

void Host::renew_loop() {
  loop_ = std::make_unique<async::Loop>(*world_);
}

// ---- the simulation ----

Simulation::Simulation(std::uint64_t seed) : random_(seed) {}

Simulation::~Simulation() = default;

Host& Simulation::add_host(std::string name) {
  const auto number = static_cast<unsigned>(hosts_.size() + 1);
  return *hosts_.emplace_back(std::make_unique<Host>(*this, number, std::move(name)));
}

namespace {
constexpr auto later = [](const auto& a, const auto& b) {
  return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
};
}  // namespace

void Simulation::at(Time when, std::function<void()> fn) {
  events_.push_back({std::max(when, now_), sequence_++, std::move(fn)});
  std::ranges::push_heap(events_, later);
}

void Simulation::run_event() {
  std::ranges::pop_heap(events_, later);
  const auto run = std::move(events_.back().run);
  events_.pop_back();
  run();
}

Host* Simulation::choose_due(const Host* busy) {
  std::uint64_t count = 0;
  for (const auto& host : hosts_) count += host.get() != busy && host->due() ? 1 : 0;
  if (count == 0) return nullptr;
  std::uint64_t chosen = count == 1 ? 0 : random_.below(count);
  for (const auto& host : hosts_) {
    if (host.get() != busy && host->due() && chosen-- == 0) return host.get();
  }
  return nullptr;
}

Time Simulation::next(const Host* busy) const {
  Time out = events_.empty() ? Time::max() : events_.front().when;
  for (const auto& host : hosts_) {
    if (host.get() != busy) out = std::min(out, host->next_due());
  }
  return out;
}

void Simulation::count_step() {
  ++steps_;
  if (++steps_at_this_time_ > kMostSteps) throw Stuck("things happen without end, and time stands still");
}

bool Simulation::step(Time limit) {
  return step(limit, nullptr);
}

bool Simulation::step(Time limit, const Host* busy) {
  for (;;) {
    if (!events_.empty() && events_.front().when <= now_) {
      count_step();
      run_event();
      return true;
    }
    if (Host* const host = choose_due(busy)) {
      count_step();
      note(host->number(), "turn");
      host->loop().turn(async::TimePoint::min());
      return true;
    }
    const Time when = next(busy);
    const bool in_time = when <= limit && when != Time::max();
    const Time to = in_time ? when : limit;
    if (to != Time::max() && to > now_) {
      now_ = to;
      steps_at_this_time_ = 0;
    }
    if (!in_time) return false;
  }
}

bool Simulation::run_until(const std::function<bool()>& so, Duration most) {
  const Time limit = now_ + most;
  while (!so()) {
    if (now_ > limit || !step(limit)) return so();
  }
  return true;
}

void Simulation::run_for(Duration time) {
  const Time limit = now_ + time;
  while (now_ < limit && step(limit)) {
  }
}

}  // namespace nfsrdma::sim
