#include "fuse/mount_shards.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "fuse/spread_read.h"

namespace nfsrdma::fuse {
namespace {

/// The load of a READ, a WRITE or an answer is the number of its bytes and this constant.
constexpr std::size_t kOfEach = 16U << 10;
/// READs go to shards once the load of the others is kMuch, which is one READ of 256 KiB or thirteen of 4 KiB, and until it
/// is less than kLittle; and to as many shards as there are times kMuch. With less under way a thread seldom finds several
/// READs when it wakes, and the wake-ups cost more than the mount's loop saves.
constexpr std::size_t kMuch = 256U << 10, kLittle = kMuch / 4;

}  // namespace

/// A READ of the file system's.
class MountShards::Elsewhere final : public SpreadRead, private engine::FastRead::UnderWay {
 public:
  explicit Elsewhere(MountShards& all) : all_(all) {}
  bool start(const engine::ServerFileRef& file, const async::Memory& memory, engine::FastRead& read,
             bool ahead) {
    const std::size_t own = load_of(read.data.size());
    if (!spread(all_, all_.load() - own, ahead ? own : 0, *file, read.data, read.offset)) return false;
    file_ = file;
    memory_ = memory;
    read_ = &read;
    read.begin(*this);
    return true;
  }

 private:
  void drop() override { read_ = nullptr; }
  void has_spread(std::optional<std::size_t> count) override {
    engine::FastRead* const read = std::exchange(read_, nullptr);
    const auto file = std::exchange(file_, nullptr);
    memory_ = {};
    all_.reads_.give_back(*this);
    if (read != nullptr) give_back(*read, *file, count);
  }

  MountShards& all_;
  engine::ServerFileRef file_;
  async::Memory memory_;
  engine::FastRead* read_ = nullptr;  // null: it has been dropped, or this object is idle
};

/// A WRITE of the engine's, or another call for which no program waits as a rule.
class MountShards::Write final : private CallJob {
 public:
  explicit Write(MountShards& all) : all_(all) {}
  void begin(Place& place, std::shared_ptr<engine::ShardCall> call, std::size_t bytes) {
    place_ = &place;
    call_ = std::move(call);
    bytes_ = bytes;
    all_.begins(bytes);
    place.thread.make(*this);
  }

 private:
  async::Task<void> make(engine::Shard& shard) override { return shard.call(*call_); }
  [[nodiscard]] bool may_be_dropped() const override { return false; }
  void has_ended() override {
    const auto call = std::exchange(call_, nullptr);
    place_->has_ended(all_.counters_.writes, call->is_made() ? std::optional(bytes_) : std::nullopt);
    all_.ends(bytes_);
    all_.writes_.give_back(*this);
    call->ended();
  }

  MountShards& all_;
  Place* place_ = nullptr;
  std::shared_ptr<engine::ShardCall> call_;  // null: idle
  std::size_t bytes_ = 0;
};

MountShards::Place::Place(async::Loop& loop, connect::Server& server, std::size_t number,
                          std::chrono::milliseconds patience,
                          const std::function<void(const std::string&)>& notice)
    : thread(loop, server.shard_channel_options(), patience),
      maker(
          loop, server, number, thread.channel(),
          [this](std::unique_ptr<engine::Shard> made) { return thread.use(std::move(made)); }, notice) {}

void MountShards::Place::has_ended(ShardCounters::Calls& count, std::optional<std::size_t> bytes) {
  if (!bytes) {
    ++count.made_again;
    return;
  }
  maker.has_worked();
  ++count.made;
  count.bytes += *bytes;
}

MountShards::MountShards(async::Loop& loop, connect::Server& server, std::size_t count,
                         std::chrono::milliseconds timeout, const TraceControl& trace, Log log)
    : loop_(loop),
      server_(server),
      count_(count),
      patience_(std::chrono::duration_cast<std::chrono::milliseconds>(engine::Shard::patience(timeout))),
      trace_(trace),
      log_(std::move(log)),
      making_(loop) {
  server.use_shards(this);
}

MountShards::~MountShards() {
  stop();
  server_.use_shards(nullptr);
}

// ---- READs, WRITEs and answers ----

bool MountShards::start(const engine::ServerFileRef& file, const async::Memory& memory,
                        engine::FastRead& read, bool ahead) {
  Elsewhere& one = reads_.take(*this);
  if (one.start(file, memory, read, ahead)) return true;
  reads_.give_back(one);
  return false;
}

bool MountShards::start(std::size_t bytes, async::FunctionRef<std::shared_ptr<engine::ShardCall>()> make) {
  Place* const place = choose(load_, load_of(bytes));
  if (place == nullptr) return false;
  writes_.take(*this).begin(*place, make(), bytes);
  return true;
}

std::size_t MountShards::load_of(std::size_t bytes) {
  return kOfEach + bytes;
}

MountShards::Place* MountShards::choose(std::size_t others, std::size_t own) {
  if (ended_ || trace_.is_on()) return nullptr;
  spreads_ = others >= (spreads_ ? kLittle : kMuch);
  if (!spreads_ && own < kMuch) return nullptr;
  return least_busy(std::max<std::size_t>((others + own) / kMuch, 1));
}

// ---- threads ----

/// Returns the least busy of the shards that work, of which no more than `most` are used. With few READs for each of many
/// shards, each thread would have to be woken for each READ.
MountShards::Place* MountShards::least_busy(std::size_t most) {
  if (places_.empty()) start_threads();
  Place* best = nullptr;
  std::size_t working = 0;
  for (std::size_t i = 0; i < places_.size() && working < most; ++i) {
    Place& place = *places_[i];
    if (!place.thread.works()) {
      if (i < most && place.maker.may_begin()) making_.spawn(place.maker.make());
      continue;
    }
    ++working;
    if (best == nullptr || place.thread.busy() < best->thread.busy()) best = &place;
  }
  return best;
}

void MountShards::start_threads() {
  const auto notice = [this](const std::string& why) {
    log_("shards: some READs and WRITEs go without a session of their own: " + why);
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

void MountShards::stop() {
  ended_ = true;
  making_.drop();
  for (const auto& place : places_) place->thread.stop();
}

std::size_t MountShards::working() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(places_, [](const auto& one) { return one->thread.works(); }));
}

std::vector<ConnectionState> MountShards::connections() {
  std::vector<ConnectionState> out;
  for (const auto& place : places_) {
    if (place->thread.runs()) out.push_back(place->thread.connection());
  }
  return out;
}

}  // namespace nfsrdma::fuse
