// The seam between Server and one version of NFS: how the version's engine is started and ended, and what the
// version reports about itself.
//
// Server (server.h) tries the versions in their order, and keeps the first one that the server speaks. To add
// a version, add a function at the end of this file.
//
// Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aux/mountd.h"
#include "connect/server.h"
#include "engine/engine.h"
#include "nfsrdma/info.h"
#include "rpc/channel.h"

namespace nfsrdma::connect {

/// Time limit for messages at the end that the server can do without.
inline constexpr std::chrono::seconds kFarewell{2};

/// The objects that a Protocol uses. All of them belong to the Server, which outlives the Protocol.
struct Ground {
  const Target& target;
  const std::vector<rpc::Address>& addresses;
  const Surroundings& surroundings;
  const std::vector<std::unique_ptr<rpc::Channel>>& channels;  ///< the first is connected
  const std::shared_ptr<security::Flavor>& flavor;
  const Server::NoticeSink& notices;
  std::optional<std::chrono::milliseconds> patience;
};

class Protocol {
 public:
  Protocol() = default;
  virtual ~Protocol();
  Protocol(const Protocol&) = delete;
  Protocol& operator=(const Protocol&) = delete;

  /// Starts the version. EPROTONOSUPPORT: the server does not speak it. After any Error the server keeps no
  /// state of this client.
  virtual async::Task<Status> begin(async::TimePoint deadline) = 0;
  /// Ends the version on the server. The engine must no longer be in use.
  virtual async::Task<Status> close(async::TimePoint deadline) = 0;

  /// The version of the NFS program.
  [[nodiscard]] virtual unsigned number() const = 0;

  // ---- valid once begin() has succeeded ----
  [[nodiscard]] virtual const std::shared_ptr<engine::Engine>& engine() const = 0;
  /// The largest READ and the largest WRITE that the server accepts, in bytes.
  [[nodiscard]] virtual std::size_t most_read() const = 0;
  [[nodiscard]] virtual std::size_t most_written() const = 0;
  /// How long the server keeps this client's state without hearing from it; a long time if the server keeps
  /// no state.
  [[nodiscard]] virtual std::chrono::seconds lease() const = 0;
  /// Makes a shard (engine/shard.h) with this number, in place of the one before it. `channel`: its connection, on its
  /// loop, which nothing else uses and which must outlive it.
  virtual async::Task<Result<std::unique_ptr<engine::Shard>>> make_shard(std::size_t number,
                                                                         rpc::Channel& channel,
                                                                         async::TimePoint deadline);
  /// Has shards make WRITEs from now on, as far as `shards` takes them; null: no more. `shards` must stay until then.
  virtual void use_shards(engine::ShardCalls* /*shards*/) {}
  /// Fills in the fields of `info` that depend on the version.
  virtual void describe(Info& info) const = 0;
};

/// Returns how many calls may be in flight. On the verbs fabric each call pins its buffer in memory, and the
/// system refuses to register more than its limit on locked memory.
std::uint32_t most_calls(const Options& options, const fabric::Established& established);
/// Returns how to reach the mount service, as the target's options say.
aux::MountOptions mount_options(const Target& target, std::vector<rpc::Address> addresses);

/// all_of() returns all channels in their order. those_here() leaves out those that lead to other addresses;
/// NFSv4.0 uses it because nothing proves that another address belongs to the same server.
std::vector<rpc::Channel*> all_of(const Ground& ground);
std::vector<rpc::Channel*> those_here(const Ground& ground);

std::unique_ptr<Protocol> nfs4_protocol(const Ground& ground);
std::unique_ptr<Protocol> nfs40_protocol(const Ground& ground);
std::unique_ptr<Protocol> nfs3_protocol(const Ground& ground);
std::unique_ptr<Protocol> nfs2_protocol(const Ground& ground);

}  // namespace nfsrdma::connect
