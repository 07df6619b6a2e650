#include "sim/shard.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

constexpr auto kMostPause = 20ms;

}  // namespace

/// A READ that is under way. It keeps what the READ needs when its owner is gone.
struct ClientShard::One final : engine::FastRead::UnderWay {
  void drop() override { read = nullptr; }
  engine::FastRead* read = nullptr;  // null: it has been dropped, or is over
  engine::ServerFileRef file;
  async::Memory memory;
  std::span<std::byte> data;
  std::unique_ptr<engine::ShardRead> prepared;
};

ClientShard::ClientShard(async::Loop& loop, connect::Server& server)
    : loop_(loop),
      server_(server),
      channel_(loop, server.shard_channel_options(), [](const rpcrdma::Notice&) {}),
      maker_(
          loop, server, 0, channel_,
          [this](std::unique_ptr<engine::Shard> made) { return take(std::move(made)); },
          [](const std::string&) {}),
      tasks_(loop) {
  channel_.set_link_sink([this](bool up) {
    if (!up) shard_ = nullptr;
  });
  server.use_shards(this);
}

ClientShard::~ClientShard() {
  stop();
}

void ClientShard::stop() {
  if (std::exchange(stopped_, true)) return;
  server_.use_shards(nullptr);
  channel_.set_link_sink(nullptr);
  channel_.shut_down();  // ends calls that a task has sent
  tasks_.drop();
  shard_ = nullptr;
  for (const auto& one : std::exchange(all_, {})) (void)end(*one);
  for (const auto& one : std::exchange(calls_, {})) one->ended();
}

/// Draws whether the shard makes a call, and has it made if there is none.
bool ClientShard::may_use() {
  if (stopped_ || loop_.random<std::uint8_t>() % 4 == 0) return false;
  if (!shard_ && maker_.may_begin()) tasks_.spawn(maker_.make());
  return shard_ != nullptr;
}

/// Other calls, and answers, may come meanwhile.
async::Task<void> ClientShard::take_time() {
  const auto pause = kMostPause * (loop_.random<std::uint8_t>() % 8) / 8;
  if (loop_.random<std::uint8_t>() % 4 == 0) co_await loop_.sleep_for(pause);
}

bool ClientShard::start(std::size_t /*bytes*/,
                        async::FunctionRef<std::shared_ptr<engine::ShardCall>()> make) {
  if (!may_use()) return false;
  calls_.push_back(make());
  tasks_.spawn(call(calls_.back()));
  return true;
}

async::Task<void> ClientShard::call(std::shared_ptr<engine::ShardCall> call) {
  const std::shared_ptr<engine::Shard> shard = shard_;
  if (shard) co_await shard->call(*call);
  if (shard && !shard->works() && shard_ == shard) shard_ = nullptr;
  co_await take_time();
  std::erase(calls_, call);
  if (call->is_made()) ++writes_;
  if (call->is_made()) maker_.has_worked();
  call->ended();
}

bool ClientShard::start(const engine::ServerFileRef& file, const async::Memory& memory,
                        engine::FastRead& read, bool /*ahead*/) {
  if (!may_use()) return false;
  auto one = std::make_shared<One>();
  one->prepared = file->prepare_read(read.data.size(), read.offset);
  if (!one->prepared) return false;
  one->read = &read;
  one->file = file;
  one->memory = memory;
  one->data = read.data;
  read.begin(*one);
  all_.push_back(one);
  tasks_.spawn(run(std::move(one)));
  return true;
}

async::Task<Status> ClientShard::take(std::unique_ptr<engine::Shard> made) {
  auto connected = co_await channel_.connect(loop_.now() + engine::Shard::kConnecting);
  if (connected && channel_.up()) shard_ = std::move(made);
  co_return connected;
}

async::Task<void> ClientShard::run(std::shared_ptr<One> one) {
  const std::shared_ptr<engine::Shard> shard = shard_;
  if (shard) co_await shard->read(*one->prepared, one->data);
  if (shard && !shard->works() && shard_ == shard) shard_ = nullptr;
  co_await take_time();
  std::erase(all_, one);
  if (!end(*one)) co_return;
  ++reads_;
  maker_.has_worked();
}

bool ClientShard::end(One& one) {
  const auto count = std::exchange(one.prepared, nullptr)->finish();
  engine::FastRead* const read = std::exchange(one.read, nullptr);
  if (read != nullptr) give_back(*read, *one.file, count);
  return count.has_value();
}

}  // namespace nfsrdma::sim
