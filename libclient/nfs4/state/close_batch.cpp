#include "nfs4/state/close_batch.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "async/buggify.h"
#include "wire/nfs4/status.h"

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
  if (one->what.urgent || waiting_.size() >= kMost || async::buggify(calls_.loop())) {
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
  if (!waiting_.empty()) calls_.background().spawn(send(calls_, std::exchange(waiting_, {})));
}

async::Task<void> CloseBatch::send(CallLayer& calls, Ones all) {
  while (!all.empty()) {
    std::erase_if(all, [](const auto& one) {
      if (one->abandoned) return true;
      if (one->what.wanted()) return false;
      one->end(std::optional<nfsstat4>());
      return true;
    });
    if (all.empty()) co_return;
    // A COMPOUND takes files of one caller and one security flavour only, because one credential
    // vouches for all of it.
    const Closing& first = all.front()->what;
    const auto other = std::ranges::find_if(all, [&first](const auto& one) {
      return one->what.caller != first.caller || one->what.file.mark != first.file.mark;
    });
    const auto count = std::min(static_cast<std::size_t>(other - all.begin()), kMost);
    const std::size_t answered = co_await send_some(calls, std::span(all).first(count));
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(answered));
  }
}

async::Task<std::size_t> CloseBatch::send_some(CallLayer& calls, std::span<const std::shared_ptr<One>> some) {
  constexpr std::size_t kEach = 3;  // operations for one file, at most; SEQUENCE is counted apart
  const Closing& first = some.front()->what;
  Compound compound = calls.begin("CLOSE", first.caller, first.file.mark);
  std::array<bool, kMost> returns{};
  std::size_t sent = 0;
  for (std::size_t operations = 1; sent < some.size(); ++sent) {
    if (sent != 0 && operations + kEach > calls.facts().max_operations) break;
    const Closing& what = some[sent]->what;
    compound.add<op::PUTFH>({what.file});
    compound.add<op::CLOSE>({0, what.stateid});
    operations += 2;
    // DELEGRETURN comes last, because a refusal of it must not keep the file open.
    if (const auto delegation = what.delegation()) {
      compound.add<op::DELEGRETURN>({calls.to_keep(*delegation)});
      returns.at(sent) = true;
      ++operations;
    }
  }
  some = some.first(sent);
  auto reply = co_await calls.call(std::move(compound));
  if (!reply) {
    for (const auto& one : some) one->end(reply.error());
    co_return some.size();
  }
  std::size_t answered = 0;
  for (const auto& one : some) {
    const bool returned = returns.at(answered++);
    if (reply->take<op::PUTFH>() && reply->take<op::CLOSE>()) {
      const bool refused = returned && !reply->take<op::DELEGRETURN>();
      if (returned && !refused && !one->abandoned) one->what.on_returned();
      one->end(std::optional(NFS4_OK));
      if (refused) break;
      continue;
    }
    const nfsstat4 status = reply->failed_status();
    if (retry_of(status) == Retry::later && answered > 1) {
      // This CLOSE begins the next COMPOUND, because ClientLease::call_loop() waits and repeats only if the
      // first CLOSE is refused.
      --answered;
    } else if (status == NFS4_OK) {
      one->end(calls.error_of(*reply, "CLOSE", calls.server()));
    } else {
      one->end(std::optional(status));
    }
    break;
  }
  co_return answered;
}

}  // namespace nfsrdma::nfs4
