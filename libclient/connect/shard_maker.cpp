#include "connect/shard_maker.h"

#include <cerrno>
#include <chrono>
#include <utility>

namespace nfsrdma::connect {
namespace {

using namespace std::chrono_literals;

/// How long the server has to create a session. A recovery that needs one waits for that.
constexpr auto kMaking = 5s;
constexpr auto kFirstPause = 1s;

async::Backoff first_pauses() {
  return {kFirstPause, 60s};
}

}  // namespace

ShardMaker::ShardMaker(async::Loop& loop, Server& server, std::size_t number,
                       std::function<void(const std::string& why)> notice)
    : loop_(loop), server_(server), number_(number), notice_(std::move(notice)), pause_(first_pauses()) {}

bool ShardMaker::may_begin() {
  if (being_made_ || is_impossible_ || loop_.now() < next_try_) return false;
  next_try_ = loop_.now() + pause_.take();
  return true;
}

async::Task<std::unique_ptr<engine::Shard>> ShardMaker::make(rpc::Channel& channel) {
  being_made_ = true;
  auto made = co_await server_.make_shard(number_, channel, loop_.now() + kMaking);
  being_made_ = false;
  if (made) co_return std::move(*made);
  const Error& why = made.error();
  is_impossible_ = why.errno_value() == EOPNOTSUPP;
  if (why.kind() == ErrorKind::connection && why.errno_value() == EAGAIN) {
    // The session that is there already is being recovered, which says nothing about this one.
    pause_ = first_pauses();
    next_try_ = loop_.now() + kFirstPause;
  } else {
    is_unusable(why);
  }
  co_return nullptr;
}

void ShardMaker::is_unusable(const Error& why) {
  if (!std::exchange(is_missed_, true)) notice_(why.text());
}

void ShardMaker::has_read() {
  is_missed_ = false;
  pause_ = first_pauses();
}

}  // namespace nfsrdma::connect
