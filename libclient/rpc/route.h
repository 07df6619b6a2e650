// Chooses which of several connections to one server takes the next call: the one with the fewest bytes in
// progress.
//
// Everything on a connection comes in order, so a reply that is behind bulk data waits for it: listing a
// directory would wait for some MiB of another user's copying. Therefore the first connection is kept nearly
// free of bulk: it takes one such call at a time, and only if no other connection has less to do. Small
// calls therefore find a connection on which they wait for one bulk call at most.
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
  /// `size` is the number of data bytes that the call moves.
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
  Channel* best_ = nullptr;  // the best of those that may take the call
};

/// Chooses one of `channels`, which must not be empty.
inline Channel& route(std::span<Channel* const> channels, std::size_t size) {
  Route route(size);
  for (Channel* one : channels) route.consider(*one);
  return *route.best();
}

}  // namespace nfsrdma::rpc
