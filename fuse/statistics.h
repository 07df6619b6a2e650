// The statistics of a mount as text: the content of .nfsrdma-stats, which SIGUSR1 logs as well. metrics.h and
// mountstats.h show them in the formats of other tools.
// man/nfsrdma-fuse.8 describes each line for users. A line keeps its name and its meaning for as long as
// kStatisticsFormat does not change.
//
// Each line is a row of words: a section, often a name, then "key=value". A latency is five of those, see the
// man page.
//
// Depends neither on libfuse nor on a mount: a Picture has all the values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/statistics.h"
#include "fs/counters.h"
#include "fuse/connection_state.h"
#include "fuse/mount_options.h"
#include "fuse/request_counters.h"
#include "fuse/ring_counters.h"
#include "fuse/shard_counters.h"
#include "nfsrdma/info.h"

namespace nfsrdma::fuse {

constexpr unsigned kStatisticsFormat = 1;
/// Name of the file in the root of a mount.
constexpr std::string_view kStatisticsName = ".nfsrdma-stats";
/// The values of a mount at one moment. Objects that a Picture refers to must outlive it.
struct Picture {
  using Connection = ConnectionState;
  const MountOptions& options;
  std::chrono::steady_clock::duration age{};
  std::uint32_t rsize = 0, wsize = 0;
  const RequestCounters& requests;
  Info info;
  const engine::ServerCounters& server;
  engine::ServerHoldings server_holdings;
  std::vector<Connection> connections;  ///< those of shards come last
  const fs::Counters& data;
  fs::Holdings data_holdings;
  /// Null if the mount has no shards.
  const ShardCounters* shards = nullptr;
  std::size_t shards_working = 0;
  const RingCounters* rings = nullptr;  ///< null: `noring`
  /// Bytes of data of all rings, including rings that have ended and are still in use.
  std::uint64_t ring_bytes = 0;
  std::size_t kernel_ahead = 0;  ///< bytes that the kernel was set to read ahead; 0: it was not set
  std::string trace = {};        ///< the text of the file that switches the trace
};

/// Returns the options in a form that could be given to -o.
std::string options_text(const MountOptions& options);
/// Makes a text of a Picture, in one format.
using Show = std::string (*)(const Picture& picture);
std::string statistics_text(const Picture& picture);
/// Returns whether there is a trace, and where.
std::string trace_text(const Picture& picture);
/// Returns the options with negotiated values in place of the requested ones.
MountOptions options_in_force(const Picture& picture);

}  // namespace nfsrdma::fuse
