// The statistics of a mount as text: what .nfsrdma-stats has and SIGUSR1 writes. man/nfsrdma-fuse.8 describes
// each line for users; what is there keeps its name and its meaning for as long as kStatisticsFormat stands.
//
// Lines of words: a section, as often a name, then "key=value". A latency is five of those, see man page.
//
// Needs nothing of libfuse, and no mount: a Picture has all that is told.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/statistics.h"
#include "fs/counters.h"
#include "fuse/options.h"
#include "fuse/request_counters.h"
#include "fuse/ring_counters.h"
#include "nfsrdma/client.h"
#include "rpcrdma/requester.h"

namespace nfsrdma::fuse {

constexpr unsigned kStatisticsFormat = 1;
/// Of the file in the root of a mount.
constexpr std::string_view kStatisticsName = ".nfsrdma-stats";

/// A mount at a moment. What it refers to must live as long as it does.
struct Picture {
  struct Connection {
    bool up = false;
    std::string address, fabric;
    std::uint32_t credits_in_use = 0;
    std::size_t pending = 0;
    rpcrdma::Facts facts;
  };
  const MountOptions& options;
  std::chrono::steady_clock::duration age{};
  std::uint32_t rsize = 0, wsize = 0;
  const RequestCounters& requests;
  Info info;
  const engine::ServerCounters& server;
  engine::ServerHoldings server_holdings;
  std::vector<Connection> connections;
  const fs::Counters& data;
  fs::Holdings data_holdings;
  const RingCounters* rings = nullptr;  ///< null: `noring`
  std::uint64_t ring_bytes = 0;  ///< of all rings' data, with those that have ended and are still in use
  std::size_t kernel_ahead = 0;  ///< what the kernel was told to read ahead; 0: it was told nothing
};

/// As they could be given to -o.
std::string options_text(const MountOptions& options);
std::string statistics_text(const Picture& picture);

}  // namespace nfsrdma::fuse
