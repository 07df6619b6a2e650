// The receive side of a queue pair: ReceiveBuffers in the order posted, and the pieces of the slab that the
// device fills for them. Internal.
//
// The device fills its work requests in order, and each stands for the next ReceiveBuffer: the message is
// copied from the slab into that buffer. Buffers beyond the size of the device's queue wait here.
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
  /// Posts as many Receives as the device has room for. Returns 0, or the errno of a device that refuses.
  [[nodiscard]] int flush();
  /// Returns the message of a successful completion. Its piece of the slab becomes free.
  [[nodiscard]] ReceiveBuffer take(const ibv_wc& completion);

 private:
  Endpoint& endpoint_;
  std::deque<ReceiveBuffer> buffers_;
  std::size_t with_device_ = 0;  // how many of buffers_, from the front, are posted to the device
  std::vector<std::uint32_t> free_pieces_;
};

}  // namespace nfsrdma::fabric::verbs
