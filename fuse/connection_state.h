// The state of a connection at one moment, for the statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rpc/channel.h"

namespace nfsrdma::fuse {

struct ConnectionState {
  bool up = false;
  std::string address, fabric;
  std::uint32_t credits_in_use = 0;
  std::size_t pending = 0;
  rpcrdma::Facts facts;
  /// Called on the thread of the channel's loop.
  [[nodiscard]] static ConnectionState of(const rpc::Channel& channel) {
    return {channel.up(),    channel.address(), channel.established().fabric, channel.credits_in_use(),
            channel.calls(), channel.facts()};
  }
};

}  // namespace nfsrdma::fuse
