#include "sim/fabric/carrier.h"

#include <utility>

namespace nfsrdma::sim::detail {
namespace {

constexpr Duration kLongest = std::chrono::milliseconds(2);

}  // namespace

/// Now and then at once: in the next turn.
void SimCarrier::later(void (SimCarrier::*then)()) {
  Random& random = host_.simulation().random();
  const Duration delay = random.one_in(2) ? Duration{} : random.between(Duration{}, kLongest);
  host_.loop().at(host_.loop().now() + delay, [token = weak_from_this(), then] {
    if (const auto self = token.lock()) (self.get()->*then)();
  });
}

void SimCarrier::order(fabric::Order order) {
  ordered_.push_back(std::move(order));
  hand_over();
}

void SimCarrier::hand_over() {
  if (!ordered_.empty() && !std::exchange(order_leaves_, true)) later(&SimCarrier::carry_out_all);
}

void SimCarrier::settle() {
  carry_out_all();
}

void SimCarrier::report(fabric::News news) {
  reported_.push_back(std::move(news));
  if (!std::exchange(news_leave_, true)) later(&SimCarrier::tell_all);
}

void SimCarrier::carry_out_all() {
  order_leaves_ = false;
  while (!ordered_.empty()) {
    fabric::Order one = std::move(ordered_.front());
    ordered_.pop_front();
    carry_out(one);
  }
}

void SimCarrier::tell_all() {
  news_leave_ = false;
  // Those that are reported meanwhile come later.
  std::deque<fabric::News> all = std::exchange(reported_, {});
  for (fabric::News& one : all) tell(one);
}

}  // namespace nfsrdma::sim::detail
