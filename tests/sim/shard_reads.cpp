#include "sim/shard_reads.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

/// As long as answers and other READs may take meanwhile.
constexpr auto kMostPause = 20ms;

}  // namespace

/// A READ that is under way. It keeps what the READ needs when its owner is gone.
struct ShardReads::One final : engine::FastRead::UnderWay {
  void drop() override { read = nullptr; }
  engine::FastRead* read = nullptr;  // null: it has been dropped, or is over
  engine::ServerFileRef file;
  async::Memory memory;
  std::span<std::byte> data;
  std::unique_ptr<engine::ShardRead> prepared;
};

ShardReads::ShardReads(async::Loop& loop, connect::Server& server)
    : loop_(loop),
      channel_(loop, server.shard_channel_options(), [](const rpcrdma::Notice&) {}),
      maker_(
          loop, server, 0, channel_,
          [this](std::unique_ptr<engine::Shard> made) { return take(std::move(made)); },
          [](const std::string&) {}),
      tasks_(loop) {
  channel_.set_link_sink([this](bool up) {
    if (!up) shard_ = nullptr;
  });
}

ShardReads::~ShardReads() {
  stop();
}

void ShardReads::stop() {
  if (std::exchange(stopped_, true)) return;
  channel_.set_link_sink(nullptr);
  tasks_.drop();
  shard_ = nullptr;
  channel_.shut_down();
  for (const auto& one : std::exchange(all_, {})) (void)end(*one);
}

bool ShardReads::start(const engine::ServerFileRef& file, const async::Memory& memory, engine::FastRead& read,
                       bool /*ahead*/) {
  if (stopped_ || loop_.random<std::uint8_t>() % 4 == 0) return false;
  if (!shard_) {
    if (maker_.may_begin()) tasks_.spawn(maker_.make());
    return false;
  }
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

async::Task<Status> ShardReads::take(std::unique_ptr<engine::Shard> made) {
  auto connected = co_await channel_.connect(loop_.now() + engine::Shard::kConnecting);
  if (connected && channel_.up()) shard_ = std::move(made);
  co_return connected;
}

async::Task<void> ShardReads::run(std::shared_ptr<One> one) {
  const std::shared_ptr<engine::Shard> shard = shard_;
  if (shard) co_await shard->read(*one->prepared, one->data);
  if (shard && !shard->works() && shard_ == shard) shard_ = nullptr;
  const auto pause = kMostPause * (loop_.random<std::uint8_t>() % 8) / 8;
  if (loop_.random<std::uint8_t>() % 4 == 0) co_await loop_.sleep_for(pause);
  std::erase(all_, one);
  if (!end(*one)) co_return;
  ++made_;
  maker_.has_read();
}

bool ShardReads::end(One& one) {
  const auto count = std::exchange(one.prepared, nullptr)->finish();
  engine::FastRead* const read = std::exchange(one.read, nullptr);
  if (read != nullptr) give_back(*read, *one.file, count);
  return count.has_value();
}

}  // namespace nfsrdma::sim
