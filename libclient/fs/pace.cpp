#include "fs/pace.h"

#include <algorithm>

namespace nfsrdma::fs {
namespace {

/// The loop reads the clock once per turn, so a request may seem to take no time. This is the least that
/// counts.
constexpr Pace::Duration kLeast = std::chrono::microseconds(1);
/// Above what any path has, and far below an overflow of the sums.
constexpr double kMostBandwidth = 1e12;
constexpr double kMostProduct = 1e12;
constexpr double kMostSeconds = 3600;

double seconds(Pace::Duration time) {
  return std::chrono::duration<double>(time).count();
}
Pace::Duration duration(double seconds) {
  const std::chrono::duration<double> bounded(std::clamp(seconds, 0.0, kMostSeconds));
  return std::chrono::duration_cast<Pace::Duration>(bounded);
}

}  // namespace

// ---- measuring ----

void Pace::began(std::size_t asked, TimePoint now) {
  if (under_way_ == 0) {
    begin_spell(now);
    if (look_ == Look::draining) {
      look_ = Look::measuring;
      measured_from_ = now;
    }
  }
  under_way_ += asked;
}

void Pace::ended(std::size_t asked, std::size_t moved, TimePoint begun, TimePoint now) {
  under_way_ -= std::min(asked, under_way_);
  moved = std::min(moved, asked);
  // All answers of one turn of the loop arrived before it, so all of their bytes count for the time until
  // then.
  if (now > last_ && last_ - spell_begun_ >= least_spell()) end_spell();
  moved_ += moved;
  last_ = now;
  if (moved != 0) {
    if (now - period_begun_ >= kForget) end_period(now);
    const Trip trip{std::max(now - begun, kLeast), moved};
    if (!now_.quickest || trip.took < now_.quickest->took) now_.quickest = trip;
    end_look(begun, now);
  }
  if (under_way_ == 0) end_spell();
}

void Pace::end_period(TimePoint now) {
  const bool known = now_.quickest || before_.quickest;
  before_ = now_;
  now_ = {};
  period_begun_ = now;
  if (!known) return;
  look_ = Look::draining;
  look_begun_ = now;
}

void Pace::begin_spell(TimePoint now) {
  spell_begun_ = last_ = now;
  moved_ = 0;
}

void Pace::end_spell() {
  const double took = seconds(std::max(last_ - spell_begun_, kLeast));
  const double found = std::min(static_cast<double>(moved_) / took, kMostBandwidth);
  now_.bandwidth = std::max(now_.bandwidth, found);
  begin_spell(last_);
}

Pace::Duration Pace::least_spell() const {
  return quickest() ? std::max(kSpell, kTrips * duration(seconds(quickest()->took))) : kSpell;
}

void Pace::end_look(TimePoint begun, TimePoint now) {
  if (look_ == Look::measuring && begun >= measured_from_) look_ = Look::none;
  const Duration most = std::max(kLook, kTrips * duration(seconds(quickest()->took)));
  if (now - look_begun_ >= most) look_ = Look::none;
}

// ---- what is known ----

const std::optional<Pace::Trip>& Pace::quickest() const {
  if (!now_.quickest) return before_.quickest;
  return before_.quickest && before_.quickest->took < now_.quickest->took ? before_.quickest : now_.quickest;
}

double Pace::bandwidth() const {
  return std::max(now_.bandwidth, before_.bandwidth);
}

Pace::Duration Pace::delay() const {
  if (!quickest() || bandwidth() <= 0) return {};
  return duration(seconds(quickest()->took) - static_cast<double>(quickest()->moved) / bandwidth());
}

std::size_t Pace::product() const {
  return static_cast<std::size_t>(std::min(bandwidth() * seconds(delay()), kMostProduct));
}

Pace::Duration Pace::expected(std::size_t size) const {
  if (!quickest()) return {};
  if (bandwidth() <= 0) return quickest()->took;
  const double more = static_cast<double>(size) - static_cast<double>(quickest()->moved);
  return duration(seconds(quickest()->took) + std::max(more, 0.0) / bandwidth());
}

}  // namespace nfsrdma::fs
