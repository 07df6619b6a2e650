// Carriers (fabric/carrier.h) on the one loop that a host has: what is ordered and reported is late, each way and each of
// them by its own times, so that whatever may happen in between does.
#pragma once

#include <deque>
#include <memory>

#include "fabric/carrier.h"
#include "sim/simulation.h"

namespace nfsrdma::sim::detail {

class SimCarrier final : public fabric::Carrier, public std::enable_shared_from_this<SimCarrier> {
 public:
  explicit SimCarrier(Host& host) : host_(host) {}

  void order(fabric::Order order) override;
  void hand_over() override;
  void settle() override;
  async::Loop& loop() override { return host_.loop(); }
  void report(fabric::News news) override;

 private:
  void later(void (SimCarrier::*then)());
  void carry_out_all();
  void tell_all();

  Host& host_;
  std::deque<fabric::Order> ordered_;
  std::deque<fabric::News> reported_;
  bool order_leaves_ = false, news_leave_ = false;
};

}  // namespace nfsrdma::sim::detail
