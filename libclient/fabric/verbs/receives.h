// The receive side of a queue pair: ReceiveBuffers in the order posted, and the slab's pieces in front of
// them. Internal.
//
// The device fills its work requests in order, and each stands for the next ReceiveBuffer: the message is
// copied from the slab into that one. Buffers beyond what the device's queue holds wait their turn.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "fabric/verbs/endpoint.h"

namespace nfsrdma::fabric::verbs {

class Receives {
 public:
  explicit Receives(Endpoint& endpoint);

  void add(ReceiveBuffer buffer) { buffers_.push_back(std::move(buffer)); }
  /// Gives the device what it has room for. 0, or the errno of a device that refuses.
  [[nodiscard]] int flush();
  /// The message of a completion that reports success. Its piece of the slab is free again.
  [[nodiscard]] ReceiveBuffer take(const ibv_wc& completion);

 private:
  Endpoint& endpoint_;
  std::deque<ReceiveBuffer> buffers_;
  std::size_t with_device_ = 0;  // of buffers_, from the front
  std::vector<std::uint32_t> free_pieces_;
};

}  // namespace nfsrdma::fabric::verbs
