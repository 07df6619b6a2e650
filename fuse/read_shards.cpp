#include "fuse/read_shards.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace nfsrdma::fuse {

ReadShards::Place::Place(async::Loop& loop, connect::Server& server, std::size_t number,
                         std::chrono::milliseconds patience,
                         const std::function<void(const std::string&)>& notice)
    : thread(loop, server.shard_channel_options(), patience), maker(loop, server, number, notice) {}

ReadShards::ReadShards(async::Loop& loop, connect::Server& server, std::size_t count,
                       std::chrono::milliseconds timeout, const TraceControl& trace, Log log)
    : loop_(loop),
      server_(server),
      count_(count),
      patience_(std::chrono::duration_cast<std::chrono::milliseconds>(engine::Shard::patience(timeout))),
      trace_(trace),
      log_(std::move(log)),
      making_(loop) {}

ReadShards::~ReadShards() {
  stop();
}

ReadShards::Place* ReadShards::choose(std::size_t most) {
  if (ended_ || trace_.is_on()) return nullptr;
  if (places_.empty()) start_threads();
  Place* best = nullptr;
  std::size_t working = 0;
  for (std::size_t i = 0; i < places_.size() && working < most; ++i) {
    Place& place = *places_[i];
    if (!place.thread.works()) {
      if (i < most && !place.thread.is_connecting() && place.maker.may_begin()) making_.spawn(make(place));
      continue;
    }
    ++working;
    if (best == nullptr || place.thread.busy() < best->thread.busy()) best = &place;
  }
  return best;
}

void ReadShards::start_threads() {
  const auto notice = [this](const std::string& why) {
    log_("shards: some READs go without a session of their own: " + why);
  };
  try {
    while (places_.size() < count_)
      places_.push_back(std::make_unique<Place>(loop_, server_, places_.size(), patience_, notice));
  } catch (const std::system_error& fault) {
    log_("shards: " + std::to_string(places_.size()) + " of " + std::to_string(count_) +
         " threads could be started, and the mount goes on with these: " + fault.what());
    ended_ = places_.empty();
  }
}

async::Task<void> ReadShards::make(Place& place) {
  auto made = co_await place.maker.make(place.thread.channel());
  if (!made) co_return;
  auto connected = co_await place.thread.use(std::move(made));
  if (!connected) place.maker.is_unusable(connected.error());
}

void ReadShards::stop() {
  ended_ = true;
  making_.drop();
  for (const auto& place : places_) place->thread.stop();
}

std::size_t ReadShards::working() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(places_, [](const auto& one) { return one->thread.works(); }));
}

std::vector<ConnectionState> ReadShards::connections() {
  std::vector<ConnectionState> out;
  for (const auto& place : places_) {
    if (place->thread.runs()) out.push_back(place->thread.connection());
  }
  return out;
}

}  // namespace nfsrdma::fuse
