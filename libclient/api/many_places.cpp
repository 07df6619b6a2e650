#include "api/many_places.h"

#include "api/client_core.h"
#include "async/each.h"

namespace nfsrdma::api {
namespace {

/// Least number of items in a directory for which the directory is looked up first. With fewer items each
/// request walks the directory's names itself, because the look-up would cost a round trip of its own.
constexpr std::size_t kWorthFinding = 3;
constexpr std::size_t kParallelLookups = 8;

}  // namespace

const engine::Spot* ManyPlaces::find(std::string_view path, std::string& name) {
  const std::size_t slash = path.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (last.empty() || last == "." || last == "..") return nullptr;
  // The key keeps its trailing slash, because "/" (the server's root) and "" (where relative paths begin) are
  // different directories.
  const std::string_view above = slash == std::string_view::npos ? "" : path.substr(0, slash + 1);
  Place*& place = known_[above];
  if (place == nullptr) {
    auto parsed = begin_.parse(above);
    if (!parsed) return nullptr;
    place = &places_.emplace_back(Place{std::move(*parsed), {}});
    place->spot = place->path.spot();
  }
  ++place->items;
  name = last;
  return &place->spot;
}

async::Task<void> ManyPlaces::look_up_one(engine::Paths& paths, Place& place) {
  auto found = co_await paths.find(place.path, true);
  // If the directory cannot be found, its items keep the path as their spot, and each of them reports the
  // error.
  if (found) place.spot = engine::Spot(found->handle);
}

async::Task<void> ManyPlaces::look_up(async::Loop& loop, engine::Paths& paths) {
  std::vector<Place*> wanted;
  for (Place& one : places_) {
    const bool is_above = one.path.above() != 0;
    if (is_above || (!one.path.is_begin() && one.items >= kWorthFinding)) wanted.push_back(&one);
  }
  async::Each each(loop, wanted.size(), [&](std::size_t i) { return look_up_one(paths, *wanted[i]); });
  co_await each.run(kParallelLookups);
}

}  // namespace nfsrdma::api
