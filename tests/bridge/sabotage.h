// What the faults do to one Reply, and to one connection's private data. Pure: decides and changes plans; the
// session does what they say.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "bridge/fault.h"
#include "bridge/reduce.h"

namespace nfsrdma::bridge {

/// How one Reply goes to the client.
struct Delivery {
  ReplyPlan plan;
  xdr::Buffer message;              ///< what is sent; plan composed, and changed
  std::vector<xdr::Buffer> before;  ///< messages to send in front of it
  std::chrono::milliseconds delay{0};
  bool drop = false;        ///< do not send it
  bool twice = false;       ///< send it twice
  bool behind = false;      ///< send it after the next one
  bool disconnect = false;  ///< end the connection instead
  bool cut_write = false;   ///< begin the first RDMA Write, and end the connection in its middle
  bool late_write = false;  ///< write rubbish into its chunks some time after it has been sent
};

/// Plans the Reply, with the faults that strike. `number`: counts the Replies of the connection from 1.
/// `receive_size`: of the client's Receives.
[[nodiscard]] Delivery plan_delivery(const Offer& offer, ConstBytes reply, const Limits& limits,
                                     std::uint64_t number, std::uint32_t receive_size, Faults& faults);

/// What to announce on a new connection, where the usual is `usual` (RFC 8797).
[[nodiscard]] std::vector<std::byte> sabotaged_private_data(std::vector<std::byte> usual, Faults& faults);

}  // namespace nfsrdma::bridge
