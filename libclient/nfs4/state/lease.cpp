#include "nfs4/state/lease.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::nfs4 {
namespace {

/// Shortest time after which a silent connection is checked. No server has a lease so short that this would
/// be too long, and a server that is merely busy needs time to answer.
constexpr std::chrono::milliseconds kLeastCheck(1000);

}  // namespace

void Lease::renewed(const Sent& sent) {
  last_ = std::max(last_, sent.when);
  until_ = std::max(until_, sent.lease + std::chrono::seconds(calls_.facts().lease_seconds));
}

void Lease::arm() {
  stop();
  const std::chrono::milliseconds check(std::int64_t{calls_.facts().lease_seconds} * 375);
  calls_.check_connections(std::max(check, kLeastCheck));
  const auto third = std::chrono::milliseconds(std::int64_t{calls_.facts().lease_seconds} * 1000 / 3 + 1);
  timer_ = calls_.loop().at(last_ + third, [this, third] {
    timer_ = 0;
    if (calls_.loop().now() - last_ >= third) {
      last_ = calls_.loop().now();
      renew_now();
    }
    arm();
  });
}

void Lease::stop() {
  if (timer_ != 0) calls_.loop().cancel(std::exchange(timer_, 0));
}

void Lease::renew_now() {
  if (!renewing_ && !calls_.ending()) calls_.background().spawn(renew());
}

async::Task<void> Lease::renew() {
  renewing_ = true;
  auto reply = co_await calls_.call(calls_.renewal(),
                                    calls_.loop().now() + std::chrono::seconds(calls_.facts().lease_seconds));
  renewing_ = false;
}

}  // namespace nfsrdma::nfs4
