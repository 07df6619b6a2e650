#include "ids/owner_names.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "async/helper.h"
#include "ids/system_names.h"

namespace nfsrdma::ids {
namespace {

constexpr async::Clock::duration kPatience = std::chrono::seconds(3);
constexpr unsigned kMostThreads = 4;
/// Interval at which a caller that has found all places taken tries again. Other loops take places, too, and
/// cannot wake this one.
constexpr async::Clock::duration kTryEvery = std::chrono::milliseconds(20);

/// A place among kMostThreads in this process. It is kept until its look-up ends, even if no task waits for
/// that any more.
class Place {
 public:
  Place() : number_(++taken_) {}
  ~Place() { --taken_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  /// Returns null if all places are taken.
  static std::shared_ptr<const Place> take() {
    auto place = std::make_shared<const Place>();
    if (place->number_ > kMostThreads) return nullptr;
    return place;
  }

 private:
  static inline std::atomic<unsigned> taken_ = 0;
  const unsigned number_;
};

std::optional<OwnerNames> look_up(const SetAttributes& changes) {
  const std::string domain = "@" + local_nfs_domain();
  const auto name_of = [&](Kind kind, std::uint32_t id, std::optional<std::string>& out) {
    const auto name = system_name_of(kind, id);
    if (name) out = *name + domain;
    return name.has_value();
  };
  OwnerNames out;
  if (changes.uid && !name_of(Kind::user, *changes.uid, out.user)) return std::nullopt;
  if (changes.gid && !name_of(Kind::group, *changes.gid, out.group)) return std::nullopt;
  return out;
}

}  // namespace

async::Task<std::optional<OwnerNames>> owner_names(async::Loop& loop, SetAttributes changes,
                                                   async::TimePoint deadline) {
  using Names = std::optional<OwnerNames>;
  const async::TimePoint until = std::min(deadline, loop.now() + kPatience);
  std::shared_ptr<const Place> place = Place::take();
  while (!place) {
    const async::TimePoint next = loop.now() + kTryEvery;
    if (next >= until) co_return std::nullopt;
    co_await loop.sleep_until(next);
    place = Place::take();
  }
  // The thread owns the work, and with it the place, until it ends.
  const std::function<Names()> work = [changes, place] { return look_up(changes); };
  place.reset();
  auto found = co_await async::on_helper<Names>(loop, until, work);
  if (!found) co_return std::nullopt;
  co_return std::move(*found);
}

}  // namespace nfsrdma::ids
