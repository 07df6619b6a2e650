#include "fabric/verbs/receives.h"

#include <array>
#include <cstring>
#include <numeric>

namespace nfsrdma::fabric::verbs {

Receives::Receives(Endpoint& endpoint) : endpoint_(endpoint), free_pieces_(endpoint.depth.receives) {
  std::iota(free_pieces_.begin(), free_pieces_.end(), 0U);
}

int Receives::flush() {
  constexpr std::size_t batch = 32;
  struct Request {
    ibv_recv_wr wr;
    ibv_sge sge;
  };
  std::array<Request, batch> requests;  // NOLINT(cppcoreguidelines-pro-type-member-init): as far as used
  while (with_device_ < buffers_.size() && !free_pieces_.empty()) {
    std::size_t count = 0;
    for (; count < batch && with_device_ < buffers_.size() && !free_pieces_.empty(); ++count) {
      const std::uint32_t piece = free_pieces_.back();
      free_pieces_.pop_back();
      // Offer no more room than the buffer has, so that the device refuses a longer message.
      const std::size_t room =
          std::min(buffers_[with_device_].storage().size(), endpoint_.receive_slab.piece());
      Request& request = requests[count];
      request = {};
      request.sge = {reinterpret_cast<std::uintptr_t>(endpoint_.receive_slab.at(piece)),
                     static_cast<std::uint32_t>(room), endpoint_.receive_slab.key()};
      request.wr.wr_id = piece;
      request.wr.sg_list = &request.sge;
      request.wr.num_sge = 1;
      if (count != 0) requests[count - 1].wr.next = &request.wr;
      ++with_device_;
    }
    ibv_recv_wr* refused = nullptr;
    if (const int failed = ibv_post_recv(endpoint_.qp(), &requests.front().wr, &refused); failed != 0) {
      return failed;
    }
  }
  return 0;
}

ReceiveBuffer Receives::take(const ibv_wc& completion) {
  ReceiveBuffer buffer = std::move(buffers_.front());
  buffers_.pop_front();
  --with_device_;
  const auto piece = static_cast<std::uint32_t>(completion.wr_id);
  const std::size_t length = std::min<std::size_t>(completion.byte_len, buffer.storage().size());
  std::memcpy(buffer.storage().data(), endpoint_.receive_slab.at(piece), length);
  buffer.set_length(length);
  free_pieces_.push_back(piece);
  return buffer;
}

}  // namespace nfsrdma::fabric::verbs
