#include "nfs4/close_batch.h"

#include <algorithm>
#include <span>
#include <utility>

#include "async/buggify.h"

namespace nfsrdma::nfs4 {

CloseBatch::~CloseBatch() {
  if (timer_ != 0) calls_.loop().cancel(timer_);
}

async::Task<CloseBatch::Answer> CloseBatch::close(Closing what) {
  const Waiting waiting(std::make_shared<One>(calls_.loop(), std::move(what)));
  const std::shared_ptr<One>& one = waiting.one;
  if (calls_.ending()) {
    Ones alone(1, one);
    co_await send(calls_, std::move(alone));
    co_return std::move(*one->answer);
  }
  waiting_.push_back(one);
  if (waiting_.size() >= kMost || async::buggify(calls_.loop())) {
    hurry();
  } else if (timer_ == 0) {
    timer_ = calls_.loop().at(calls_.loop().now() + kHold, [this] {
      timer_ = 0;
      hurry();
    });
  }
  while (!one->answer) (void)co_await one->ended.wait_until(async::TimePoint::max());
  co_return std::move(*one->answer);
}

void CloseBatch::hurry() {
  if (timer_ != 0) calls_.loop().cancel(std::exchange(timer_, 0));
  if (!waiting_.empty()) calls_.beside().spawn(send(calls_, std::exchange(waiting_, {})));
}

async::Task<void> CloseBatch::send(Calls& calls, Ones all) {
  while (!all.empty()) {
    std::erase_if(all, [](const auto& one) {
      if (one->abandoned) return true;
      if (one->what.wanted()) return false;
      one->end(std::optional<nfsstat4>());
      return true;
    });
    if (all.empty()) co_return;
    // Those of one user are vouched for together.
    const Closing& first = all.front()->what;
    const auto other = std::ranges::find_if(all, [&first](const auto& one) {
      return one->what.caller != first.caller || one->what.file.mark != first.file.mark;
    });
    constexpr std::size_t kEach = 2;  // operations; SEQUENCE is one more
    const std::size_t room = std::max<std::size_t>(1, (calls.facts().max_operations - 1) / kEach);
    const auto count = std::min({static_cast<std::size_t>(other - all.begin()), room, kMost});
    const std::size_t answered = co_await send_some(calls, std::span(all).first(count));
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(answered));
  }
}

async::Task<std::size_t> CloseBatch::send_some(Calls& calls, std::span<const std::shared_ptr<One>> some) {
  const Closing& first = some.front()->what;
  Compound compound = calls.begin("CLOSE", first.caller, first.file.mark);
  for (const auto& one : some) {
    compound.add<op::PUTFH>({one->what.file});
    compound.add<op::CLOSE>({0, one->what.stateid});
  }
  auto reply = co_await calls.call(std::move(compound));
  if (!reply) {
    for (const auto& one : some) one->end(reply.error());
    co_return some.size();
  }
  std::size_t answered = 0;
  for (const auto& one : some) {
    ++answered;
    const bool closed = reply->take<op::PUTFH>() && reply->take<op::CLOSE>();
    if (closed) {
      one->end(std::optional(NFS4_OK));
      continue;
    }
    const nfsstat4 status = reply->failed_status();
    if (status == NFS4_OK) {
      one->end(calls.error_of(*reply, "CLOSE", calls.server()));
    } else {
      one->end(std::optional(status));
    }
    break;
  }
  co_return answered;
}

}  // namespace nfsrdma::nfs4
