#include "nfs4/state/recovery.h"

#include "async/backoff.h"

namespace nfsrdma::nfs4 {

using namespace std::chrono_literals;

Recovery::Recovery(CallLayer& calls, const char* what, engine::ServerCounters& counters,
                   std::chrono::milliseconds timeout)
    : calls_(calls), timeout_(timeout), ended_(calls.loop()), what_(what), counters_(counters) {}

void Recovery::start(const char* why, bool works) {
  if (under_way_ || calls_.phase() != CallLayer::Phase::open) return;
  under_way_ = true;
  began();
  ++counters_.recoveries;
  calls_.notice(calls_.server() + ": " + why + ", recovering");
  calls_.background().spawn(run(works));
}

async::Task<void> Recovery::prepare(bool /*works*/) {
  co_return;
}

async::Task<void> Recovery::run(bool works) {
  co_await prepare(works);
  async::Backoff delay(100ms, 5s);
  for (;;) {
    const auto done = co_await try_once(calls_.loop().now() + timeout_, works);
    if (done) break;
    last_error_ = done.error();
    co_await calls_.loop().sleep_for(delay.take());
  }
  last_error_.reset();
  under_way_ = false;
  calls_.notice(calls_.server() + ": " + what_);
  finished();
  ended_.notify_all();
}

}  // namespace nfsrdma::nfs4
