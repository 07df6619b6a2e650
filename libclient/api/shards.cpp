#include "api/shards.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <utility>

#include "api/file_core.h"
#include "async/listed.h"

namespace nfsrdma::api {
namespace {

using std::chrono::milliseconds;

std::atomic<std::uint64_t> last_number = 0;

}  // namespace

/// A read that is under way in a shard.
struct Shards::Reading {
  const bool has_tag;
  const std::uint64_t tag;
  std::optional<async::Task<void>> task;  // none: the read was cancelled
  [[nodiscard]] bool is_over() const { return !task || task->done(); }
};

struct Shards::Place {
  Place(ClientCore& client, connect::Server& server, std::size_t n, async::Loop* shared,
        const rpc::ChannelOptions& options, const rpc::Channel::NoticeSink& notices)
      : number(n),
        own_loop(shared != nullptr ? nullptr : std::make_unique<async::Loop>()),
        loop(shared != nullptr ? *shared : *own_loop),
        crew(loop, shared == nullptr),
        channel(loop, options, notices),
        maker(
            client.loop(), server, n, channel,
            [this](std::unique_ptr<engine::Shard> made) { return take(std::move(made)); },
            [&client](const std::string& why) {
              client.notice("shards: some threads read without a session of their own: " + why);
            }) {}
  /// Goes inside the shard, with one that was made on the client's loop.
  async::Task<Status> take(std::unique_ptr<engine::Shard> made);
  const std::size_t number;
  const std::unique_ptr<async::Loop> own_loop;
  async::Loop& loop;
  Crew crew;
  /// Whether it is worth while to prepare a read for the shard. What the shard says itself counts.
  std::atomic<bool> works = false;
  /// How many threads have the place. It outlives the place.
  const std::shared_ptr<std::atomic<unsigned>> threads = std::make_shared<std::atomic<unsigned>>(0);

  // For the thread that is inside the shard.
  rpc::Channel channel;
  std::shared_ptr<engine::Shard> shard;  // reads under way hold it as well
  std::list<Reading*> readings;

  // For the thread that is inside the client.
  connect::ShardMaker maker;
};

/// When it ends, the place knows whether its shard works: a read that is given up may be the last one for a shard, too.
class Shards::Judging {
 public:
  Judging(Place& place, const engine::Shard& shard) : place_(place), shard_(shard) {}
  ~Judging() {
    if (place_.shard.get() == &shard_) place_.works = shard_.works();
  }
  Judging(const Judging&) = delete;
  Judging& operator=(const Judging&) = delete;

 private:
  Place& place_;
  const engine::Shard& shard_;
};

/// The places that a thread has, at most one of each Shards. They are free when the thread ends.
class Shards::Seats {
 public:
  Seats() = default;
  ~Seats() {
    for (const Seat& one : all_) --*one.threads;
  }
  Seats(const Seats&) = delete;
  Seats& operator=(const Seats&) = delete;

  static Seats& of_this_thread() {
    thread_local Seats seats;
    return seats;
  }
  [[nodiscard]] std::optional<std::size_t> in(std::uint64_t shards) const {
    const auto at = std::ranges::find(all_, shards, &Seat::shards);
    if (at == all_.end()) return std::nullopt;
    return at->place;
  }
  void take(std::uint64_t shards, const Place& place) {
    // Without those of clients that are gone.
    std::erase_if(all_, [](const Seat& one) { return one.threads.use_count() == 1; });
    all_.push_back({shards, place.number, place.threads});
    ++*place.threads;
  }

 private:
  struct Seat {
    std::uint64_t shards;
    std::size_t place;
    std::shared_ptr<std::atomic<unsigned>> threads;
  };
  std::vector<Seat> all_;
};

Shards::Shards(ClientCore& client, connect::Server& server, std::size_t count, async::Loop* loop)
    : client_(client), number_(++last_number), making_(client.loop()) {
  const rpc::ChannelOptions options = server.shard_channel_options();
  // No notices: losses and delays that matter show on the client's own connections, too.
  const auto silent = [](const rpcrdma::Notice&) {};
  for (std::size_t i = 0; i < count; ++i)
    places_.push_back(std::make_unique<Place>(client, server, i, loop, options, silent));
}

Shards::~Shards() = default;

Shards::Place& Shards::place_of_this_thread() {
  Seats& seats = Seats::of_this_thread();
  if (const auto taken = seats.in(number_)) return *places_[*taken];
  const std::lock_guard guard(seating_);
  const auto least =
      std::ranges::min_element(places_, {}, [](const auto& one) { return one->threads->load(); });
  seats.take(number_, **least);
  return **least;
}

// ---- making shards ----

/// Has the shard made, unless that is being done or has just been tried.
void Shards::want(Place& place) {
  const Crew::Inside inside(client_.crew());
  if (!inside || inside.nested() || !client_.connected() || !place.maker.may_begin()) return;
  making_.spawn(place.maker.make());
  client_.loop().end_turn();
  client_.tell_keeper();
}

async::Task<Status> Shards::Place::take(std::unique_ptr<engine::Shard> made) {
  const Crew::Inside inside(crew);
  if (!inside) co_return Status();
  shard = std::move(made);
  works = true;
  co_return Status();
}

// ---- reading ----

/// A READ that was prepared inside the client, and is finished there.
class Shards::Visit {
 public:
  Visit(ClientCore& client, FileCore& file, std::size_t size, std::uint64_t offset) : client_(client) {
    const Crew::Inside inside(client_.crew());
    if (!inside || inside.nested()) return;
    file_ = file.usable_for_reading();
    if (file_) read_ = file_->prepare_read(size, offset);
  }
  ~Visit() {
    if (!file_) return;  // it is finished, unless something has thrown
    const Crew::Inside inside(client_.crew());
    give_back();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  [[nodiscard]] engine::ShardRead* read() const { return read_.get(); }
  std::optional<std::size_t> finish(Place& place) {
    const Crew::Inside inside(client_.crew());
    const auto out = read_->finish();
    if (out) place.maker.has_worked();
    give_back();
    // Sends what the flags of the answer, or the end of the use of the file, have begun.
    client_.loop().end_turn();
    client_.tell_keeper();
    return out;
  }

 private:
  void give_back() {
    read_.reset();
    file_.reset();
  }
  ClientCore& client_;
  engine::ServerFileRef file_;
  std::unique_ptr<engine::ShardRead> read_;
};

std::optional<Result<std::size_t>> Shards::read(FileCore& file, std::span<std::byte> data,
                                                std::uint64_t offset, How& how) {
  if (client_.is_inherited()) return std::nullopt;
  Place& place = place_of_this_thread();
  if (!place.works) {
    want(place);
    return std::nullopt;
  }
  Visit visit(client_, file, data.size(), offset);
  if (visit.read() == nullptr) return std::nullopt;
  const auto given_up = read_in(place, *visit.read(), data, how);
  const auto count = visit.finish(place);
  if (given_up) return *given_up;
  if (!count) return std::nullopt;
  return *count;
}

/// Returns why the program does not want the read any more.
std::optional<Error> Shards::read_in(Place& place, engine::ShardRead& read, std::span<std::byte> data,
                                     How& how) {
  const Crew::Inside inside(place.crew);
  const std::shared_ptr<engine::Shard> shard = place.shard;
  if (!inside || !shard) return std::nullopt;
  const Judging judging(place, *shard);
  if (!shard->works()) return std::nullopt;
  Reading me{how.has_tag, how.tag, shard->read(read, data)};
  const async::Listed listed(place.readings, me);
  me.task->handle().resume();
  place.loop.end_turn();
  // The client has the rest of the time, if the shard has not read in its part.
  const bool has_time = how.timeout.count() != 0;
  const async::TimePoint begun = place.loop.now();
  const async::TimePoint deadline =
      has_time ? begun + how.timeout / engine::Shard::kPatience : async::TimePoint::max();
  const bool ended = place.crew.wait([&me] { return me.is_over(); }, deadline);
  if (!me.task) return client_.cancelled();
  if (!me.task->done()) {
    me.task.reset();
    place.loop.end_turn();
    if (ended) return client_.interrupted();
  }
  const auto spent = std::chrono::duration_cast<milliseconds>(place.loop.now() - begun);
  if (has_time) how.timeout = std::max(how.timeout - spent, milliseconds(1));
  return std::nullopt;
}

// ---- for all shards ----

std::size_t Shards::cancel_if(async::FunctionRef<bool(const Reading&)> wanted) {
  std::size_t count = 0;
  for (const auto& place : places_) {
    const Crew::Inside inside(place->crew);
    if (!inside) continue;
    for (Reading* const one : place->readings) {
      if (one->is_over() || !wanted(*one)) continue;
      one->task.reset();
      ++count;
    }
    place->loop.end_turn();
  }
  return count;
}

std::size_t Shards::cancel(std::uint64_t tag) {
  return cancel_if([tag](const Reading& one) { return one.has_tag && one.tag == tag; });
}

void Shards::interrupt() {
  for (const auto& place : places_) {
    const Crew::Inside inside(place->crew);
    if (inside) place->crew.interrupt();
  }
}

void Shards::shut_down() {
  making_.drop();
  (void)cancel_if([](const Reading&) { return true; });
  for (const auto& place : places_) {
    const Crew::Inside inside(place->crew);
    if (!inside) continue;
    place->works = false;
    place->shard.reset();
    place->channel.shut_down();
    place->loop.end_turn();
  }
}

std::size_t Shards::working() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(places_, [](const auto& one) { return one->works.load(); }));
}

void Shards::add_totals(Info& info) const {
  for (const auto& place : places_) {
    const Crew::Inside inside(place->crew);
    if (!inside) continue;
    info.calls += place->channel.facts().calls;
    info.retransmissions += place->channel.facts().retransmissions;
    info.reconnects += place->channel.facts().reconnects;
  }
}

}  // namespace nfsrdma::api
