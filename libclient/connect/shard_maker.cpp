#include "connect/shard_maker.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "async/buggify.h"

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

ShardMaker::ShardMaker(async::Loop& loop, Server& server, std::size_t number, rpc::Channel& channel,
                       Take take, std::function<void(const std::string& why)> notice)
    : loop_(loop),
      server_(server),
      number_(number),
      channel_(channel),
      take_(std::move(take)),
      notice_(std::move(notice)),
      pause_(first_pauses()) {}

bool ShardMaker::may_begin() {
  if (being_made_ || is_impossible_) return false;
  if (loop_.now() < next_try_ && !async::buggify(loop_)) return false;
  next_try_ = loop_.now() + pause_.take();
  return true;
}

async::Task<void> ShardMaker::make() {
  being_made_ = true;
  auto made = co_await server_.make_shard(number_, channel_, loop_.now() + kMaking);
  if (made) {
    const Status taken = co_await take_(std::move(*made));
    if (!taken) is_missing(taken.error());
  } else if (made.error().kind() == ErrorKind::connection && made.error().errno_value() == EAGAIN) {
    // The session that is there already is being recovered, which says nothing about this one.
    pause_ = first_pauses();
    next_try_ = loop_.now() + kFirstPause;
  } else {
    is_impossible_ = made.error().errno_value() == EOPNOTSUPP;
    is_missing(made.error());
  }
  being_made_ = false;
}

void ShardMaker::is_missing(const Error& why) {
  if (!std::exchange(is_missed_, true)) notice_(why.text());
}

void ShardMaker::has_worked() {
  is_missed_ = false;
  pause_ = first_pauses();
}

}  // namespace nfsrdma::connect
