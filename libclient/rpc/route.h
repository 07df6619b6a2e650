// Which of several connections to one server takes the next call: the one with the fewest bytes to do.
//
// On a connection everything comes in its order, and so what is asked for behind bulk waits for it: a look at a directory for
// some MiB of somebody's copying. So the first one is kept nearly free of bulk: it takes one such call at a time, and only
// where no other has less to do, and what is small has a way there.
//
//     Route route(compound.data_size());
//     for (… each that may be used, in the same order always …) route.consider(channel);
//     rpc::Channel* const best = route.best();      // nullptr: there was none
#pragma once

#include <cstddef>
#include <span>

#include "rpc/channel.h"

namespace nfsrdma::rpc {

class Route {
 public:
  /// `size`: of the data that the call moves.
  explicit Route(std::size_t size) : is_bulk_(size >= rpcrdma::kBulk) {}

  void consider(Channel& channel) {
    const bool keeps_free = is_bulk_ && !first_ && channel.bulk_calls() != 0;
    if (!first_) first_ = &channel;
    if (keeps_free) return;
    if (best_ == nullptr || channel.load() < best_->load()) best_ = &channel;
  }
  [[nodiscard]] Channel* best() const { return best_ != nullptr ? best_ : first_; }

 private:
  const bool is_bulk_;
  Channel* first_ = nullptr;
  Channel* best_ = nullptr;  // of those that may take it
};

/// Of all of these; there is one at least.
inline Channel& route(std::span<Channel* const> channels, std::size_t size) {
  Route route(size);
  for (Channel* one : channels) route.consider(*one);
  return *route.best();
}

}  // namespace nfsrdma::rpc
